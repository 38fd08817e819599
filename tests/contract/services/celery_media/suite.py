"""The tests of the service celery_media."""

from __future__ import annotations

from collections.abc import Iterator

import media
import pytest
from pytest_leveret.celery import running_worker


@pytest.fixture(autouse=True)
def broker(leveret_session) -> Iterator[object]:
    media.stored.clear()
    with running_worker(media.app):
        yield leveret_session


@pytest.mark.parametrize("width", [100, 200])
def test_an_image_is_fetched_resized_and_stored(leveret_session, width: int) -> None:
    media.take("https://example.com/a.png", width)

    leveret_session.assert_acked("media.slow", timeout=10)
    leveret_session.wait_idle(timeout=10)
    assert [image["width"] for image in media.stored] == [width]


def test_an_image_is_stored_elsewhere(leveret_session) -> None:
    media.store.delay({"url": "https://example.com/b.png"}, bucket="raw")

    leveret_session.wait_idle(timeout=10)
    assert [image["bucket"] for image in media.stored] == ["raw"]
