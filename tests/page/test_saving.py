"""The saving of a page."""

from __future__ import annotations

import pytest

from leveret.story.whole_files import write
from tests.systems import files_up_to


def test_a_page_that_does_not_fit_on_the_disk_is_named(tmp_path):
    with files_up_to(1000), pytest.raises(OSError, match=r"File too large: '.*page\.html'"):
        write("x" * 2000, tmp_path / "page.html")

    assert list(tmp_path.iterdir()) == []
