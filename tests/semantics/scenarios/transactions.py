"""Transactions."""

from __future__ import annotations

from ..scenario import Channel, Run, scenario


@scenario
def published_messages_arrive_at_commit(s: Run) -> None:
    ch = s.channel()
    ch.declare("q")
    ch.tx_select()
    ch.publish("", "q", "1")
    ch.publish("", "q", "2", delivery_mode=2)
    ch.sync()
    ch.get("q")
    ch.commit()

    ch.get("q")
    ch.get("q")


@scenario
def select_is_idempotent(s: Run) -> None:
    ch = s.channel()
    ch.tx_select()
    ch.tx_select()
    ch.commit()

    ch.rollback()


@scenario
def commit_and_rollback_need_select(s: Run) -> None:
    s.channel().commit()
    s.channel().rollback()


@scenario
def rollback_forgets_publishes_and_acks(s: Run) -> None:
    ch = s.channel()
    ch.declare("q")
    ch.fill("q", "1")
    ch.tx_select()
    delivery = ch.get("q")
    ch.ack(delivery)
    ch.publish("", "q", "2")
    ch.rollback()
    ch.get("q")
    ch.ack(delivery)
    ch.commit()
    ch.close()

    s.channel().get("q")


@scenario
def acks_count_at_commit(s: Run) -> None:
    ch = s.channel()
    ch.declare("q")
    ch.fill("q", "1", "2")
    ch.tx_select()
    ch.ack(ch.get("q"))
    ch.get("q")
    ch.close()
    other = s.channel()
    other.await_count("q", 2)

    other.get_all("q")


@scenario
def nacks_requeue_at_commit(s: Run) -> None:
    ch = s.channel()
    ch.declare("q")
    ch.fill("q", "1")
    ch.tx_select()
    ch.nack(ch.get("q"))
    ch.sync()
    ch.get("q")
    ch.commit()
    ch.await_count("q", 1)

    ch.get("q")


@scenario
def returns_come_before_commit_ok(s: Run) -> None:
    ch = s.channel()
    ch.tx_select()
    ch.publish("amq.direct", "nowhere", "1", mandatory=True)
    ch.sync()
    ch.connection.log.write(1, "(now commit)")
    ch.send("tx.commit")
    ch.receive("basic.return")

    ch.receive("tx.commit-ok")


@scenario
def routing_happens_at_publish(s: Run) -> None:
    ch = s.channel()
    ch.declare("q")
    ch.bind("q", "amq.direct", "k")
    ch.tx_select()
    ch.publish("amq.direct", "k", "1", mandatory=True)
    ch.publish("amq.direct", "later", "2", mandatory=True)
    ch.unbind("q", "amq.direct", "k")
    ch.bind("q", "amq.direct", "later")
    ch.send("tx.commit")
    ch.receive("basic.return")
    ch.receive("tx.commit-ok")

    ch.get_all("q")


@scenario
def errors_of_a_publish_come_at_once(s: Run) -> None:
    ch = s.channel()
    ch.tx_select()
    ch.publish("missing", "k", "1")

    ch.receive()


@scenario
def an_unknown_tag_fails_at_once(s: Run) -> None:
    ch = s.channel()
    ch.tx_select()
    ch.ack(5)

    ch.receive()


@scenario
def acking_twice_in_a_transaction(s: Run) -> None:
    ch = s.channel()
    ch.declare("q")
    ch.fill("q", "1")
    ch.tx_select()
    delivery = ch.get("q")
    ch.ack(delivery)
    ch.ack(delivery)

    ch.receive()


@scenario
def closing_the_channel_is_a_rollback(s: Run) -> None:
    ch = s.channel()
    ch.declare("q")
    ch.tx_select()
    ch.publish("", "q", "1")
    ch.close()

    s.channel().get("q")


@scenario
def a_rejected_publish_at_commit(s: Run) -> None:
    ch = s.channel()
    ch.declare("full", arguments={"x-max-length": 0, "x-overflow": "reject-publish"})
    ch.declare("free")
    ch.tx_select()
    ch.publish("", "full", "1", delivery_mode=2)
    ch.publish("", "free", "2", delivery_mode=2)
    ch.commit()
    other = s.channel()
    other.await_count("free", 1)

    other.get("free")


@scenario
def declaring_and_consuming_are_not_transactional(s: Run) -> None:
    ch = s.channel()
    ch.tx_select()
    ch.declare("q")
    ch.bind("q", "amq.fanout")
    s.channel().fill("q", "1")
    ch.consume("q")
    ch.deliver()
    ch.rollback()

    ch.passive("q")


@scenario
def a_committed_nack_without_requeue_dead_letters(s: Run) -> None:
    ch = s.channel()
    ch.declare("dead")
    ch.declare("q", arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"})
    ch.fill("q", "1")
    ch.tx_select()
    ch.nack(ch.get("q"), requeue=False)
    ch.sync()
    ch.get("dead")
    ch.commit()
    ch.await_count("dead", 1)

    ch.get("dead")


@scenario
def published_messages_keep_their_order_at_commit(s: Run) -> None:
    ch = s.channel()
    ch.declare("q")
    ch.declare("r")
    ch.tx_select()
    for number in range(6):
        ch.publish("", "qr"[number % 2], str(number))
    ch.commit()

    ch.get_all("q")
    ch.get_all("r")


@scenario
def a_publish_to_a_queue_deleted_before_commit(s: Run) -> None:
    ch = s.channel()
    for queue in ("gone", "there"):
        ch.declare(queue)
    ch.tx_select()
    ch.publish("", "gone", "1", delivery_mode=2)
    ch.publish("", "there", "2", delivery_mode=2)
    ch.sync()
    s.channel(2).delete("gone")
    ch.commit()
    other = s.channel(on=s.connect())
    other.await_count("there", 0 if s.version == "4.3" else 1)


@scenario
def a_mandatory_publish_to_a_queue_deleted_before_commit(s: Run) -> None:
    ch = s.channel()
    ch.declare("gone")
    ch.tx_select()
    ch.publish("", "gone", "1", mandatory=True)
    ch.sync()
    ch.delete("gone")

    ch.commit()


@scenario
def a_mandatory_publish_to_two_queues_of_which_one_is_deleted_before_commit(s: Run) -> None:
    ch = s.channel()
    for queue in ("gone", "there"):
        ch.declare(queue)
        ch.bind(queue, "amq.fanout")
    ch.tx_select()
    ch.publish("amq.fanout", "", "1", mandatory=True)
    ch.sync()
    ch.delete("gone")
    ch.commit()

    other = s.channel(on=s.connect())
    other.await_count("there", 0 if s.version == "4.3" else 1)


@scenario
def a_mandatory_publish_to_a_queue_declared_before_commit(s: Run) -> None:
    ch = s.channel()
    ch.tx_select()
    ch.publish("", "new", "1", mandatory=True)
    ch.sync()
    ch.declare("new")
    ch.commit()

    s.channel(2).await_count("new", 1 if s.version == "3.10" else 0)


@scenario
def a_publish_with_a_copy_to_a_queue_declared_before_commit(s: Run) -> None:
    ch = s.channel()
    ch.declare("there")
    ch.tx_select()
    ch.publish("", "there", "1", headers={"CC": ["new"]})
    ch.sync()
    ch.declare("new")
    ch.commit()

    other = s.channel(2)
    other.await_count("there", 1)
    other.await_count("new", 1 if s.version == "3.10" else 0)


@scenario
def a_mandatory_publish_to_a_queue_bound_before_commit(s: Run) -> None:
    ch = s.channel()
    ch.tx_select()
    ch.publish("amq.direct", "new", "1", mandatory=True)
    ch.sync()
    ch.declare("new")
    ch.bind("new", "amq.direct", "new")
    ch.commit()

    s.channel(2).await_count("new", 0)


@scenario
def a_publish_to_a_queue_declared_anew_before_commit(s: Run) -> None:
    ch = s.channel()
    for queue in ("anew", "there"):
        ch.declare(queue)
    ch.tx_select()
    ch.publish("", "anew", "1", delivery_mode=2)
    ch.publish("", "there", "2", delivery_mode=2)
    ch.delete("anew")
    ch.declare("anew", arguments={"x-max-length": 7})
    ch.commit()
    other = s.channel(2)
    other.await_count("there", 1)

    other.passive("anew")


@scenario
def a_publish_to_a_quorum_queue_declared_anew_before_commit(s: Run) -> None:
    quorum = {"x-queue-type": "quorum"}
    ch = s.channel()
    ch.declare("anew", arguments=quorum)
    ch.tx_select()
    ch.publish("", "anew", "1", delivery_mode=2)
    ch.delete("anew")
    ch.declare("anew", arguments=quorum)
    ch.commit()

    s.channel(2).await_count("anew", 1)


@scenario
def a_publish_to_a_queue_declared_anew_with_another_type_before_commit(s: Run) -> None:
    ch = s.channel()
    ch.declare("anew")
    ch.tx_select()
    ch.publish("", "anew", "1", delivery_mode=2)
    ch.delete("anew")
    ch.declare("anew", arguments={"x-queue-type": "quorum"})

    ch.commit()


@scenario
def what_comes_before_a_publish_to_a_deleted_queue_arrives(s: Run) -> None:
    ch = s.channel()
    for queue, kind in (("classic", "classic"), ("quorum", "quorum"), ("gone", "classic")):
        ch.declare(queue, arguments={"x-queue-type": kind})
    ch.tx_select()
    for queue in ("classic", "quorum", "gone", "classic"):
        ch.publish("", queue, "1", delivery_mode=2)
    ch.delete("gone")
    ch.commit()

    other = s.channel(on=s.connect())
    for queue in ("classic", "quorum"):
        other.await_count(queue, 1)


@scenario(versions=("4.0",))
def what_comes_before_a_publish_to_a_deleted_queue_is_returned(s: Run) -> None:
    ch = s.channel()
    ch.declare("gone")
    ch.tx_select()
    ch.publish("", "nowhere", "1", mandatory=True)
    ch.publish("", "gone", "2")
    ch.delete("gone")

    ch.commit()


@scenario(versions=("4.3", "4.0"))
def a_channel_whose_commit_is_refused_gets_nothing_of_it(s: Run) -> None:
    ch = s.channel()
    for queue in ("q", "gone"):
        ch.declare(queue)
    ch.consume("q")
    ch.tx_select()
    for queue in ("q", "gone"):
        ch.publish("", queue, "1")
    ch.delete("gone")

    ch.commit()


@scenario
def acks_of_a_rolled_back_transaction_keep_their_order(s: Run) -> None:
    ch = s.channel()
    ch.declare("q")
    ch.fill("q", "1", "2", "3")
    ch.tx_select()
    for _ in range(3):
        ch.get("q")
    ch.ack(2)
    ch.rollback()
    ch.nack(3, multiple=True)
    ch.commit()
    ch.await_count("q", 3)

    ch.get_all("q")


@scenario(versions=("4.3", "4.0"))
def the_longest_term_in_one_line(s: Run) -> None:
    for name in ("q", "q1"):
        ch = s.channel(on=s.connect())
        ch.declare(name)
        ch.tx_select()
        ch.publish("", name, "m")
        ch.delete(name)
        ch.commit()


def holding_in_a_transaction(s: Run) -> Channel:
    """Return a transactional channel with a consumer that holds as many messages as its prefetch allows."""
    ch = s.channel()
    ch.declare("q")
    ch.fill("q", "1")
    ch.qos(1)
    ch.consume("q", "limited")
    ch.deliver()
    ch.tx_select()
    return ch


def commit_two_beside_an_unlimited_consumer(ch: Channel) -> None:
    """Commit two publishes beside an unlimited consumer; which consumer gets them shows what the commit does first."""
    ch.consume("q", "unlimited", no_ack=True)
    for body in ("2", "3"):
        ch.publish("", "q", body)
    ch.commit()

    ch.deliveries(2)


@scenario
def a_committed_ack_makes_room_for_what_is_committed_with_it(s: Run) -> None:
    ch = holding_in_a_transaction(s)
    ch.ack(1)
    commit_two_beside_an_unlimited_consumer(ch)


@scenario
def a_committed_reject_makes_room_for_what_comes_later(s: Run) -> None:
    ch = holding_in_a_transaction(s)
    ch.reject(1, requeue=False)
    commit_two_beside_an_unlimited_consumer(ch)


@scenario
def a_quorum_queue_settles_before_it_takes_what_is_committed(s: Run) -> None:
    ch = s.channel()
    for name, arguments in (("classic", {}), ("quorum", {"x-queue-type": "quorum"})):
        ch.declare(name, arguments=arguments)
        ch.tx_select()
        ch.consume(name, f"consumer of {name}")
        ch.publish("", name, "old")
        ch.commit()
        old = ch.deliver()

        ch.publish("", name, "new")
        ch.reject(old)
        ch.commit()
        ch.deliveries(2)


@scenario
def a_commit_to_a_full_quorum_queue_is_lost_silently(s: Run) -> None:
    ch = s.channel()
    ch.declare("q", arguments={"x-queue-type": "quorum", "x-max-length": 1, "x-overflow": "reject-publish"})
    ch.fill("q", "1", "2")

    ch.tx_select()
    ch.publish("", "q", "3")
    ch.commit()
    ch.get_all("q")


@scenario
def settlements_of_one_kind_are_one_at_commit(s: Run) -> None:
    settlers = {"nack": Channel.nack, "reject": Channel.reject}
    for first, second in (("nack", "nack"), ("reject", "reject"), ("nack", "reject")):
        name = f"{first} and {second}"
        ch = s.channel()
        ch.declare(name, arguments={"x-queue-type": "quorum"})
        ch.fill(name, "1", "2")
        ch.tx_select()
        deliveries = [ch.get(name) for _ in range(2)]

        settlers[first](ch, deliveries[1])
        settlers[second](ch, deliveries[0])
        ch.commit()
        ch.await_count(name, 2)
        ch.get_all(name)


@scenario
def an_ack_between_two_nacks_keeps_them_apart_at_commit(s: Run) -> None:
    ch = s.channel()
    ch.declare("q", arguments={"x-queue-type": "quorum"})
    ch.fill("q", "1", "2", "3")
    ch.tx_select()
    deliveries = [ch.get("q") for _ in range(3)]

    ch.nack(deliveries[2])
    ch.ack(deliveries[1])
    ch.nack(deliveries[0])
    ch.commit()
    ch.await_count("q", 2)
    ch.get_all("q")


@scenario
def a_commit_is_confirmed_before_its_acks_make_room(s: Run) -> None:
    for queue_type in ("classic", "quorum"):
        ch = s.channel()
        ch.declare(queue_type, arguments={"x-queue-type": queue_type})
        ch.fill(queue_type, "1", "2")
        ch.qos(1)
        ch.consume(queue_type)
        ch.tx_select()
        ch.ack(ch.deliver())
        ch.passive(queue_type)
        ch.commit()

        ch.deliver()


@scenario
def a_commit_is_confirmed_before_what_it_requeues_is_delivered(s: Run) -> None:
    for settle in (Channel.nack, Channel.reject):
        for queue_type in ("classic", "quorum"):
            ch = s.channel()
            name = f"{queue_type} {settle.__name__}"
            ch.declare(name, arguments={"x-queue-type": queue_type})
            ch.fill(name, "1", "2", "3")
            ch.consume(name)
            ch.tx_select()
            for delivery in ch.deliveries(3)[:2]:
                settle(ch, delivery)
            ch.commit()

            ch.deliveries(2)


@scenario
def a_commit_is_confirmed_before_what_it_dead_letters_is_delivered(s: Run) -> None:
    ch = s.channel()
    ch.declare("dead")
    ch.declare("q", arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"})
    ch.fill("q", "1")
    ch.consume("dead")
    ch.tx_select()
    ch.reject(ch.get("q"), requeue=False)
    ch.commit()

    ch.deliver()


@scenario
def a_commit_with_publishes_is_confirmed_once_their_queues_have_them(s: Run) -> None:
    ch = s.channel()
    ch.declare("q")
    ch.consume("q")
    ch.tx_select()
    ch.publish("", "q", "old")
    ch.commit()
    old = ch.deliver()
    ch.nack(old)
    ch.publish("", "q", "new")
    ch.commit()

    ch.deliveries(2)


@scenario
def a_commit_of_returned_publishes_waits_for_no_queue(s: Run) -> None:
    ch = s.channel()
    ch.declare("q")
    ch.fill("q", "1")
    ch.consume("q")
    ch.tx_select()
    ch.nack(ch.deliver())
    ch.publish("", "nowhere", "2", mandatory=True)
    ch.commit()

    ch.deliver()


@scenario
def returns_of_a_commit_come_before_its_deliveries(s: Run) -> None:
    ch = s.channel()
    ch.declare("q")
    ch.consume("q")
    ch.tx_select()
    for routing_key in ("nowhere", "q", "nowhere"):
        ch.publish("", routing_key, mandatory=True)
    ch.commit()

    ch.deliver()


def a_queue_goes_before_the_commit(s: Run, kind: str, *, mandatory: bool = False, exchange: str = "") -> None:
    """Publish in a transaction to a queue that then goes and to one that stays, and commit."""
    ch, other = s.channel(), s.channel(on=s.connect())
    for queue, queue_type in (("gone", kind), ("there", "classic")):
        ch.declare(queue, arguments={"x-queue-type": queue_type})
        ch.bind(queue, "amq.fanout")
    ch.tx_select()
    for queue in ("gone",) if exchange else ("gone", "there"):
        ch.publish(exchange, queue, "x", mandatory=mandatory, delivery_mode=2)
    ch.sync()
    other.delete("gone")
    ch.commit()
    other.await_count("there", 0 if s.version == "4.3" and kind == "classic" else 1)


@scenario
def a_quorum_queue_deleted_before_commit(s: Run) -> None:
    a_queue_goes_before_the_commit(s, "quorum")


@scenario
def a_mandatory_publish_to_a_quorum_queue_deleted_before_commit(s: Run) -> None:
    a_queue_goes_before_the_commit(s, "quorum", mandatory=True)


@scenario
def a_publish_to_all_of_which_a_quorum_queue_is_deleted_before_commit(s: Run) -> None:
    a_queue_goes_before_the_commit(s, "quorum", exchange="amq.fanout")


@scenario
def a_quorum_queue_alone_deleted_before_commit(s: Run) -> None:
    for mandatory in (False, True):
        ch = s.channel(on=s.connect())
        ch.declare("gone", arguments={"x-queue-type": "quorum"})
        ch.tx_select()
        ch.publish("", "gone", "x", mandatory=mandatory)
        ch.delete("gone")
        ch.commit()


def deleted_for_good(s: Run, ch: Channel, *queues: str) -> None:
    """Delete queues, and wait until their processes have ended: those of a stream do so after delete-ok."""
    for queue in queues:
        ch.delete(queue)
    s.elapse(500)


@scenario
def a_stream_alone_deleted_before_commit(s: Run) -> None:
    for mandatory in (False, True):
        ch = s.channel(on=s.connect())
        ch.declare("gone", arguments={"x-queue-type": "stream"})
        ch.tx_select()
        ch.publish("", "gone", "x", mandatory=mandatory)
        deleted_for_good(s, ch, "gone")
        ch.commit()


@scenario
def queues_of_all_types_deleted_before_commit(s: Run) -> None:
    for kinds in (
        ("classic", "quorum"),
        ("quorum", "classic"),
        ("classic", "stream"),
        ("stream", "classic"),
        ("quorum", "stream"),
        ("stream", "quorum"),
    ):
        ch = s.channel(on=s.connect())
        for kind in kinds:
            ch.declare(kind, arguments={"x-queue-type": kind})
        ch.tx_select()
        for kind in kinds:
            ch.publish("", kind, "x")
        deleted_for_good(s, ch, *kinds)
        ch.commit()


@scenario
def what_comes_beside_a_publish_to_a_deleted_stream(s: Run) -> None:
    for before, after in (("there", "gone"), ("gone", "there")):
        ch = s.channel(on=s.connect())
        ch.declare("there")
        ch.declare("gone", arguments={"x-queue-type": "stream"})
        ch.tx_select()
        ch.publish("", before, "x")
        ch.publish("", after, "x")
        deleted_for_good(s, ch, "gone")
        ch.commit()
        other = s.channel(on=s.connect())
        s.elapse(200)
        other.await_count("there", int(s.version != "4.3") + int(s.version == "3.10" and before == "gone"))


@scenario(versions=("3.10",))
def a_publish_to_all_of_which_a_stream_is_deleted_before_commit(s: Run) -> None:
    ch = s.channel()
    for queue, kind in (("there", "classic"), ("gone", "stream"), ("too", "quorum")):
        ch.declare(queue, arguments={"x-queue-type": kind})
        ch.bind(queue, "amq.fanout")
    ch.tx_select()
    ch.publish("amq.fanout", "", "x")
    ch.delete("gone")
    ch.commit()
    other = s.channel(on=s.connect())
    s.elapse(200)
    for queue in ("there", "too"):
        other.await_count(queue, 1)


@scenario(versions=("4.3", "4.0"))
def a_publish_to_a_stream_declared_anew_before_commit(s: Run) -> None:
    ch = s.channel()
    ch.declare("anew", arguments={"x-queue-type": "stream"})
    ch.tx_select()
    ch.publish("", "anew", "1")
    deleted_for_good(s, ch, "anew")
    ch.declare("anew", arguments={"x-queue-type": "stream"})
    ch.commit()
    other = s.channel(on=s.connect())
    other.await_count("anew", 0)
