"""The tests of the service dramatiq_images."""

from __future__ import annotations

from collections.abc import Iterator

import dramatiq
import images
import pytest


@pytest.fixture(autouse=True)
def worker(leveret_session, monkeypatch: pytest.MonkeyPatch) -> Iterator[dramatiq.Worker]:
    monkeypatch.setattr("dramatiq.worker.CONSUMER_RESTART_DELAY_SECS", 0.05)
    images.made.clear()
    images.notes.clear()
    worker = dramatiq.Worker(images.broker, worker_threads=1, worker_timeout=20)
    worker.start()
    for queue in ("images", "notes"):
        leveret_session.wait_for_consumer(queue)
    yield worker
    worker.stop()


@pytest.mark.parametrize("path", ["a.png", "b.png"])
def test_an_upload_gets_its_thumbnails(leveret_session, path: str) -> None:
    images.upload(path)

    for size, pixels in (("small", 4096), ("large", 262144)):
        note = [path, {"size": size, "crop": size == "small", "pixels": pixels}]
        leveret_session.assert_acked("notes", json_contains={"args": note}, timeout=10)
    leveret_session.wait_idle(timeout=10)
    assert images.made == [(path, 64), (path, 512)]


@pytest.mark.parametrize("reason", [None, "spam"])
def test_thumbnails_are_removed(leveret_session, reason: str | None) -> None:
    images.made.append(("a.png", 64))
    images.remove.send("a.png", reason)

    leveret_session.assert_acked("images", json_contains={"args": ["a.png", reason]}, timeout=10)
    leveret_session.wait_idle(timeout=10)
    assert images.made == []
