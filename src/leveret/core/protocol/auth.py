"""Login mechanisms: who a client says it is, and the proof it gives.

A mechanism reads a response and answers with a user name and a password, with a challenge, or with None for a response
it cannot read. Whether the password is right is the node's business.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from leveret.core.wire.errors import WireError
from leveret.core.wire.values import Table

CR_DEMO_CHALLENGE: Final = b"Please tell me your password"
_CR_DEMO_ANSWER: Final = b"My password is "


class Credentials(NamedTuple):
    """What a client claims; `password` None means that the mechanism asks for none."""

    user: str
    password: str | None


class Challenge(NamedTuple):
    """A question that has to be answered by secure-ok before the credentials are whole."""

    question: bytes
    user: str


Answer = Credentials | Challenge | None


def plain(response: bytes) -> Answer:
    """PLAIN (RFC 4616) with an empty authorisation identity; any other is malformed to RabbitMQ."""
    parts = response.split(b"\0", 2)
    if len(parts) != 3 or parts[0]:
        return None
    return Credentials(_text(parts[1]), _text(parts[2]))


def amqplain(response: bytes) -> Answer:
    """AMQPLAIN: a field table without its length, with LOGIN and PASSWORD as long strings."""
    try:
        table = Table.decode(response)
    except WireError:
        return None
    login, password = table.get("LOGIN"), table.get("PASSWORD")
    if login is None or password is None or not isinstance(login.value, bytes) or not isinstance(password.value, bytes):
        return None
    return Credentials(_text(login.value), _text(password.value))


def anonymous(_response: bytes) -> Answer:
    """ANONYMOUS: whatever is sent, the configured anonymous user."""
    return Credentials("guest", None)


def rabbit_cr_demo(response: bytes) -> Answer:
    """RABBIT-CR-DEMO: the user's name, then a challenge for the password."""
    return Challenge(CR_DEMO_CHALLENGE, _text(response))


def external(certificate_name: str | None) -> Answer:
    """EXTERNAL: whom the client's certificate names; without a certificate nobody, who is refused."""
    return Credentials(certificate_name or "", None)


def cr_demo_answer(challenge: Challenge, response: bytes) -> Answer:
    """The second step of RABBIT-CR-DEMO."""
    if not response.startswith(_CR_DEMO_ANSWER):
        return None
    return Credentials(challenge.user, _text(response[len(_CR_DEMO_ANSWER) :]))


MECHANISMS: Final[dict[str, Callable[[bytes], Answer]]] = {
    "PLAIN": plain,
    "AMQPLAIN": amqplain,
    "ANONYMOUS": anonymous,
    "RABBIT-CR-DEMO": rabbit_cr_demo,
}


def _text(octets: bytes) -> str:
    return octets.decode("utf-8", "surrogateescape")
