"""The sizes that rabbitmqctl takes, as seen on 4.3.6 by `disk_free_limit` of the management API."""

from __future__ import annotations

import pytest

from leveret.http.rabbitmqctl.line import size_of


@pytest.mark.parametrize(
    ("text", "size"),
    [("7", 7), ("1k", 1024), ("1kB", 1000), ("1MiB", 2**20), ("1G", 2**30), ("1GiB", 2**30), ("1GB", 10**9)],
)
def test_a_size_with_a_unit_is_so_many_bytes(text: str, size: int) -> None:
    assert size_of(text) == size


@pytest.mark.parametrize("text", ["", "many", "5B", "1K", "1KiB", "1Mb", "1gb", "1Gib", "1TB", "1.5GB"])
def test_other_texts_are_refused(text: str) -> None:
    assert size_of(text) is None
