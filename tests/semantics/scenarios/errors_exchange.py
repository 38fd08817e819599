"""Errors of exchanges and bindings, with the exact text."""

from __future__ import annotations

from ..codec import Field
from ..scenario import Run, scenario


@scenario(versions=("4.3", "4.0"))
def an_unknown_exchange_type(s: Run) -> None:
    s.channel().declare_exchange("x", "no-such-type-9c1")
    s.channel().declare_exchange("x", "")


@scenario(versions=("3.10",))
def an_unknown_exchange_type_closes_the_connection(s: Run) -> None:
    s.channel().declare_exchange("x", "no-such-type-9c1")


@scenario
def the_default_exchange_may_not_be_touched(s: Run) -> None:
    s.channel().declare_exchange("")
    s.channel().call("exchange.declare", exchange="", type="direct", passive=True)
    s.channel().delete_exchange("")
    ch = s.channel()
    ch.declare("q")
    ch.bind("q", "", "k")
    s.channel().unbind("q", "", "q")
    s.channel().bind_exchange("", "amq.direct")
    s.channel().bind_exchange("amq.direct", "")
    s.channel().unbind_exchange("amq.direct", "")


@scenario
def reserved_exchange_names(s: Run) -> None:
    s.channel().declare_exchange("amq.mine")
    s.channel().declare_exchange("amq.direct", "direct")
    s.channel().declare_exchange("amq.direct", "fanout")
    s.channel().delete_exchange("amq.direct")
    s.channel().delete_exchange("amq.missing")


@scenario
def a_passive_declare_of_a_missing_exchange(s: Run) -> None:
    s.channel().call("exchange.declare", exchange="missing", type="direct", passive=True)


@scenario
def a_passive_declare_looks_at_the_name_only(s: Run) -> None:
    ch = s.channel()
    ch.declare_exchange("x", "fanout")

    fields = {"exchange": "x", "type": "nonsense", "passive": True, "auto_delete": True, "internal": True}
    ch.call("exchange.declare", **fields)


@scenario
def deleting_a_missing_exchange_is_fine(s: Run) -> None:
    s.channel().delete_exchange("missing")


@scenario
def deleting_an_exchange_in_use(s: Run) -> None:
    ch = s.channel()
    ch.declare("q")
    ch.declare_exchange("x")
    ch.bind("q", "x", "k")

    ch.delete_exchange("x", if_unused=True)


@scenario
def bindings_as_a_destination_are_no_use(s: Run) -> None:
    ch = s.channel()
    ch.declare_exchange("source")
    ch.declare_exchange("destination")
    ch.bind_exchange("destination", "source", "k")

    ch.delete_exchange("destination", if_unused=True)
    ch.delete_exchange("source", if_unused=True)


@scenario
def redeclaring_an_exchange_differently(s: Run) -> None:
    s.channel().declare_exchange("x", "fanout")
    s.channel().declare_exchange("x", "fanout")
    s.channel().declare_exchange("x", "direct", durable=False, auto_delete=True, internal=True)
    s.channel().declare_exchange("x", "fanout", durable=False, auto_delete=True, internal=True)
    s.channel().declare_exchange("x", "fanout", auto_delete=True, internal=True)
    s.channel().declare_exchange("x", "fanout", internal=True)


@scenario
def redeclaring_with_another_alternate_exchange(s: Run) -> None:
    s.channel().declare_exchange("plain")
    s.channel().declare_exchange("x", arguments={"alternate-exchange": "a"})
    s.channel().declare_exchange("x", arguments={"alternate-exchange": "a"})
    s.channel().declare_exchange("x", arguments={"alternate-exchange": "b"})
    s.channel().declare_exchange("x")
    s.channel().declare_exchange("plain", arguments={"alternate-exchange": "b"})
    s.channel().declare_exchange("plain", arguments={"other": "b"})


@scenario
def an_alternate_exchange_that_is_no_string(s: Run) -> None:
    s.channel().declare_exchange("x", arguments={"alternate-exchange": 5})
    s.channel().declare_exchange("x", arguments={"alternate-exchange": True})
    s.channel().declare_exchange("x", arguments={"alternate-exchange": Field("x", "a")})


@scenario
def binding_what_is_missing(s: Run) -> None:
    ch = s.channel()
    ch.declare("q")
    ch.bind("q", "missing", "k")
    s.channel().bind("missing", "amq.direct", "k")
    s.channel().bind("missing", "missing too", "k")
    s.channel().bind_exchange("missing", "amq.direct")
    s.channel().bind_exchange("amq.direct", "missing")
    s.channel().bind_exchange("missing", "missing too")


@scenario
def unbinding_what_is_missing_is_fine(s: Run) -> None:
    ch = s.channel()
    ch.declare("q")
    ch.unbind("q", "amq.direct", "never bound")
    ch.unbind("q", "missing", "k")
    ch.unbind("missing", "amq.direct", "k")
    ch.unbind("missing", "missing too", "k")
    ch.unbind_exchange("missing", "amq.direct")
    ch.unbind_exchange("amq.direct", "missing")
    ch.unbind_exchange("amq.direct", "amq.fanout", "never bound")


@scenario
def a_headers_binding_with_a_wrong_x_match(s: Run) -> None:
    for value in ("some", 5, True, Field("x", "all"), None):
        ch = s.channel()
        ch.declare("q")
        ch.bind("q", "amq.headers", "", {"x-match": value})
    s.channel().bind_exchange("amq.direct", "amq.headers", "", {"x-match": "some"})


@scenario
def the_first_x_match_of_a_headers_binding_wins(s: Run) -> None:
    ch = s.channel()
    ch.declare("q")

    ch.bind("q", "amq.headers", "", [("x-match", "any"), ("x-match", "all"), ("a", 1), ("b", 2)])
    ch.publish("amq.headers", "", "1", headers={"a": 1})
    ch.await_count("q", 1)


@scenario(versions=("4.3",))
def a_topic_binding_with_three_hashes(s: Run) -> None:
    ch = s.channel()
    ch.declare("q")
    ch.bind("q", "amq.topic", "#.a.#")
    ch.bind("q", "amq.topic", "a.#.b.#.c.#")
    s.channel().bind_exchange("amq.direct", "amq.topic", "#.#.#.#")


@scenario
def long_error_texts_are_cut_at_255(s: Run) -> None:
    name = "n" * 250
    s.channel().purge(name)
    s.channel().bind(name, "amq.direct")
    s.channel().call("exchange.declare", exchange=name, type="direct", passive=True)


@scenario
def an_error_text_within_255_characters_but_beyond_255_octets_breaks(s: Run) -> None:
    s.channel().purge("ä" * 120)


@scenario
def names_may_be_long_and_odd(s: Run) -> None:
    ch = s.channel()
    ch.declare_exchange("x" * 255)
    ch.declare_exchange("käse 🧀 # * .")
    ch.declare("q" * 255)
    ch.declare("käse 🧀 # * .")


@scenario
def line_breaks_are_stripped_from_names(s: Run) -> None:
    ch = s.channel()
    ch.declare_exchange("x\r\ny")
    ch.declare("q\nr\r")
    ch.bind("q\rr", "x\ny", "k")
    ch.publish("xy", "k", "1")
    ch.await_count("qr", 1)
    ch.unbind("\nqr", "x\ry", "k")
    ch.publish("xy", "k", "2")
    ch.delete_exchange("x\ny")
    ch.delete("q\nr")
    s.channel().purge("q\nr")
    s.channel().consume("q\nr")
    s.channel().get("q\nr")
    ch = s.channel()
    ch.publish("x\ny", "k", "3")
    ch.receive()


@scenario
def pipelined_methods_after_a_channel_error_are_ignored(s: Run) -> None:
    ch = s.channel()
    ch.send("queue.purge", queue="missing")
    ch.send("queue.declare", queue="never", durable=True)
    ch.receive("queue.purge-ok")

    s.channel().passive("never")
