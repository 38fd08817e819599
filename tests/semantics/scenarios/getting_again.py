"""A quorum queue whose messages are got, one at a time, and given back: which comes next."""

from __future__ import annotations

from ..scenario import Channel, Run, scenario
from .quorum import quorum


def filled(s: Run, **arguments: object) -> Channel:
    """Return a channel on which ``q`` holds three messages."""
    ch = quorum(s, **arguments)
    ch.fill("q", "m0", "m1", "m2")
    return ch


def give_back(s: Run, way: str, on_new_channel: bool, count: int = 5, **arguments: object) -> None:
    """Get a message and give it back, several times."""
    ch = filled(s, **arguments)
    for _ in range(count):
        getter = s.channel() if on_new_channel else ch
        delivery = getter.get("q")
        if way == "nack":
            getter.nack(delivery)
        elif way == "reject":
            getter.reject(delivery)
        elif way == "recover":
            getter.recover()
        if on_new_channel:
            getter.close()
        ch.await_count("q", 3)


@scenario
def nacked(s: Run) -> None:
    give_back(s, "nack", on_new_channel=False)


@scenario
def rejected(s: Run) -> None:
    give_back(s, "reject", on_new_channel=False)


@scenario
def recovered(s: Run) -> None:
    give_back(s, "recover", on_new_channel=False)


@scenario
def nacked_on_a_channel_that_closes(s: Run) -> None:
    give_back(s, "nack", on_new_channel=True)


@scenario
def rejected_on_a_channel_that_closes(s: Run) -> None:
    give_back(s, "reject", on_new_channel=True)


@scenario
def kept_on_a_channel_that_closes(s: Run) -> None:
    give_back(s, "close", on_new_channel=True)


@scenario
def nacked_with_a_delivery_limit(s: Run) -> None:
    give_back(s, "nack", on_new_channel=False, delivery_limit=50)


@scenario
def kept_on_a_channel_that_closes_with_a_delivery_limit(s: Run) -> None:
    give_back(s, "close", on_new_channel=True, delivery_limit=50)
