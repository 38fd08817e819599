"""The tests of the mailer."""

import pytest
from mailer import Mail, Mailer

REQUEST = {
    "request_id": "r-1",
    "requested_by": "crm",
    "template": "welcome",
    "recipient": {"name": "Ada", "address": "ada@example.org", "locale": "en"},
    "values": {"shop": "Teahouse"},
    "subject": "Welcome!",
    "reply_to": "help@example.org",
    "priority": "high",
    "campaign": "spring",
}


@pytest.mark.asyncio
async def test_a_mail_is_sent(leveret):
    sent = []

    async def send(mail):
        sent.append(mail)

    leveret.declare_queue("mails.log")
    async with Mailer(leveret.url, send):
        leveret.publish("", "mails", json=REQUEST)
        await leveret.aio.assert_acked("mails", timeout=5)

    text = "Hello Ada, welcome to Teahouse."
    assert sent == [Mail("ada@example.org", "Welcome!", text, "help@example.org", is_urgent=True)]
    leveret.assert_published("", routing_key="mails.log", json={"request_id": "r-1", "status": "sent"})


@pytest.mark.asyncio
async def test_a_mail_that_takes_too_long_is_parked(leveret):
    async def send(mail):
        raise TimeoutError

    async with Mailer(leveret.url, send):
        leveret.publish("", "mails", json=REQUEST)
        await leveret.aio.assert_ready("mails.parked", timeout=5)
