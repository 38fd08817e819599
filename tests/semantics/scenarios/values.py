"""Properties and field tables: what is delivered of what was published."""

from __future__ import annotations

from ..codec import Field
from ..scenario import Run, scenario


def comes_back(s: Run, **properties: object) -> None:
    """Publish one message with these properties and get it."""
    ch = s.channel()
    ch.declare("q")
    ch.fill("q", "body", **properties)
    ch.get("q")


@scenario
def all_properties_come_back(s: Run) -> None:
    strings = {"content_type": "a", "content_encoding": "b", "correlation_id": "c", "reply_to": "d", "message_id": "e"}
    strings |= {"type": "f", "user_id": "guest", "app_id": "g", "cluster_id": "h", "expiration": "600000"}
    comes_back(s, **strings, headers={"k": "v"}, delivery_mode=2, priority=7, timestamp=1234)


@scenario
def no_properties_come_back_as_none(s: Run) -> None:
    comes_back(s)


@scenario
def empty_properties_stay_present(s: Run) -> None:
    comes_back(s, headers={}, content_type="", message_id="", timestamp=0, priority=0)


@scenario
def property_strings_may_be_any_octets(s: Run) -> None:
    comes_back(s, message_id=b"\xff\xfe\x00", app_id="x" * 255)


@scenario(versions=("4.3", "4.0"))
def any_delivery_mode_comes_back(s: Run) -> None:
    for mode in (0, 1, 2, 3, 255):
        comes_back(s, delivery_mode=mode)


@scenario
def any_priority_comes_back(s: Run) -> None:
    for priority in (0, 9, 255):
        comes_back(s, priority=priority)


@scenario
def every_header_type_comes_back(s: Run) -> None:
    headers = {
        "a-true": True,
        "b-odd-true": Field("t", b"\x07"),
        "byte": Field("b", -5),
        "c-ubyte": Field("B", 250),
        "d-short": Field("s", -300),
        "e-ushort": Field("u", 65_000),
        "f-int": Field("I", -70_000),
        "g-uint": Field("i", 4_000_000_000),
        "h-long": Field("l", -(2**40)),
        "i-L": Field("L", 2**63 + 5),
        "j-float": Field("f", 1.5),
        "k-double": Field("d", -2.25),
        "l-decimal": Field("D", (2, 314)),
        "m-string": "text",
        "n-octets": b"\xff\x00",
        "o-array": [1, "x", [True, None], {"z": 1, "a": 2}],
        "p-timestamp": Field("T", 5),
        "q-table": {"z": 1, "a": {"n": None}},
        "r-void": None,
        "s-binary": Field("x", b"\x01\x02"),
        "t-empty": [{}, [], ""],
    }
    comes_back(s, headers=headers)


@scenario
def header_names_are_sorted_and_doubles_dropped(s: Run) -> None:
    pairs = [("b", 1), ("a", 2), ("B", 3), ("b", 4), ("", 5), ("ä", 6), ("aa", 7), ("a", 8)]
    comes_back(s, headers=pairs)


@scenario
def nested_tables_keep_their_order(s: Run) -> None:
    comes_back(s, headers={"t": Field("F", [("b", 1), ("a", 2), ("b", 3)])})


@scenario
def tables_nested_64_deep(s: Run) -> None:
    nested: dict[str, object] = {"leaf": 1}
    for _ in range(63):
        nested = {"t": nested}
    ch = s.channel()
    ch.declare("q", arguments=nested)
    ch.bind("q", "amq.headers", "", nested)
    ch.fill("q", "x", headers={"t": nested})

    ch.get("q")


@scenario
def headers_are_sorted_on_returns_too(s: Run) -> None:
    ch = s.channel()
    ch.publish("", "missing", "x", mandatory=True, headers=[("b", 1), ("a", 2), ("a", 3)])

    ch.receive("basic.return")


@scenario
def bcc_is_removed_and_cc_stays(s: Run) -> None:
    ch = s.channel()
    for queue in ("q", "cc", "bcc"):
        ch.declare(queue)
    ch.publish("", "q", "x", headers={"BCC": ["bcc"], "CC": ["cc"], "a": 1})

    for queue in ("q", "cc", "bcc"):
        ch.await_count(queue, 1)
        ch.get(queue)


@scenario
def bcc_is_removed_on_returns(s: Run) -> None:
    ch = s.channel()
    ch.publish("", "missing", "x", mandatory=True, headers={"BCC": ["missing too"], "CC": ["nowhere"]})
    ch.receive("basic.return")
    ch.publish("", "missing", "x", mandatory=True, headers={"BCC": ["missing too"]})

    ch.receive("basic.return")


@scenario
def bodies_are_any_octets(s: Run) -> None:
    ch = s.channel()
    ch.declare("q")
    ch.publish("", "q", bytes(range(256)) * 5)

    ch.await_count("q", 1)
    ch.get("q")


@scenario
def a_name_of_255_octets_in_a_table(s: Run) -> None:
    comes_back(s, headers={"n" * 255: "v"})
