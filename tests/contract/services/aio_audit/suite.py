"""The tests of the service aio_audit."""

from __future__ import annotations

from collections.abc import AsyncIterator

import aio_pika
import pytest
from audit import Audit, Journal


@pytest.fixture(autouse=True)
async def audit(leveret) -> AsyncIterator[Audit]:
    async with await aio_pika.connect(leveret.url, client_properties={"connection_name": "audit"}) as connection:
        audit = Audit(await connection.channel())
        await audit.start()
        yield audit


@pytest.fixture
async def journal(leveret) -> AsyncIterator[Journal]:
    async with await aio_pika.connect(leveret.url, client_properties={"connection_name": "office"}) as connection:
        journal = Journal(await connection.channel())
        await journal.open()
        yield journal


@pytest.mark.parametrize("action", ["created", "changed", "deleted"])
async def test_an_act_is_kept(leveret, audit: Audit, journal: Journal, action: str) -> None:
    for number in range(3):
        await journal.record("ada", action, {"kind": "order", "number": number, "price": "4.50"})

    await leveret.aio.assert_acked("audit.public", times=3, timeout=5)
    assert [act["action"] for act in audit.kept] == [action] * 3


async def test_a_secret_act_is_kept_apart(leveret, audit: Audit, journal: Journal) -> None:
    await journal.record("grace", "changed", {"kind": "salary"}, secret=True)

    await leveret.aio.assert_acked("audit.secret", times=1, timeout=5)
    assert len(audit.kept) == 1
