"""The service on the event loop of each test; the broker has a thread of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from thumbnails import NoImageError, Thumbnailer, upload

from leveret import Broker


class Painter:
    """A stand-in for what makes thumbnails: it fails as often as `failures` says, and records the rest."""

    def __init__(self) -> None:
        self.failures: list[Exception] = []
        self.made: list[str] = []

    async def make(self, name: str) -> None:
        if self.failures:
            raise self.failures.pop(0)
        self.made.append(name)


@pytest.fixture
def painter() -> Painter:
    return Painter()


@pytest_asyncio.fixture(autouse=True)
async def service(leveret: Broker, painter: Painter) -> AsyncIterator[Thumbnailer]:
    async with Thumbnailer(leveret.url, painter.make, reconnect_interval_s=0.01) as service:
        yield service


async def test_a_thumbnail_is_made_once(leveret: Broker, painter: Painter) -> None:
    await upload(leveret.url, "hare.png")
    await leveret.aio.wait_idle()

    assert painter.made == ["hare.png"]
    leveret.assert_acked("images", body="hare.png", times=1)


async def test_a_failed_image_is_tried_again_after_one_minute_and_after_two(leveret: Broker, painter: Painter) -> None:
    painter.failures = [MemoryError(), MemoryError()]
    leveret.clock.hold()

    await upload(leveret.url, "hare.png")
    await leveret.aio.assert_requeued("images", reason="rejected", timeout=5)
    await leveret.aio.clock.advance(59)
    assert len(painter.failures) == 1
    await leveret.aio.clock.advance(1)
    assert painter.failures == []
    await leveret.aio.clock.advance(minutes=2)

    assert painter.made == ["hare.png"]


async def test_an_image_that_always_fails_is_set_aside(leveret: Broker, painter: Painter) -> None:
    painter.failures = [MemoryError()] * 100

    with leveret.clock.autojump():
        await upload(leveret.url, "huge.png")
        await leveret.aio.assert_dead_lettered("images", to="images.failed", reason="delivery_limit", timeout=5)

    assert len(painter.failures) == 97


async def test_a_file_that_is_not_an_image_is_set_aside_at_once(leveret: Broker, painter: Painter) -> None:
    painter.failures = [NoImageError()]

    await upload(leveret.url, "notes.txt")
    await leveret.aio.wait_idle()

    leveret.assert_dead_lettered("images", to="images.failed", reason="rejected", body="notes.txt", times=1)


async def test_the_service_consumes_again_after_a_restart(leveret: Broker, painter: Painter) -> None:
    leveret.restart()
    await leveret.aio.wait_for_consumer("images", timeout=5)

    await upload(leveret.url, "hare.png")
    await leveret.aio.wait_idle()

    assert painter.made == ["hare.png"]


async def test_an_image_is_painted_again_if_the_connection_is_lost_before_its_ack(
    leveret: Broker, painter: Painter
) -> None:
    leveret.faults.reset_peer(on="basic.ack")

    # A lost connection counts as a failure, so the image waits for a minute.
    with leveret.clock.autojump():
        await upload(leveret.url, "hare.png")
        await leveret.aio.assert_acked("images", body="hare.png", redelivered=True, timeout=5)

    assert painter.made == ["hare.png", "hare.png"]
