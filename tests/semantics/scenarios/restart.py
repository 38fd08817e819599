"""What a restart of the node keeps."""

from __future__ import annotations

from ..scenario import Run, scenario


@scenario(needs_own_node=True)
def a_restart_closes_connections(s: Run) -> None:
    connection = s.connect()
    connection.answers_close = False
    s.operator.restart()

    connection.take(0, "connection.close")


@scenario(needs_own_node=True)
def persistent_messages_in_durable_queues_stay(s: Run) -> None:
    ch = s.channel(on=s.connect())
    ch.declare("q")
    ch.confirm_select()
    for body, mode in (("none", None), ("0", 0), ("1", 1), ("2", 2), ("2 again", 2)):
        ch.publish("", "q", body, **({} if mode is None else {"delivery_mode": mode}))
    ch.confirms()
    s.operator.restart()

    s.channel(on=s.connect()).get_all("q")


@scenario(needs_own_node=True)
def what_was_unacked_is_redelivered(s: Run) -> None:
    ch = s.channel(on=s.connect())
    ch.declare("q")
    ch.confirm_select()
    for body in ("1", "2", "3"):
        ch.publish("", "q", body, delivery_mode=2)
    ch.confirms()
    ch.get("q")
    s.operator.restart()

    s.channel(on=s.connect()).get_all("q")


@scenario(needs_own_node=True)
def queues_that_stay(s: Run) -> None:
    ch = s.channel(on=s.connect())
    ch.declare("durable")
    ch.declare("quorum", arguments={"x-queue-type": "quorum"})
    ch.declare("auto-delete", auto_delete=True)
    ch.declare("transient", durable=False)
    ch.declare("exclusive", exclusive=True)
    s.operator.restart()
    connection = s.connect()

    for queue in ("durable", "quorum", "auto-delete", "transient", "exclusive"):
        s.channel(on=connection).passive(queue)


@scenario(needs_own_node=True)
def exchanges_that_stay(s: Run) -> None:
    ch = s.channel(on=s.connect())
    ch.declare("q")
    for name, durable, auto_delete in (("durable", True, False), ("transient", False, False), ("auto", True, True)):
        ch.declare_exchange(name, "fanout", durable=durable, auto_delete=auto_delete)
        ch.bind("q", name)
    s.operator.restart()
    connection = s.connect()
    for name in ("durable", "transient", "auto"):
        s.channel(on=connection).call("exchange.declare", exchange=name, type="fanout", passive=True)
        after = s.channel(on=connection)
        after.publish(name, "", name)
        after.sync()

    s.channel(on=connection).get_all("q")


@scenario(needs_own_node=True)
def messages_in_a_quorum_queue_stay(s: Run) -> None:
    ch = s.channel(on=s.connect())
    ch.declare("q", arguments={"x-queue-type": "quorum"})
    ch.confirm_select()
    for mode in (1, 2):
        ch.publish("", "q", str(mode), delivery_mode=mode)
    ch.confirms()
    s.operator.restart()
    after = s.channel(on=s.connect())
    after.await_count("q", 2)

    after.get_all("q")
