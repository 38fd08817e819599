"""The tests of the thumbnails, with a worker in a thread."""

import pytest
from pytest_leveret.celery import running_worker
from thumbnails import app, make, store

PICTURE = {"name": "cat.png", "width": 1920, "height": 1080, "alt": "A cat", "camera": "X100"}


@pytest.fixture(autouse=True)
def worker(leveret):
    app.conf.broker_url = leveret.url
    store.pictures.clear()
    with running_worker(app, perform_ping_check=False):
        leveret.wait_for_consumer("thumbnails")
        yield


def test_a_picture_gets_its_thumbnails(leveret):
    make.delay(PICTURE, ["small", "large"], owner="Ada", trace="t-1")

    leveret.assert_acked("thumbnails", timeout=5)
    gallery = leveret.assert_published("", routing_key="gallery")
    assert gallery.json[1] == {"names": ["cat.png@small", "cat.png@large"], "alt": "A cat", "owner": "ada"}
    assert store.pictures == {"cat.png@small": (120, 67), "cat.png@large": (960, 540)}
