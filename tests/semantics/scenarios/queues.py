"""Kinds of queues: server-named, exclusive, auto-delete, transient; purge and delete."""

from __future__ import annotations

from ..scenario import Run, scenario


@scenario
def a_server_named_queue(s: Run) -> None:
    ch = s.channel()
    ch.declare("", durable=False, exclusive=True)
    ch.declare("", durable=True)
    ch.bind("", "amq.direct", "k")
    ch.publish("amq.direct", "k", "1")

    ch.get("")


@scenario
def a_durable_exclusive_queue(s: Run) -> None:
    s.channel().declare("q", durable=True, exclusive=True)
    s.channel().declare("q", durable=True, exclusive=True)
    s.channel().declare("q", durable=False, exclusive=True)


@scenario
def an_exclusive_queue_goes_with_its_connection(s: Run) -> None:
    owner = s.channel(on=s.connect())
    owner.declare("mine", exclusive=True)
    owner.connection.close()

    s.channel().passive("mine")


@scenario
def an_exclusive_queue_goes_with_a_lost_connection(s: Run) -> None:
    owner = s.channel(on=s.connect())
    owner.declare("mine", exclusive=True)
    other = s.channel(on=s.connect())
    owner.declare_exchange("gone", "fanout", auto_delete=True)
    owner.bind("mine", "gone")
    owner.connection.reset()
    for _ in range(other.connection.patience):
        other.connection.log.hidden |= {"exchange.declare-ok", "channel.close"}
        if other.call("exchange.declare", exchange="gone", type="fanout", passive=True).name == "channel.close":
            break
    other.connection.log.hidden.clear()

    s.channel(on=other.connection).passive("mine")


@scenario
def others_may_publish_to_an_exclusive_queue(s: Run) -> None:
    owner = s.channel(on=s.connect())
    owner.declare("mine", exclusive=True)
    other = s.channel(on=s.connect())
    other.publish("", "mine", "1", mandatory=True)
    other.sync()

    owner.await_count("mine", 1)


@scenario
def an_exclusive_queue_stays_when_its_channel_closes(s: Run) -> None:
    ch = s.channel()
    ch.declare("mine", exclusive=True)
    ch.close()

    s.channel().passive("mine")


@scenario
def an_auto_delete_queue_goes_with_its_last_consumer(s: Run) -> None:
    ch = s.channel()
    ch.declare("q", auto_delete=True)
    ch.consume("q", "one")
    ch.consume("q", "two")
    ch.cancel("one")
    ch.passive("q")
    ch.cancel("two")

    ch.passive("q")


@scenario
def an_auto_delete_queue_goes_with_the_channel_of_its_consumer(s: Run) -> None:
    one, two = s.channel(), s.channel()
    one.declare("q", auto_delete=True)
    one.consume("q")
    one.close()

    two.passive("q")


@scenario
def an_auto_delete_queue_without_consumers_stays(s: Run) -> None:
    ch = s.channel()
    ch.declare("q", auto_delete=True)
    ch.fill("q", "1")
    ch.get("q", no_ack=True)
    ch.close()

    s.channel().passive("q")


@scenario
def deleting_an_auto_delete_queue_does_not_dead_letter(s: Run) -> None:
    ch = s.channel()
    ch.declare("dead")
    dead = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
    ch.declare("q", auto_delete=True, arguments=dead)
    ch.fill("q", "1")
    ch.qos(1)
    ch.consume("q")
    ch.deliver()
    ch.cancel()

    ch.passive("dead")


@scenario
def a_transient_queue_where_permitted(s: Run) -> None:
    ch = s.channel()
    ch.declare("q", durable=False)
    ch.fill("q", "1")

    ch.get("q")


@scenario
def counts_are_of_ready_messages(s: Run) -> None:
    ch = s.channel()
    ch.declare("q")
    ch.fill("q", "1", "2", "3")
    ch.get("q")
    ch.passive("q")
    ch.purge("q")
    ch.passive("q")
    ch.recover()
    ch.await_count("q", 1)
    ch.get("q")

    ch.delete("q")


@scenario
def delete_ok_counts_ready_messages(s: Run) -> None:
    ch = s.channel()
    ch.declare("q")
    ch.fill("q", "1", "2", "3")
    ch.get("q")

    ch.delete("q")


@scenario
def a_deleted_queue_loses_its_bindings(s: Run) -> None:
    ch = s.channel()
    ch.declare("q")
    ch.bind("q", "amq.fanout")
    ch.delete("q")
    ch.declare("q")

    ch.publish("amq.fanout", "", "1", mandatory=True)
    ch.receive("basic.return")


@scenario
def purge_and_delete_do_not_dead_letter(s: Run) -> None:
    ch = s.channel()
    ch.declare("dead")
    ch.declare("q", arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"})
    ch.fill("q", "1")
    ch.purge("q")
    ch.fill("q", "2")
    ch.delete("q")

    ch.passive("dead")


@scenario
def a_queue_belongs_to_its_vhost(s: Run) -> None:
    s.operator.add_vhost(s.vhost + "2")
    s.operator.set_permissions("guest", s.vhost + "2")
    s.channel().declare("q")
    other = s.channel(on=s.connect(vhost=s.vhost + "2"))
    other.passive("q")
    # RabbitMQ occasionally says "is down", if the vhost stopped before the connection hears of it.
    other.connection.answers_close = False
    s.operator.delete_vhost(s.vhost + "2")

    other.connection.take(0, "connection.close")
    other.connection.wait_end(5)
