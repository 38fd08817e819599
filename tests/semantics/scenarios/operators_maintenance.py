"""Maintenance mode: the node closes its clients' connections and refuses new ones until the mode ends."""

from __future__ import annotations

from ..scenario import Run, scenario


@scenario(needs_own_node=True)
def maintenance_closes_connections(s: Run) -> None:
    connection = s.connect()
    s.channel(on=connection).declare("q")
    connection.answers_close = False
    s.operator.drain()
    connection.take(0, "connection.close")
    s.operator.revive()

    s.channel(on=s.connect()).passive("q")


@scenario(needs_own_node=True)
def nobody_is_let_in_during_maintenance(s: Run) -> None:
    s.channel().declare("q")
    s.operator.drain()
    try:
        s.raw()
    except ConnectionRefusedError:
        s.lines.setdefault("2.0", []).append("(refused)")
    s.operator.revive()

    s.channel(on=s.connect()).passive("q")


@scenario(needs_own_node=True)
def maintenance_keeps_messages_that_a_restart_loses(s: Run) -> None:
    ch = s.channel(on=s.connect())
    ch.declare("q")
    ch.fill("q", "1", "2")
    ch.get("q")
    s.operator.drain()
    s.operator.revive()

    s.channel(on=s.connect()).get_all("q")
