"""How exchanges route messages, and when exchanges and their bindings are created and deleted."""

from __future__ import annotations

from ..codec import Field
from ..scenario import Channel, Run, scenario


def routed(ch: Channel, exchange: str, cases: list[tuple[str, str]]) -> None:
    """For each (binding key, routing key): bind a fresh queue, publish, and note whether the message arrived."""
    for index, (binding, key) in enumerate(cases):
        queue = f"q{index}"
        ch.connection.log.hidden |= {"queue.declare-ok", "queue.bind-ok", "queue.unbind-ok", "basic.return"}
        ch.declare(queue)
        ch.bind(queue, exchange, binding)
        matches = is_routed(ch, exchange, key)
        ch.unbind(queue, exchange, binding)
        ch.connection.log.write(ch.number, f"{binding!r} {'matches' if matches else 'does not match'} {key!r}")


def is_routed(ch: Channel, exchange: str, key: str, **properties: object) -> bool:
    """Return whether a mandatory message is not returned."""
    ch.publish(exchange, key, "x", mandatory=True, **properties)
    ch.send("channel.flow", active=True)
    ch.connection.log.hidden |= {"channel.flow-ok", "basic.return"}
    if ch.receive("basic.return", "channel.flow-ok").name == "channel.flow-ok":
        return True
    ch.receive("channel.flow-ok")
    return False


@scenario
def the_exchanges_every_vhost_has(s: Run) -> None:
    kinds = {"amq.direct": "direct", "amq.fanout": "fanout", "amq.topic": "topic", "amq.headers": "headers"}
    kinds |= {"amq.match": "headers", "amq.rabbitmq.trace": "topic"}
    for name, kind in kinds.items():
        s.channel().declare_exchange(name, kind, internal=name == "amq.rabbitmq.trace")


@scenario
def the_default_exchange_routes_by_queue_name(s: Run) -> None:
    ch = s.channel()
    ch.declare("q")
    ch.publish("", "q", "1")

    ch.await_count("q", 1)
    ch.get("q")


@scenario
def the_default_exchange_has_no_other_name(s: Run) -> None:
    ch = s.channel()
    ch.publish("amq.default", "q", "1")

    ch.receive()


@scenario
def direct_compares_keys_exactly(s: Run) -> None:
    cases = [("k", "k"), ("k", "K"), ("k", "k.a"), ("", ""), ("", "k"), ("#", "k"), ("ä", "ä")]
    routed(s.channel(), "amq.direct", cases)


@scenario
def fanout_ignores_keys(s: Run) -> None:
    routed(s.channel(), "amq.fanout", [("k", "other"), ("", "x")])


@scenario
def topic_matches_words(s: Run) -> None:
    keys = ["", "a", "b", "a.", ".a", "a.b", "a.b.c", "ab", ".", "a..b", "b.a", "a.x.b", "a.x.y.b", "x.a", "A.b"]
    bindings = ["a.*", "a.#", "#", "*", "", "#.a", "a.#.b", "*.*", "*.#", "#.*", "#.#", "a.#.*", "a*", "a#", "a.*.b"]
    bindings += ["#.#.a", "a.b", "*.*.*", "#.b.#", "a.*.#"]
    routed(s.channel(), "amq.topic", [(binding, key) for binding in bindings for key in keys])


@scenario
def headers_all_and_any(s: Run) -> None:
    tables: list[dict[str, object]] = [
        {"x-match": "all", "a": 1, "b": 2},
        {"x-match": "any", "a": 1, "b": 2},
        {"a": 1, "b": 2},
        {"x-match": "all"},
        {"x-match": "any"},
        {},
        {"x-match": "all", "x-a": 1},
        {"x-match": "all-with-x", "x-a": 1},
        {"x-match": "any-with-x", "x-a": 1},
        {"x-match": "any", "x-a": 1},
    ]
    messages: list[dict[str, object]] = [{}, {"a": 1}, {"a": 1, "b": 2}, {"a": 1, "b": 3}, {"c": 1}, {"x-a": 1}]
    headers_match(s.channel(), tables, messages)


@scenario
def headers_without_a_headers_property(s: Run) -> None:
    ch = s.channel()
    ch.declare("q")
    ch.bind("q", "amq.headers", "", {"x-match": "all"})

    ch.publish("amq.headers", "ignored", "1")
    ch.await_count("q", 1)


def headers_match(ch: Channel, tables: list[dict[str, object]], messages: list[dict[str, object]]) -> None:
    """Note which message headers match which binding arguments."""
    ch.connection.log.hidden |= {"queue.declare-ok", "queue.bind-ok", "queue.unbind-ok"}
    ch.declare("q")
    for table in tables:
        ch.bind("q", "amq.headers", "", table)
        matching = [
            index for index, headers in enumerate(messages) if is_routed(ch, "amq.headers", "", headers=headers)
        ]
        ch.unbind("q", "amq.headers", "", table)
        ch.connection.log.write(ch.number, f"{table} matches messages {matching}")


@scenario
def headers_compare_values_of_many_types(s: Run) -> None:
    values = [1, Field("l", 1), Field("B", 1), 1.0, Field("f", 1.0), "1", True, Field("x", "1"), Field("D", (0, 1))]
    values += [None, [1], [Field("l", 1)], {"n": 1}, {"n": Field("l", 1)}, b"1", "TRUE", Field("f", 1.5), 1.5]
    headers_match(s.channel(), [{"h": value} for value in values], [{"h": value} for value in values])


@scenario
def a_void_binding_value_matches_any_value(s: Run) -> None:
    messages: list[dict[str, object]] = [{"h": 1}, {"h": "x"}, {"h": None}, {"H": 1}, {}]
    headers_match(s.channel(), [{"h": None}], messages)


@scenario
def headers_timestamps(s: Run) -> None:
    times = [{"h": Field("T", 5)}, {"h": Field("T", 5000)}, {"h": 5}, {"h": 5000}]
    headers_match(s.channel(), times, times)


@scenario
def an_internal_exchange_takes_no_publish(s: Run) -> None:
    ch = s.channel()
    ch.declare_exchange("inner", "fanout", internal=True)
    ch.declare("q")
    ch.bind("q", "inner")
    ch.bind_exchange("inner", "amq.direct", "k")
    ch.publish("amq.direct", "k", "1")
    ch.await_count("q", 1)

    ch.publish("inner", "k", "2")
    ch.receive()


@scenario
def an_auto_delete_exchange_goes_with_its_last_binding(s: Run) -> None:
    ch = s.channel()
    ch.declare_exchange("x", "fanout", auto_delete=True)
    ch.declare("q")
    ch.declare("r")
    ch.bind("q", "x")
    ch.bind("r", "x")
    ch.unbind("q", "x")
    ch.call("exchange.declare", exchange="x", type="fanout", passive=True)
    ch.delete("r")

    ch.call("exchange.declare", exchange="x", type="fanout", passive=True)


@scenario
def an_auto_delete_exchange_goes_with_its_destination_exchange(s: Run) -> None:
    ch = s.channel()
    ch.declare_exchange("source", "fanout", auto_delete=True)
    ch.declare_exchange("destination", "fanout", auto_delete=True)
    ch.bind_exchange("destination", "source")
    ch.delete_exchange("destination")

    ch.call("exchange.declare", exchange="source", type="fanout", passive=True)


@scenario
def bindings_as_destination_do_not_keep_or_end_an_auto_delete_exchange(s: Run) -> None:
    ch = s.channel()
    ch.declare_exchange("x", "fanout", auto_delete=True)
    ch.bind_exchange("x", "amq.fanout")
    ch.unbind_exchange("x", "amq.fanout")
    ch.call("exchange.declare", exchange="x", type="fanout", passive=True)
    ch.bind_exchange("x", "amq.fanout")
    ch.declare("q")
    ch.bind("q", "x")
    ch.unbind("q", "x")

    ch.call("exchange.declare", exchange="x", type="fanout", passive=True)


@scenario
def deleting_an_exchange_removes_its_bindings(s: Run) -> None:
    ch = s.channel()
    ch.declare_exchange("x", "fanout")
    ch.declare("q")
    ch.bind("q", "x")
    ch.bind_exchange("x", "amq.fanout")
    ch.delete_exchange("x")
    ch.declare_exchange("x", "fanout")

    for exchange in ("x", "amq.fanout"):
        ch.publish(exchange, "", "1", mandatory=True)
        ch.receive("basic.return")


@scenario
def a_binding_made_twice_is_one(s: Run) -> None:
    ch = s.channel()
    ch.declare("q")
    ch.bind("q", "amq.direct", "k")
    ch.bind("q", "amq.direct", "k")
    ch.publish("amq.direct", "k", "1")
    ch.await_count("q", 1)
    ch.unbind("q", "amq.direct", "k")

    ch.publish("amq.direct", "k", "2", mandatory=True)
    ch.receive("basic.return")


@scenario
def unbinding_needs_the_exact_arguments(s: Run) -> None:
    ch = s.channel()
    ch.declare("q")
    ch.bind("q", "amq.direct", "k", {"a": 1, "b": 2})
    for arguments in ({}, {"a": 1}, {"a": 1, "b": "2"}, {"a": Field("l", 1), "b": 2}, {"b": 2, "a": 1}):
        ch.unbind("q", "amq.direct", "k", arguments)
        ch.connection.log.write(1, f"{arguments}: bound {is_routed(ch, 'amq.direct', 'k')}")


@scenario
def several_matching_bindings_give_one_copy(s: Run) -> None:
    ch = s.channel()
    ch.declare("q")
    for key in ("a.*", "#", "a.b", "*.b"):
        ch.bind("q", "amq.topic", key)
    ch.publish("amq.topic", "a.b", "1", headers={"CC": ["a.c", "a.b"]})

    ch.await_count("q", 1)
    ch.get("q")


@scenario
def a_consumer_sees_the_exchange_and_key_of_the_publish(s: Run) -> None:
    ch = s.channel()
    ch.declare("q")
    ch.declare_exchange("inner", "fanout")
    ch.bind("q", "inner")
    ch.bind_exchange("inner", "amq.topic", "#")
    ch.publish("amq.topic", "original.key", "1")

    ch.await_count("q", 1)
    ch.get("q")


@scenario
def exchanges_bound_in_a_circle_are_visited_once(s: Run) -> None:
    ch = s.channel()
    ch.declare("q")
    for name in ("x", "y"):
        ch.declare_exchange(name, "fanout")
        ch.bind("q", name)
    ch.bind_exchange("x", "y")
    ch.bind_exchange("y", "x")
    ch.bind_exchange("x", "x")
    ch.publish("x", "", "1")

    ch.await_count("q", 1)
    ch.get_all("q")


@scenario
def an_exchange_binding_routes_anew_with_the_same_keys(s: Run) -> None:
    ch = s.channel()
    ch.declare("q")
    ch.declare_exchange("inner", "topic")
    ch.bind("q", "inner", "a.*")
    ch.bind_exchange("inner", "amq.direct", "a.b")
    ch.bind_exchange("inner", "amq.direct", "b.b")

    for key in ("a.b", "b.b"):
        ch.connection.log.write(1, f"{key}: {is_routed(ch, 'amq.direct', key)}")


@scenario
def headers_with_a_zero_below_zero(s: Run) -> None:
    zeros: list[object] = [0.0, -0.0, 0, Field("f", 0.0), Field("f", -0.0)]
    nested = [*({"z": zero} for zero in zeros), *([zero] for zero in zeros), {"a": [{"z": -0.0}]}, {"a": [{"z": 0.0}]}]
    values = [{"h": value} for value in [*zeros, *nested]]
    headers_match(s.channel(), values, values)


@scenario
def headers_with_equal_values_inside_arrays_and_tables(s: Run) -> None:
    items: list[object] = [1, 1.0, Field("f", 1.0), True, "1", Field("T", 1), None, b"\xff", {}, []]
    values = [{"h": value} for value in [*([item] for item in items), *({"k": item} for item in items)]]
    headers_match(s.channel(), values, values)
