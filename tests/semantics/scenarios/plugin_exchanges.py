"""Exchange types beyond the four of AMQP."""

from __future__ import annotations

from ..codec import Field
from ..scenario import Channel, Run, scenario


def bound(ch: Channel, exchange: str, keys: list[str]) -> None:
    """Bind a fresh queue with each key."""
    for index, key in enumerate(keys):
        ch.declare(f"q{index}")
        ch.bind(f"q{index}", exchange, key)


def count_all(ch: Channel, queues: int) -> int:
    """Return how many messages the queues hold together, once the counts are stable."""
    return sum(ch._count(f"q{index}") for index in range(queues))


@scenario
def consistent_hash_bindings_are_weights(s: Run) -> None:
    for key in ("x", "0", "-1", "1.5", ""):
        ch = s.channel()
        ch.declare_exchange("x", "x-consistent-hash")
        ch.declare("q")
        ch.bind("q", "x", key)
    s.channel().bind("q", "x", "1")


@scenario(versions=("4.3", "4.0"))
def a_consistent_hash_weight_beyond_10000(s: Run) -> None:
    ch = s.channel()
    ch.declare_exchange("x", "x-consistent-hash")
    ch.declare("q")
    ch.bind("q", "x", "10001")


@scenario
def consistent_hash_gives_each_message_to_one_queue(s: Run) -> None:
    ch = s.channel()
    ch.declare_exchange("x", "x-consistent-hash")
    bound(ch, "x", ["1", "1", "2"])
    for number in range(40):
        ch.publish("x", f"k{number}", "", mandatory=True)
    ch.sync()
    for _ in range(ch.connection.patience):
        total = count_all(ch, 3)
        if total == 40:
            break
    ch.connection.log.write(1, f"{total} in all")


@scenario
def consistent_hash_keeps_a_key_in_its_queue(s: Run) -> None:
    ch = s.channel()
    ch.declare_exchange("x", "x-consistent-hash")
    bound(ch, "x", ["5", "5", "5"])
    for _ in range(10):
        ch.publish("x", "the same", "")
    ch.sync()
    for _ in range(ch.connection.patience):
        counts = sorted(ch._count(f"q{index}") for index in range(3))
        if sum(counts) == 10:
            break
    ch.connection.log.write(1, f"{counts}")


@scenario
def consistent_hash_arguments(s: Run) -> None:
    s.channel().declare_exchange(
        "x", "x-consistent-hash", arguments={"hash-header": "h", "hash-property": "message_id"}
    )
    s.channel().declare_exchange("x", "x-consistent-hash", arguments={"hash-property": "reply_to"})
    s.channel().declare_exchange("x", "x-consistent-hash", arguments={"hash-property": "correlation_id"})


@scenario(versions=("4.3", "4.0"))
def a_hash_header_that_is_no_string(s: Run) -> None:
    s.channel().declare_exchange("x", "x-consistent-hash", arguments={"hash-header": 5})


@scenario
def random_gives_each_message_to_one_queue(s: Run) -> None:
    ch = s.channel()
    ch.declare_exchange("x", "x-random")
    bound(ch, "x", ["", "any key"])
    for _ in range(20):
        ch.publish("x", "ignored", "", mandatory=True)
    ch.sync()
    for _ in range(ch.connection.patience):
        total = count_all(ch, 2)
        if total == 20:
            break
    ch.connection.log.write(1, f"{total} in all")


@scenario(versions=("4.3", "4.0"))
def what_local_random_refuses(s: Run) -> None:
    s.channel().declare_exchange("x", "x-local-random")
    ch = s.channel()
    ch.declare("q")
    ch.bind("q", "x", "key")
    ch = s.channel()
    ch.declare("quorum", arguments={"x-queue-type": "quorum"})
    ch.bind("quorum", "x", "")
    s.channel().bind_exchange("amq.fanout", "x", "")


@scenario(versions=("4.3", "4.0"))
def local_random_gives_each_message_to_one_queue(s: Run) -> None:
    ch = s.channel()
    ch.declare_exchange("x", "x-local-random")
    bound(ch, "x", ["", ""])
    for _ in range(20):
        ch.publish("x", "ignored", "", mandatory=True)
    ch.sync()
    for _ in range(ch.connection.patience):
        total = count_all(ch, 2)
        if total == 20:
            break
    ch.connection.log.write(1, f"{total} in all")


@scenario(versions=("4.3",))
def modulus_hash_gives_each_message_to_one_queue(s: Run) -> None:
    ch = s.channel()
    ch.declare_exchange("x", "x-modulus-hash")
    bound(ch, "x", ["", "any"])
    for number in range(20):
        ch.publish("x", f"k{number}", "", mandatory=True)
    ch.sync()
    for _ in range(ch.connection.patience):
        total = count_all(ch, 2)
        if total == 20:
            break
    ch.connection.log.write(1, f"{total} in all")


@scenario
def recent_history_replays_to_new_bindings(s: Run) -> None:
    ch = s.channel()
    ch.declare_exchange("x", "x-recent-history", arguments={"x-recent-history-length": 2})
    for body in ("1", "2", "3"):
        ch.publish("x", f"k{body}", body, message_id=body, headers={"b": 1, "a": 2})
    ch.publish("x", "k", "not kept", headers={"x-recent-history-no-store": True})
    ch.sync()
    ch.declare("q")
    ch.bind("q", "x", "ignored")
    ch.await_count("q", 2)

    ch.get_all("q")


@scenario
def recent_history_keeps_twenty(s: Run) -> None:
    ch = s.channel()
    ch.declare_exchange("x", "x-recent-history")
    for number in range(25):
        ch.publish("x", "", str(number))
    ch.sync()
    ch.declare("q")
    ch.bind("q", "x")
    ch.await_count("q", 20)

    ch.get("q")


@scenario
def recent_history_lengths(s: Run) -> None:
    for length in (0, -1, "5", True, Field("l", 7)):
        s.channel().declare_exchange("x", "x-recent-history", arguments={"x-recent-history-length": length})


@scenario
def recent_history_routes_to_all(s: Run) -> None:
    ch = s.channel()
    ch.declare_exchange("x", "x-recent-history")
    bound(ch, "x", ["a", "b"])
    ch.publish("x", "c", "1")

    ch.await_count("q0", 1)
    ch.await_count("q1", 1)


@scenario
def there_is_no_type_for_events(s: Run) -> None:
    s.channel().declare_exchange("x", "x-event")


@scenario
def a_redeclare_quotes_types_that_are_no_plain_words(s: Run) -> None:
    ch = s.channel()
    ch.declare_exchange("history", "x-recent-history")
    ch.declare_exchange("history", "topic")
    ch = s.channel(2)
    ch.declare_exchange("topics", "topic")
    ch.declare_exchange("topics", "x-consistent-hash")


@scenario
def recent_history_replays_to_an_exchange_the_newest_first(s: Run) -> None:
    ch = s.channel()
    ch.declare_exchange("history", "x-recent-history")
    ch.declare_exchange("next", "fanout")
    ch.declare("q")
    ch.bind("q", "next")
    for body in ("1", "2", "3"):
        ch.publish("history", "k", body)
    ch.sync()

    ch.bind_exchange("next", "history")
    ch.await_count("q", 3)
    ch.get_all("q")


@scenario
def recent_history_replayed_to_an_exchange_that_leads_nowhere(s: Run) -> None:
    ch = s.channel()
    ch.declare_exchange("history", "x-recent-history")
    ch.declare_exchange("next", "fanout")
    ch.publish("history", "k", "1")
    ch.sync()

    ch.bind_exchange("next", "history")


@scenario
def a_binding_whose_replay_leads_nowhere(s: Run) -> None:
    ch = s.channel()
    ch.declare_exchange("history", "x-recent-history")
    ch.declare_exchange("next", "fanout")
    ch.publish("history", "k", "1")
    ch.bind_exchange("next", "history")

    s.channel(on=s.connect()).delete_exchange("history", if_unused=True)


@scenario
def a_hash_header_that_is_not_utf8(s: Run) -> None:
    ch = s.channel()
    ch.declare_exchange("x", "x-consistent-hash", arguments={"hash-header": b"\xff"})
    ch.declare("q")
    ch.bind("q", "x", "1")
    ch.publish("x", "k", "without", headers={"a": 1})
    ch.publish("x", "k", "with", headers=[(b"\xff", 1)])
    ch.await_count("q", 2)

    ch.get_all("q")
