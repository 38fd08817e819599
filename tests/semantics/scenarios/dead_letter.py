"""Dead letters of classic queues: when they happen, where they go, and what their headers contain."""

from __future__ import annotations

from ..codec import Field
from ..scenario import Channel, Run, scenario


def dead(s: Run, exchange: str = "", key: str | None = "dead", **arguments: object) -> Channel:
    """Declare a queue ``q`` whose dead letters go to the queue ``dead``."""
    ch = s.channel()
    ch.declare("dead")
    target: dict[str, object] = {"x-dead-letter-exchange": exchange}
    if key is not None:
        target["x-dead-letter-routing-key"] = key
    named = {"x-" + name.replace("_", "-"): value for name, value in arguments.items()}
    ch.declare("q", arguments={**target, **named})
    return ch


def die(ch: Channel, count: int = 1) -> None:
    """Reject every ready message of q, and wait until all are dead-lettered."""
    for _ in range(count):
        ch.reject(ch.get("q"), requeue=False)
    ch.await_count("dead", count)


@scenario
def a_rejected_message(s: Run) -> None:
    ch = dead(s)
    ch.fill("q", "1", message_id="m", headers={"a": 1})
    die(ch)

    ch.get("dead")


@scenario
def the_order_of_headers(s: Run) -> None:
    ch = dead(s)
    ch.fill("q", "1", headers=[("z", 1), ("k", 2), ("b", 3), ("k", 4), ("CC", []), ("ä", 5)])
    die(ch)

    ch.get("dead")


@scenario
def a_nacked_message(s: Run) -> None:
    ch = dead(s)
    ch.fill("q", "1")
    ch.nack(ch.get("q"), requeue=False)
    ch.await_count("dead", 1)

    ch.get("dead")


@scenario
def an_expired_message(s: Run) -> None:
    ch = dead(s)
    ch.fill("q", "1", expiration="50", delivery_mode=2)
    s.elapse(150)
    ch.await_count("dead", 1)

    ch.get("dead")


@scenario
def a_message_expired_by_its_queue(s: Run) -> None:
    ch = dead(s, message_ttl=50)
    ch.fill("q", "1")
    s.elapse(150)
    ch.await_count("dead", 1)

    ch.get("dead")


@scenario
def a_message_over_the_maximum_length(s: Run) -> None:
    ch = dead(s, max_length=1)
    ch.publish("", "q", "1")
    ch.publish("", "q", "2")
    ch.await_count("dead", 1)

    ch.get("dead")
    ch.get("q")


@scenario
def acked_messages_do_not_die(s: Run) -> None:
    ch = dead(s)
    ch.fill("q", "1")
    ch.ack(ch.get("q"))
    ch.sync()

    ch.get("dead")


@scenario
def without_a_key_the_original_keys_are_used(s: Run) -> None:
    ch = dead(s, exchange="amq.topic", key=None)
    ch.bind("q", "amq.direct", "some.key")
    ch.bind("dead", "amq.topic", "some.*")
    ch.publish("amq.direct", "some.key", "1")
    ch.await_count("q", 1)
    die(ch)

    ch.get("dead")


@scenario
def without_a_key_cc_and_bcc_route_again(s: Run) -> None:
    ch = dead(s, exchange="amq.direct", key=None)
    ch.declare("by bcc")
    ch.bind("dead", "amq.direct", "copy")
    ch.bind("by bcc", "amq.direct", "blind")
    ch.publish("", "q", "1", headers={"CC": ["copy"], "BCC": ["blind"]})
    ch.await_count("q", 1)
    die(ch)
    ch.await_count("by bcc", 1)

    ch.get("dead")
    ch.get("by bcc")


@scenario
def a_dead_letter_key_replaces_cc(s: Run) -> None:
    ch = dead(s)
    ch.declare("copy")
    ch.publish("", "q", "1", headers={"CC": ["copy"]})
    ch.await_count("copy", 1)
    ch.await_count("q", 1)
    die(ch)

    ch.get("dead")
    ch.get_all("copy")


@scenario
def a_missing_dead_letter_exchange_drops(s: Run) -> None:
    ch = dead(s, exchange="missing")
    ch.fill("q", "1")
    ch.reject(ch.get("q"), requeue=False)
    ch.sync()

    ch.get("q")
    ch.get("dead")


@scenario
def the_dead_letter_exchange_may_come_later(s: Run) -> None:
    ch = dead(s, exchange="later")
    ch.fill("q", "1")
    ch.declare_exchange("later", "fanout")
    ch.bind("dead", "later")
    die(ch)

    ch.get("dead")


@scenario
def an_internal_exchange_takes_dead_letters(s: Run) -> None:
    ch = dead(s, exchange="inner")
    ch.declare_exchange("inner", "fanout", internal=True)
    ch.bind("dead", "inner")
    ch.fill("q", "1")
    die(ch)

    ch.get("dead")


@scenario
def dead_letters_of_a_multiple_nack_keep_the_order(s: Run) -> None:
    ch = dead(s)
    ch.fill("q", "1", "2", "3")
    for _ in range(3):
        last = ch.get("q")
    ch.nack(last, multiple=True, requeue=False)
    ch.await_count("dead", 3)

    ch.get_all("dead")


@scenario
def the_expiration_is_removed_and_remembered(s: Run) -> None:
    ch = dead(s)
    ch.fill("q", "1", expiration="60000")
    die(ch)

    ch.get("dead")


@scenario
def a_second_death_in_the_same_queue_counts(s: Run) -> None:
    ch = s.channel()
    ch.declare("q", arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "retry"})
    retry = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "q", "x-message-ttl": 20}
    ch.declare("retry", arguments=retry)
    ch.fill("q", "1", expiration="60000", headers={"a": 1})
    for _ in range(3):
        ch.reject(ch.get("q"), requeue=False)
        ch.sync()
        s.elapse(120)
        ch.await_count("q", 1)

    ch.get("q")


@scenario
def deaths_in_three_queues(s: Run) -> None:
    ch = s.channel()
    ch.declare("end")
    for queue, following in (("c", "end"), ("b", "c"), ("a", "b")):
        ch.declare(queue, arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": following})
    ch.fill("a", "1", headers={"CC": ["elsewhere"]})
    for queue, following in (("a", "b"), ("b", "c"), ("c", "end")):
        ch.nack(ch.get(queue), requeue=False)
        ch.await_count(following, 1)

    ch.get("end")


@scenario
def a_published_x_death_means_nothing(s: Run) -> None:
    ch = dead(s)
    entry = {"count": Field("l", 5), "reason": "rejected", "queue": "q", "exchange": "", "routing-keys": ["q"]}
    headers = {"x-death": [entry], "x-first-death-queue": "invented", "x-first-death-reason": "expired"}
    ch.fill("q", "1", headers=headers)
    ch.get("q")
    ch.recover()
    ch.await_count("q", 1)
    die(ch)

    ch.get("dead")


@scenario
def a_published_x_death_that_is_no_array(s: Run) -> None:
    ch = dead(s)
    ch.fill("q", "1", headers={"x-death": "nonsense"})
    die(ch)

    ch.get("dead")


@scenario
def a_published_x_death_without_deaths(s: Run) -> None:
    ch = dead(s)
    ch.fill("q", "1", headers={"x-death": []})
    die(ch)

    ch.get("dead")


@scenario
def a_self_loop_by_expiry_ends(s: Run) -> None:
    ch = s.channel()
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "q", "x-message-ttl": 20}
    ch.declare("q", arguments=arguments)
    ch.publish("", "q", "1")
    s.elapse(150)
    ch.await_count("q", 0)

    ch.get("q")


@scenario
def a_loop_of_two_by_expiry_ends(s: Run) -> None:
    ch = s.channel()
    for queue, following in (("a", "b"), ("b", "a")):
        arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": following, "x-message-ttl": 20}
        ch.declare(queue, arguments=arguments)
    ch.publish("", "a", "1")
    s.elapse(300)
    ch.await_count("a", 0)
    ch.await_count("b", 0)


@scenario
def a_loop_by_rejecting_goes_on(s: Run) -> None:
    ch = s.channel()
    ch.declare("q", arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "q"})
    ch.fill("q", "1")
    for _ in range(3):
        ch.nack(ch.get("q"), requeue=False)
        ch.await_count("q", 1)

    ch.get("q")


@scenario
def a_cycle_is_cut_per_target_queue(s: Run) -> None:
    ch = s.channel()
    ch.declare("other")
    ch.declare("q", arguments={"x-dead-letter-exchange": "amq.fanout", "x-message-ttl": 20})
    ch.bind("q", "amq.fanout")
    ch.bind("other", "amq.fanout")
    ch.publish("", "q", "1")
    s.elapse(150)
    ch.await_count("other", 1)
    ch.await_count("q", 0)

    ch.get_all("other")


@scenario
def rejected_to_a_waiting_consumer(s: Run) -> None:
    consumer = s.channel(2)
    ch = dead(s)
    consumer.consume("dead")
    ch.fill("q", "1")
    ch.reject(ch.get("q"), requeue=False)

    consumer.deliver()


@scenario
def a_dead_letter_without_a_route_is_dropped(s: Run) -> None:
    ch = dead(s, key="nowhere")
    ch.publish("", "q", "1", mandatory=True)
    ch.await_count("q", 1)
    ch.reject(ch.get("q"), requeue=False)
    ch.sync()

    ch.get("q")


@scenario
def dead_letters_to_a_full_queue_are_lost(s: Run) -> None:
    ch = s.channel()
    ch.declare("dead", arguments={"x-max-length": 0, "x-overflow": "reject-publish"})
    ch.declare("q", arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"})
    ch.fill("q", "1")
    ch.reject(ch.get("q"), requeue=False)
    ch.sync()

    ch.get("dead")
    ch.get("q")


@scenario
def a_rejected_publish_may_be_dead_lettered(s: Run) -> None:
    ch = dead(s, max_length=1, overflow="reject-publish-dlx")
    ch.confirm_select()
    ch.publish("", "q", "1")
    ch.publish("", "q", "2")
    ch.confirms()
    ch.await_count("dead", 1)

    ch.get("dead")
    ch.get_all("q")


@scenario
def the_dead_letter_exchange_may_have_an_alternate(s: Run) -> None:
    ch = dead(s, exchange="dlx")
    ch.declare_exchange("dlx", arguments={"alternate-exchange": "amq.fanout"})
    ch.bind("dead", "amq.fanout")
    ch.fill("q", "1")
    die(ch)

    ch.get("dead")


@scenario
def the_last_death_names_the_exchange_it_came_from_this_time(s: Run) -> None:
    ch = s.channel()
    ch.declare_exchange("first", "fanout")
    ch.declare_exchange("again", "fanout")
    ch.declare("q", arguments={"x-dead-letter-exchange": "again"})
    ch.bind("q", "first")
    ch.bind("q", "again")
    ch.publish("first", "k", "m")
    ch.await_count("q", 1)
    for _ in range(3):
        ch.reject(ch.get("q"), requeue=False)
        ch.await_count("q", 1)

    ch.get("q")


HISTORY = (
    "x-death",
    *(f"x-{which}-death-{part}" for which in ("first", "last") for part in ("exchange", "queue", "reason")),
)


def dead_letters_reach(s: Run, **published: object) -> None:
    """Dead-letter a message twice into a headers exchange, with a queue for each header of the history."""
    ch = s.channel()
    ch.declare_exchange("h", "headers")
    for name in HISTORY:
        ch.declare(name)
        ch.bind(name, "h", arguments={"x-match": "any-with-x", name: None})
    ch.declare("last")
    ch.bind("last", "h", arguments={"x-match": "all"})
    for queue, exchange in (("q", ""), ("again", "h")):
        ch.declare(queue, arguments={"x-dead-letter-exchange": exchange, "x-dead-letter-routing-key": "again"})
    ch.fill("q", "1", headers=published)
    ch.reject(ch.get("q"), requeue=False)
    ch.await_count("again", 1)
    ch.reject(ch.get("again"), requeue=False)
    ch.await_count("last", 1)
    for name in HISTORY:
        ch.passive(name)


@scenario
def the_headers_of_a_death_that_a_headers_exchange_sees(s: Run) -> None:
    dead_letters_reach(s)


@scenario
def a_published_x_death_that_a_headers_exchange_sees(s: Run) -> None:
    dead_letters_reach(s, **{"x-death": [{"count": 1, "reason": "rejected", "queue": "other"}]})


def _as_published_by_a_client(s: Run, **arguments: object) -> Channel:
    """Publish what tells of a last death, and let the message die."""
    ch = dead(s, **arguments)
    headers = {"x-last-death-queue": "invented", "x-last-death-reason": "expired", "x-last-death-exchange": 5, "k": 1}
    ch.publish("", "q", "1", headers=headers, expiration="0" if arguments.get("max_length") is None else "60000")
    ch.await_count("dead", 1)
    return ch


@scenario
def a_published_last_death_of_a_message_that_expires(s: Run) -> None:
    ch = _as_published_by_a_client(s)

    ch.get("dead")


@scenario
def a_published_last_death_of_a_message_beyond_the_limit(s: Run) -> None:
    ch = _as_published_by_a_client(s, max_length=0)

    ch.get("dead")


@scenario
def a_published_last_death_of_a_message_that_a_quorum_queue_rejects(s: Run) -> None:
    ch = dead(s, queue_type="quorum")
    ch.fill("q", "1", headers={"x-last-death-queue": "invented", "x-last-death-reason": "expired"})
    die(ch)

    ch.get("dead")


@scenario
def a_published_last_death_of_a_message_that_dies_twice(s: Run) -> None:
    ch = dead(s)
    ch.declare("between", arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "q"})
    ch.fill("between", "1", headers={"x-last-death-queue": "invented", "x-first-death-queue": "first"})
    ch.reject(ch.get("between"), requeue=False)
    ch.await_count("q", 1)
    die(ch)

    ch.get("dead")
