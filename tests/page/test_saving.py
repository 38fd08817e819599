"""The saving of a page."""

from __future__ import annotations

import signal

import pytest

from leveret.page.formats.saving import write


def test_a_page_that_does_not_fit_on_the_disk_is_named(tmp_path):
    resource = pytest.importorskip("resource")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
    try:
        with pytest.raises(OSError, match=r"File too large: '.*page\.html'"):
            write("x" * 2000, tmp_path / "page.html")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)

    assert list(tmp_path.iterdir()) == []
