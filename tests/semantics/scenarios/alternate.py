"""Alternate exchanges."""

from __future__ import annotations

from ..scenario import Channel, Run, scenario


def with_alternate(ch: Channel, name: str, alternate: str, type: str = "direct") -> None:
    """Declare an exchange that has an alternate exchange."""
    ch.declare_exchange(name, type, arguments={"alternate-exchange": alternate})


@scenario
def what_has_no_route_goes_to_the_alternate(s: Run) -> None:
    ch = s.channel()
    with_alternate(ch, "x", "unrouted")
    ch.declare_exchange("unrouted", "fanout")
    ch.declare("q")
    ch.declare("rest")
    ch.bind("q", "x", "k")
    ch.bind("rest", "unrouted")
    ch.publish("x", "k", "1")
    ch.publish("x", "other", "2", mandatory=True)

    ch.await_count("q", 1)
    ch.await_count("rest", 1)
    ch.get("rest")


@scenario
def a_missing_alternate_is_no_route(s: Run) -> None:
    ch = s.channel()
    with_alternate(ch, "x", "missing")
    ch.publish("x", "k", "1", mandatory=True)

    ch.receive("basic.return")


@scenario
def an_alternate_may_be_declared_later(s: Run) -> None:
    ch = s.channel()
    with_alternate(ch, "x", "later")
    ch.declare_exchange("later", "fanout")
    ch.declare("q")
    ch.bind("q", "later")
    ch.publish("x", "k", "1")

    ch.await_count("q", 1)


@scenario
def alternates_form_chains(s: Run) -> None:
    ch = s.channel()
    with_alternate(ch, "x", "y")
    with_alternate(ch, "y", "z")
    ch.declare_exchange("z", "fanout")
    ch.declare("q")
    ch.bind("q", "z")
    ch.publish("x", "k", "1")

    ch.await_count("q", 1)
    ch.get("q")


@scenario
def alternates_in_a_circle_end(s: Run) -> None:
    ch = s.channel()
    with_alternate(ch, "x", "y")
    with_alternate(ch, "y", "x")
    ch.publish("x", "k", "1", mandatory=True)

    ch.receive("basic.return")


@scenario
def a_match_of_another_exchange_is_a_route(s: Run) -> None:
    ch = s.channel()
    with_alternate(ch, "x", "unrouted")
    ch.declare_exchange("unrouted", "fanout")
    ch.declare_exchange("dead end", "fanout")
    ch.declare("rest")
    ch.bind("rest", "unrouted")
    ch.bind_exchange("dead end", "x", "k")
    ch.publish("x", "k", "1", mandatory=True)

    ch.receive("basic.return")
    ch.passive("rest")


@scenario
def an_alternate_may_be_internal(s: Run) -> None:
    ch = s.channel()
    with_alternate(ch, "x", "inner")
    ch.declare_exchange("inner", "fanout", internal=True)
    ch.declare("q")
    ch.bind("q", "inner")
    ch.publish("x", "k", "1")

    ch.await_count("q", 1)


@scenario
def the_default_exchange_as_an_alternate(s: Run) -> None:
    ch = s.channel()
    with_alternate(ch, "x", "")
    ch.declare("q")
    ch.publish("x", "q", "1", mandatory=True)

    ch.receive("basic.return")
    ch.passive("q")
