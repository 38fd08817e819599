"""Policies and operator policies."""

from __future__ import annotations

from functools import partial

from ..scenario import Channel, Run, scenario


def lengths(s: Run, ch: Channel, *queues: str) -> None:
    """Publish five messages to each queue and note how many stay."""
    for queue in queues:
        for number in range(5):
            ch.publish("", queue, str(number))
    ch.sync()
    for queue in queues:
        ch.get_all(queue)


@scenario
def a_policy_limits_queues_it_matches(s: Run) -> None:
    s.operator.set_policy(s.vhost, "limit", "^lim", {"max-length": 2}, apply_to="queues")
    ch = s.channel()
    for queue in ("limited", "unlimited", "free"):
        ch.declare(queue)

    lengths(s, ch, "limited", "unlimited", "free")


@scenario
def of_argument_and_policy_the_lower_limit_counts(s: Run) -> None:
    s.operator.set_policy(s.vhost, "one", "^low", {"max-length": 1})
    s.operator.set_policy(s.vhost, "ten", "^high", {"max-length": 10})
    ch = s.channel()
    for queue in ("low", "high"):
        ch.declare(queue, arguments={"x-max-length": 3})

    lengths(s, ch, "low", "high")


@scenario
def the_policy_of_highest_priority_applies_alone(s: Run) -> None:
    s.operator.set_policy(s.vhost, "a", ".*", {"max-length": 1}, priority=1)
    s.operator.set_policy(s.vhost, "b", ".*", {"max-length-bytes": 3}, priority=2)
    ch = s.channel()
    ch.declare("q")

    lengths(s, ch, "q")


@scenario
def user_and_operator_policies_are_united(s: Run) -> None:
    s.operator.set_policy(s.vhost, "user", ".*", {"max-length": 4, "overflow": "reject-publish"})
    s.operator.set_operator_policy(s.vhost, "operator", ".*", {"max-length": 2}, apply_to="queues")
    ch = s.channel()
    ch.declare("q")
    ch.confirm_select()
    for number in range(3):
        ch.publish("", "q", str(number))
    ch.confirms()

    ch.get_all("q")


@scenario
def a_policy_with_a_key_of_another_type_does_not_apply(s: Run) -> None:
    s.operator.set_policy(s.vhost, "both", ".*", {"max-length": 1, "delivery-limit": 3})
    ch = s.channel()
    ch.declare("q")

    lengths(s, ch, "q")


@scenario
def a_dead_letter_exchange_by_policy(s: Run) -> None:
    definition = {"dead-letter-exchange": "", "dead-letter-routing-key": "dead"}
    s.operator.set_policy(s.vhost, "dlx", "^q$", definition)
    ch = s.channel()
    ch.declare("dead")
    ch.declare("q")
    ch.fill("q", "1")
    ch.reject(ch.get("q"), requeue=False)
    ch.await_count("dead", 1)

    ch.get("dead")


@scenario
def an_argument_wins_over_a_dead_letter_policy(s: Run) -> None:
    s.operator.set_policy(s.vhost, "dlx", "^q$", {"dead-letter-exchange": "", "dead-letter-routing-key": "by policy"})
    ch = s.channel()
    for queue in ("by policy", "by argument"):
        ch.declare(queue)
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "by argument"}
    ch.declare("q", arguments=arguments)
    ch.fill("q", "1")
    ch.reject(ch.get("q"), requeue=False)

    ch.await_count("by argument", 1)


@scenario
def an_alternate_exchange_by_policy(s: Run) -> None:
    s.operator.set_policy(s.vhost, "ae", "^x$", {"alternate-exchange": "amq.fanout"}, apply_to="exchanges")
    ch = s.channel()
    ch.declare_exchange("x")
    ch.declare("q")
    ch.bind("q", "amq.fanout")
    ch.publish("x", "nowhere", "1")

    ch.await_count("q", 1)


@scenario
def the_argument_wins_over_an_alternate_exchange_policy(s: Run) -> None:
    s.operator.set_policy(s.vhost, "ae", "^x$", {"alternate-exchange": "amq.topic"}, apply_to="exchanges")
    ch = s.channel()
    ch.declare_exchange("x", arguments={"alternate-exchange": "amq.fanout"})
    ch.declare("q")
    ch.bind("q", "amq.fanout")
    ch.publish("x", "nowhere", "1")

    ch.await_count("q", 1)


@scenario
def a_ttl_policy_concerns_later_messages(s: Run) -> None:
    ch = s.channel()
    ch.declare("q")
    ch.fill("q", "1", "2")
    s.operator.set_policy(s.vhost, "ttl", ".*", {"message-ttl": 100})
    s.elapse(1000)
    ch.passive("q")
    ch.purge("q")
    ch.fill("q", "3")
    s.elapse(500)

    ch.await_count("q", 0)


@scenario
def a_length_policy_trims_at_once(s: Run) -> None:
    ch = s.channel()
    ch.declare("q")
    ch.fill("q", "1", "2", "3", "4")
    s.operator.set_policy(s.vhost, "limit", ".*", {"max-length": 2})
    ch.await_count("q", 2)

    ch.get_all("q")


@scenario
def a_cleared_policy_has_no_effect(s: Run) -> None:
    ch = s.channel()
    s.operator.set_policy(s.vhost, "limit", ".*", {"max-length": 1})
    ch.declare("q")
    s.operator.clear_policy(s.vhost, "limit")
    s.elapse(500)

    lengths(s, ch, "q")


@scenario
def a_queue_expires_by_policy(s: Run) -> None:
    s.operator.set_policy(s.vhost, "expire", ".*", {"expires": 200})
    ch = s.channel()
    ch.declare("q")
    s.elapse(600)

    ch.passive("q")


@scenario
def policies_are_not_part_of_equivalence(s: Run) -> None:
    s.operator.set_policy(s.vhost, "limit", ".*", {"max-length": 1})
    ch = s.channel()
    ch.declare("q")

    ch.declare("q")


@scenario(versions=("4.3",))
def a_vhost_with_another_default_queue_type(s: Run) -> None:
    vhost = s.vhost + "2"
    s.operator.add_vhost(vhost, default_queue_type="quorum")
    s.operator.set_permissions("guest", vhost)
    connection = s.connect(vhost=vhost)
    s.channel(on=connection).declare("q")
    s.channel(on=connection).declare("q", arguments={"x-queue-type": "classic"})
    s.channel(on=connection).declare("exclusive", exclusive=True)
    s.channel(on=connection).declare("auto", auto_delete=True)
    s.channel(on=connection).declare("auto", auto_delete=True, arguments={"x-queue-type": "classic"})
    s.channel(on=connection).declare("")
    s.channel(on=connection).declare("priorities", arguments={"x-max-priority": 5})
    connection.answers_close = False
    s.operator.delete_vhost(vhost)
    connection.take(0, "connection.close")
    connection.wait_end(5)


@scenario(versions=("3.10",))
def a_mirrored_queue_on_one_node(s: Run) -> None:
    mirrored = {"ha-mode": "exactly", "ha-params": 2, "ha-sync-mode": "automatic", "max-length": 2}
    s.operator.set_policy(s.vhost, "mirrors", "^q", mirrored)
    ch = s.channel()
    ch.declare("q")
    ch.confirm_select()
    for body in ("1", "2", "3"):
        ch.publish("", "q", body, delivery_mode=2)
    ch.confirms()

    ch.get_all("q")


@scenario
def how_long_a_pattern_may_be(s: Run) -> None:
    ch = s.channel()
    s.operator.add_user("anne", "secret")
    definition = {"max-length": 1}
    for size in (1024, 1025):
        pattern = "q" * size
        acts = {
            "policy": partial(s.operator.set_policy, s.vhost, "p", pattern, definition),
            "operator policy": partial(s.operator.set_operator_policy, s.vhost, "p", pattern, definition, 0, "queues"),
            "permission": partial(s.operator.set_permissions, "anne", s.vhost, write=pattern),
            "topic permission": partial(s.operator.set_topic_permissions, "anne", s.vhost, "amq.topic", ".*", pattern),
        }
        for words, act in acts.items():
            try:
                act()
            except RuntimeError:
                ch.connection.log.write(1, f"{words} of {size} bytes: refused")
            else:
                ch.connection.log.write(1, f"{words} of {size} bytes: set")


def held(s: Run, count: int, **arguments: object) -> Channel:
    """Return a channel with confirms on which the queue ``q`` holds this many messages."""
    ch = s.channel()
    ch.declare("q", arguments={"x-" + name.replace("_", "-"): value for name, value in arguments.items()})
    ch.fill("q", *map(str, range(1, count + 1)))
    ch.confirm_select()
    return ch


def ask_for(s: Run, priority: int = 0, **definition: object) -> None:
    """Set the policy of the queues, and let them take it on."""
    named = {name.replace("_", "-"): value for name, value in definition.items()}
    s.operator.set_policy(s.vhost, "p", "^q$", named, priority)
    s.elapse(500)


def publish_one(ch: Channel, body: str) -> None:
    """Publish a message and note whether it is taken, and how many messages are ready then."""
    ch.publish("", "q", body)
    ch.confirms()
    ch.passive("q")


REFUSING = {"max_length": 3, "overflow": "reject-publish"}


@scenario
def a_limit_comes_into_force_before_the_overflow_that_comes_with_it(s: Run) -> None:
    ch = held(s, 5)
    ask_for(s, **REFUSING)
    ch.await_count("q", 3)
    publish_one(ch, "6")

    ch.get_all("q")


@scenario
def the_dead_letters_of_a_limit_that_comes_with_reject_publish(s: Run) -> None:
    ch = s.channel()
    ch.declare("dead")
    ch.declare("q")
    ch.fill("q", "1", "2", "3", "4", "5")
    dead = {"dead_letter_exchange": "", "dead_letter_routing_key": "dead"}
    ask_for(s, max_length_bytes=2, overflow="reject-publish-dlx", **dead)
    ch.await_count("q", 2)
    ch.await_count("dead", 3)
    ch.get_all("dead")


@scenario
def a_lower_limit_of_a_queue_that_refuses_publishes_drops_nothing(s: Run) -> None:
    ch = held(s, 5, overflow="reject-publish")
    ask_for(s, max_length=3)
    publish_one(ch, "6")
    ask_for(s, max_length=2, overflow="drop-head")
    publish_one(ch, "7")

    ch.get_all("q")


@scenario
def drop_head_instead_of_reject_publish_drops_at_once(s: Run) -> None:
    ch = held(s, 2)
    ask_for(s, max_length=2, overflow="reject-publish")
    publish_one(ch, "3")
    ask_for(s, max_length=1, overflow="drop-head")
    ch.await_count("q", 1)
    publish_one(ch, "4")

    ch.get_all("q")


@scenario
def an_overflow_that_no_policy_names_any_more(s: Run) -> None:
    ch = held(s, 2)
    ask_for(s, max_length=2, overflow="reject-publish")
    publish_one(ch, "3")
    ask_for(s, max_length=1)
    publish_one(ch, "4")
    s.operator.clear_policy(s.vhost, "p")
    s.elapse(500)
    publish_one(ch, "5")
    ask_for(s, max_length=2)
    publish_one(ch, "6")

    ch.get_all("q")


@scenario
def a_dead_letter_exchange_that_comes_with_the_limit(s: Run) -> None:
    ch = s.channel()
    ch.declare("dead")
    ch.declare("q")
    ch.fill("q", "1", "2", "3")
    ask_for(s, max_length=1, dead_letter_exchange="", dead_letter_routing_key="dead")
    ch.await_count("dead", 2)
    ask_for(s, max_length=0)
    ch.await_count("q", 0)
    ch.get_all("dead")


@scenario
def a_ttl_that_comes_with_a_limit(s: Run) -> None:
    ch = held(s, 3)
    ask_for(s, max_length=2, message_ttl=0)
    ch.await_count("q", 2)
    publish_one(ch, "4")
    ask_for(s, max_length=3)
    publish_one(ch, "5")

    ch.get_all("q")


@scenario
def a_limit_of_a_quorum_queue_that_comes_with_reject_publish(s: Run) -> None:
    ch = held(s, 5, queue_type="quorum")
    ask_for(s, **REFUSING)
    publish_one(ch, "6")
    other = s.channel()
    other.confirm_select()
    publish_one(other, "7")

    ch.get_all("q")


def stopped(s: Run) -> Channel:
    """Return a channel that a full quorum queue has stopped: it holds four messages and refused one."""
    ch = s.channel()
    ch.declare("q", arguments={"x-queue-type": "quorum"})
    ask_for(s, **REFUSING)
    ch.confirm_select()
    for body in ("1", "2", "3", "4", "5"):
        publish_one(ch, body)
    return ch


def go_on(s: Run, ch: Channel) -> None:
    """Publish on the stopped channel and on a new one, before and after messages have left one by one."""
    publish_one(ch, "6")
    other = s.channel()
    other.confirm_select()
    publish_one(other, "7")
    for number in range(8, 13):
        ch.get("q", no_ack=True)
        publish_one(ch, str(number))

    ch.get_all("q")


@scenario
def a_stopped_publisher_when_the_queue_is_to_drop_its_head(s: Run) -> None:
    ch = stopped(s)
    ask_for(s, max_length=3)
    go_on(s, ch)


@scenario
def a_stopped_publisher_when_the_limit_becomes_higher(s: Run) -> None:
    ch = stopped(s)
    ask_for(s, max_length=10, overflow="reject-publish")
    go_on(s, ch)


@scenario
def a_stopped_publisher_when_the_limit_becomes_a_little_higher(s: Run) -> None:
    ch = stopped(s)
    ask_for(s, max_length=4, overflow="reject-publish")
    go_on(s, ch)


@scenario
def a_stopped_publisher_when_the_limit_becomes_lower(s: Run) -> None:
    ch = stopped(s)
    ask_for(s, max_length=1, overflow="reject-publish")
    go_on(s, ch)


@scenario
def a_stopped_publisher_when_there_is_no_limit_any_more(s: Run) -> None:
    ch = stopped(s)
    s.operator.clear_policy(s.vhost, "p")
    s.elapse(500)
    go_on(s, ch)


@scenario
def a_stopped_publisher_when_only_the_overflow_stays(s: Run) -> None:
    ch = stopped(s)
    ask_for(s, overflow="reject-publish")
    go_on(s, ch)


@scenario
def a_stopped_publisher_when_the_limit_is_in_bytes_instead(s: Run) -> None:
    ch = stopped(s)
    ask_for(s, max_length_bytes=100_000, overflow="reject-publish")
    go_on(s, ch)


@scenario
def a_stopped_publisher_when_the_queue_drops_its_head_with_a_higher_limit(s: Run) -> None:
    ch = stopped(s)
    ask_for(s, max_length=10)
    go_on(s, ch)


@scenario
def a_stopped_publisher_when_a_queue_drops_its_head_for_a_while(s: Run) -> None:
    ch = stopped(s)
    ask_for(s, max_length=3)
    publish_one(ch, "6")
    ch.purge("q")
    publish_one(ch, "7")
    ask_for(s, **REFUSING)
    go_on(s, ch)


@scenario
def a_publisher_of_old_is_stopped_although_it_did_not_publish_since(s: Run) -> None:
    ch = held(s, 1, queue_type="quorum")
    other = s.channel()
    other.confirm_select()
    ask_for(s, **REFUSING)
    for body in ("2", "3", "4"):
        publish_one(other, body)
    ch.get("q", no_ack=True)
    publish_one(ch, "5")
    publish_one(other, "6")
    late = s.channel()
    late.confirm_select()
    publish_one(late, "7")

    ch.get_all("q")


@scenario
def a_commit_on_a_stopped_channel_after_the_limit_has_gone(s: Run) -> None:
    ch = s.channel()
    ch.declare("q", arguments={"x-queue-type": "quorum"})
    ask_for(s, **REFUSING)
    ch.tx_select()
    for body in ("1", "2", "3", "4", "5"):
        ch.publish("", "q", body)
        ch.commit()
        ch.passive("q")
    ask_for(s, max_length=3)
    ch.publish("", "q", "6")
    ch.commit()
    s.operator.clear_policy(s.vhost, "p")
    s.elapse(500)
    ch.publish("", "q", "7")
    ch.commit()
    ch.passive("q")


@scenario
def a_negative_delivery_limit_and_the_delivery_limit_of_a_policy(s: Run) -> None:
    ch = s.channel()
    ch.declare("q", arguments={"x-queue-type": "quorum", "x-delivery-limit": -1})
    ask_for(s, delivery_limit=1)
    ch.fill("q", "1")
    while (found := ch.get("q")).name == "basic.get-ok":
        ch.reject(found)
        ch.sync()
        s.elapse(300)


@scenario
def a_policy_with_a_key_that_classic_queues_do_not_know_in_every_version(s: Run) -> None:
    ch = s.channel()
    for key, value in (("max-in-memory-length", 5), ("queue-leader-locator", "balanced")):
        s.operator.set_policy(s.vhost, key, f"^{key}", {"max-length": 1, key: value})
        for kind in ("classic", "quorum"):
            ch.declare(f"{key} {kind}", arguments={"x-queue-type": kind})
            lengths(s, ch, f"{key} {kind}")


@scenario(versions=("4.0", "3.10"))
def a_policy_with_a_master_locator(s: Run) -> None:
    ch = s.channel()
    s.operator.set_policy(s.vhost, "p", ".*", {"max-length": 1, "queue-master-locator": "client-local"})
    for kind in ("classic", "quorum"):
        ch.declare(kind, arguments={"x-queue-type": kind})
        lengths(s, ch, kind)
