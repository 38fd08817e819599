"""Errors of queues, with the exact text."""

from __future__ import annotations

from ..scenario import Run, scenario


@scenario
def what_is_done_to_a_missing_queue(s: Run) -> None:
    s.channel().passive("missing")
    s.channel().purge("missing")
    s.channel().consume("missing")
    s.channel().get("missing")
    s.channel().delete("missing")


@scenario
def a_passive_declare_without_a_name(s: Run) -> None:
    s.channel().passive("")


@scenario
def an_empty_name_means_the_last_declared_queue(s: Run) -> None:
    ch = s.channel()
    ch.declare("first")
    ch.declare("second")
    ch.fill("second", "1")
    ch.bind("", "amq.direct", "")
    ch.publish("amq.direct", "second", "2")
    ch.await_count("second", 2)
    ch.get("")
    ch.purge("")
    ch.consume("")
    ch.delete("")


@scenario
def an_empty_name_on_a_channel_that_declared_nothing(s: Run) -> None:
    s.channel().consume("")
    s.channel().get("")
    s.channel().bind("", "amq.direct", "k")
    s.channel().unbind("", "amq.direct", "k")
    s.channel().purge("")
    s.channel().delete("")


@scenario
def a_passive_declare_counts_as_declaring(s: Run) -> None:
    s.channel().declare("q")
    ch = s.channel()
    ch.passive("q")

    ch.purge("")


@scenario
def with_a_queue_name_an_empty_key_stays_empty(s: Run) -> None:
    ch = s.channel()
    ch.declare("q")
    ch.bind("q", "amq.direct", "")
    ch.publish("amq.direct", "", "1")

    ch.await_count("q", 1)


@scenario
def reserved_queue_names(s: Run) -> None:
    s.channel().declare("amq.mine")
    ch = s.channel()
    name = ch.declare("", exclusive=True)["queue"]
    ch.declare(name, exclusive=True)
    s.channel().passive(name)


@scenario
def anothers_exclusive_queue_is_locked(s: Run) -> None:
    owner = s.channel(on=s.connect())
    owner.declare("mine", durable=False, exclusive=True)
    owner.bind("mine", "amq.direct", "k")
    s.channel().passive("mine")
    s.channel().declare("mine", durable=False, exclusive=True)
    s.channel().declare("mine", durable=False)
    s.channel().consume("mine")
    s.channel().get("mine")
    s.channel().bind("mine", "amq.direct", "other")
    s.channel().unbind("mine", "amq.direct", "k")
    s.channel().purge("mine")
    s.channel().delete("mine")


@scenario
def redeclaring_an_exclusive_queue_as_shared(s: Run) -> None:
    s.channel().declare("mine", durable=False, exclusive=True)
    s.channel().declare("shared")
    s.channel().declare("mine", durable=False)
    s.channel().declare("shared", exclusive=True)


@scenario
def other_channels_of_the_owner_may_use_an_exclusive_queue(s: Run) -> None:
    one = s.channel()
    two = s.channel()
    one.declare("mine", durable=False, exclusive=True)

    two.passive("mine")
    two.consume("mine")


@scenario
def redeclaring_a_queue_differently(s: Run) -> None:
    s.channel().declare("q")
    s.channel().declare("q")
    s.channel().declare("q", durable=False, auto_delete=True)
    s.channel().declare("q", auto_delete=True)


@scenario
def a_passive_declare_ignores_all_but_the_name(s: Run) -> None:
    ch = s.channel()
    ch.declare("q")

    fields = {"durable": False, "exclusive": True, "auto_delete": True}
    ch.declare("q", passive=True, arguments={"x-queue-type": "nonsense", "x-expires": "x"}, **fields)


@scenario
def deleting_a_queue_in_use_or_not_empty(s: Run) -> None:
    s.channel().declare("q")
    s.channel().fill("q", "1")
    s.channel().delete("q", if_empty=True)
    consumer = s.channel(2)
    consumer.consume("q")
    consumer.deliver()
    s.channel().delete("q", if_unused=True)
    s.channel().delete("q", if_unused=True, if_empty=True)


@scenario
def a_queue_in_use_and_not_empty_is_refused_as_not_empty(s: Run) -> None:
    s.channel().declare("q")
    s.channel().fill("q", "1", "2")
    consumer = s.channel(2)
    consumer.qos(1)
    consumer.consume("q")
    consumer.deliver()

    s.channel().delete("q", if_unused=True, if_empty=True)


@scenario
def if_empty_looks_at_ready_messages_only(s: Run) -> None:
    ch = s.channel()
    ch.declare("q")
    ch.fill("q", "1")
    ch.get("q")

    ch.delete("q", if_empty=True)


@scenario
def quorum_queues_are_durable_shared_and_named(s: Run) -> None:
    quorum = {"x-queue-type": "quorum"}
    s.channel().declare("q", durable=False, exclusive=True, auto_delete=True, arguments=quorum)
    s.channel().declare("q", durable=True, auto_delete=True, arguments=quorum)
    s.channel().declare("q", durable=True, exclusive=True, arguments=quorum)
    s.channel().declare("q", durable=False, arguments=quorum)
    s.channel().declare("", arguments=quorum)


@scenario
def streams_are_durable_shared_and_named(s: Run) -> None:
    stream = {"x-queue-type": "stream"}
    s.channel().declare("q", durable=False, exclusive=True, auto_delete=True, arguments=stream)
    s.channel().declare("q", durable=True, exclusive=True, arguments=stream)
    s.channel().declare("q", durable=False, arguments=stream)
    s.channel().declare("", arguments=stream)


@scenario
def a_vhost_limit_of_queues(s: Run) -> None:
    s.operator.set_vhost_limit(s.vhost, "max-queues", 1)
    s.channel().declare("one")
    s.channel().declare("one")
    s.channel().declare("two")
    s.channel().declare("", exclusive=True)


@scenario
def a_vhost_limit_of_queues_is_checked_among_the_arguments(s: Run) -> None:
    s.operator.set_vhost_limit(s.vhost, "max-queues", 0)
    s.channel().declare("q", auto_delete=True, arguments={"x-queue-type": "quorum"})
    s.channel().declare("q", durable=False, arguments={"x-queue-type": "stream"})
    s.channel().declare("q", arguments={"x-max-length": "x"})
    s.channel().declare("q", arguments={"x-queue-type": "nonsense"})
    s.channel().declare("q", arguments={"x-dead-letter-routing-key": "k"})


@scenario(versions=("4.3",))
def a_queue_master_locator_is_denied(s: Run) -> None:
    s.channel().declare("q", arguments={"x-queue-master-locator": "min-masters"})


@scenario
def a_name_of_line_breaks_is_not_the_last_declared_queue(s: Run) -> None:
    for is_declared in (False, True):
        for exchange in ("amq.direct", "missing", "\n"):
            for name in ("queue.bind", "queue.unbind"):
                ch = s.channel()
                if is_declared:
                    ch.declare("q")
                ch.call(name, queue="\r\n", exchange=exchange, routing_key="k")
        ch = s.channel()
        ch.call("queue.delete", queue="\n")
        ch.passive("q")
