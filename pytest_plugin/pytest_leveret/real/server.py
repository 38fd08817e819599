"""The RabbitMQ server of a run with `--leveret-real`, and how a test that it cannot judge is skipped."""

from __future__ import annotations

from typing import Final, NoReturn
from urllib.parse import unquote, urlsplit

import pytest

from pytest_leveret.rehearsals.management import Management, ManagementError, url_beside

# How the reason of a skip begins.
NEEDS: Final = "a real RabbitMQ cannot run this test: "


class Server:
    """The RabbitMQ server of a run."""

    def __init__(self, amqp_url: str, management_url: str | None, wait_s: float) -> None:
        """Raises ManagementError if the server cannot be reached or is not a RabbitMQ."""
        self.parts = urlsplit(amqp_url)
        if self.parts.scheme != "amqp" or not self.parts.hostname:
            raise ManagementError(f"{amqp_url!r} is not an AMQP URL; write it as in amqp://guest:guest@localhost:5672")
        self.address = (self.parts.hostname, self.parts.port or 5672)
        self.management = Management(management_url or url_beside(amqp_url))
        self.user = unquote(self.parts.username or "guest")
        self.password = unquote(self.parts.password or "guest")
        self.wait_s = wait_s
        self.version = str(self.management.ask("GET", "overview")["rabbitmq_version"])


def skip(needed: str) -> NoReturn:
    """Skip the test, and say what it needs."""
    pytest.skip(f"{NEEDS}it needs {needed}")
