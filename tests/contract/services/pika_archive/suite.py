"""The tests of the service pika_archive."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from archive import Archive, Scanner


@pytest.fixture
def archive(leveret) -> Iterator[Archive]:
    archive = Archive(leveret.url)
    yield archive
    archive.close()


@pytest.fixture
def scanner(leveret, archive: Archive) -> Iterator[Scanner]:
    scanner = Scanner(leveret.url)
    yield scanner
    scanner.close()


@pytest.mark.parametrize("page", [b"\x89PNG", b"", b"a" * 5000])
def test_a_page_is_kept(leveret, archive: Archive, scanner: Scanner, page: bytes) -> None:
    scanner.scan(page, document=7)
    archive.take(1)

    assert archive.pages == [page]
    leveret.wait_idle()


def test_lines_of_the_log_are_no_pages(leveret, archive: Archive, scanner: Scanner) -> None:
    scanner.log(["one", "two"])
    archive.take(2)

    assert archive.pages == []
    leveret.wait_idle()
