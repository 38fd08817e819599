"""The tests of the service stream_users."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator

import pytest
import users


@pytest.fixture(autouse=True)
async def service(leveret_session) -> AsyncIterator[None]:
    leveret_session.reset()
    users.known.clear()
    async with users.broker:
        await users.broker.start()
        leveret_session.declare_queue("mailer")
        leveret_session.bind_queue("mailer", "users", "welcome")
        yield


@pytest.mark.parametrize("language", [None, "de", "fr"])
async def test_a_person_who_signs_up_is_welcomed(leveret_session, language: str | None) -> None:
    await users.ask_to_sign_up("Ada Lovelace", "ada@example.com", "correct horse", language=language)

    await leveret_session.aio.assert_acked("signups", times=1, timeout=5)
    welcome = leveret_session.assert_published("users", routing_key="welcome").json
    assert welcome["language"] == (language or "en")


async def test_a_user_is_deleted(leveret_session) -> None:
    await users.ask_to_sign_up("Grace Hopper", "grace@example.com", "battery staple")
    await leveret_session.aio.assert_acked("signups", times=1, timeout=5)
    await users.broker.publish(str(users.known["grace@example.com"]), "deletions", users.users)

    await leveret_session.aio.assert_acked("deletions", times=1, timeout=5)
    assert users.known == {}


async def test_an_unknown_user_is_no_error(leveret_session) -> None:
    await users.broker.publish(str(uuid.uuid4()), "deletions", users.users)

    await leveret_session.aio.assert_acked("deletions", times=1, timeout=5)
