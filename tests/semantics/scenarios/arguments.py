"""Queue arguments: which are valid, the texts of refusals, how a redeclare compares them."""

from __future__ import annotations

from ..codec import Field
from ..scenario import Run, scenario

QUORUM, STREAM = {"x-queue-type": "quorum"}, {"x-queue-type": "stream"}
NOT_INTEGERS = ("5", True, 1.5, Field("T", 5), None)


def each_refused(s: Run, cases: list[dict[str, object]], **flags: bool) -> None:
    """Declare a queue with each table, on a channel of its own."""
    for index, arguments in enumerate(cases):
        s.channel().declare(f"q{index}", arguments=arguments, **flags)


@scenario
def integers_are_expected(s: Run) -> None:
    names = ("x-expires", "x-message-ttl", "x-max-length", "x-max-length-bytes", "x-max-priority")
    each_refused(s, [{name: "5"} for name in names])
    each_refused(s, [{"x-expires": value} for value in NOT_INTEGERS])


@scenario
def integers_of_every_tag_are_taken(s: Run) -> None:
    each_refused(s, [{"x-max-length": Field(tag, 5)} for tag in "bBsuIilL"])


@scenario
def negative_numbers_are_refused(s: Run) -> None:
    names = ("x-expires", "x-message-ttl", "x-max-length", "x-max-length-bytes", "x-max-priority")
    each_refused(s, [{name: -1} for name in names])


@scenario
def zero_is_refused_for_expiry_only(s: Run) -> None:
    names = ("x-expires", "x-message-ttl", "x-max-length", "x-max-length-bytes", "x-max-priority")
    each_refused(s, [{name: 0} for name in names])


@scenario
def times_end_at_ten_years(s: Run) -> None:
    names = ("x-expires", "x-message-ttl")
    each_refused(s, [{name: value} for name in names for value in (315_360_000_000, 315_360_000_001)])


@scenario
def priorities_end_at_255(s: Run) -> None:
    each_refused(s, [{"x-max-priority": 255}, {"x-max-priority": 256}])


@scenario
def strings_are_expected(s: Run) -> None:
    dead = {"x-dead-letter-exchange": "dlx"}
    cases = [{"x-dead-letter-exchange": 5}, {**dead, "x-dead-letter-routing-key": 5}, {"x-overflow": 5}]
    each_refused(s, [*cases, {"x-queue-type": 5}, {"x-single-active-consumer": "true"}])


@scenario
def a_dead_letter_routing_key_needs_an_exchange(s: Run) -> None:
    each_refused(s, [{"x-dead-letter-routing-key": "k"}])


@scenario
def an_unknown_overflow(s: Run) -> None:
    words = ("drop-head", "reject-publish", "reject-publish-dlx", "drop-tail", "")
    each_refused(s, [{"x-overflow": word} for word in words])


@scenario
def an_unknown_queue_type(s: Run) -> None:
    each_refused(s, [{"x-queue-type": word} for word in ("mirrored", "Classic")])


@scenario(versions=("4.3", "4.0"))
def an_empty_or_undefined_queue_type_means_the_default(s: Run) -> None:
    each_refused(s, [{"x-queue-type": word} for word in ("", "undefined")])


@scenario(versions=("4.3", "4.0"))
def a_word_for_the_default_queue_type_stays_as_it_is(s: Run) -> None:
    for word in ("undefined", "undefined", None, "classic", "quorum", ""):
        s.channel().declare("q", arguments={} if word is None else {"x-queue-type": word})


@scenario
def queue_versions(s: Run) -> None:
    each_refused(s, [{"x-queue-version": version} for version in (1, 2, 3, 0, "2")])


@scenario
def queue_modes(s: Run) -> None:
    each_refused(s, [{"x-queue-mode": mode} for mode in ("default", "lazy", "odd", 5)])


@scenario(versions=("4.3", "4.0"))
def leader_locators(s: Run) -> None:
    words = ("client-local", "balanced", "random", "least-leaders", "elsewhere", 5)
    each_refused(s, [{"x-queue-leader-locator": word} for word in words])


@scenario
def unknown_arguments_are_ignored(s: Run) -> None:
    each_refused(s, [{"foo": 1, "x-ha-policy": "all", "x-quorum-target-group-size": "x", "": None}])


@scenario
def arguments_of_other_types_on_a_classic_queue(s: Run) -> None:
    names = ("x-delivery-limit", "x-dead-letter-strategy", "x-quorum-initial-group-size", "x-max-in-memory-length")
    each_refused(s, [{name: 5} for name in names])
    each_refused(s, [{name: "1D"} for name in ("x-max-age", "x-stream-max-segment-size-bytes")])
    each_refused(s, [{"x-initial-cluster-size": 1}])


@scenario(versions=("4.3",))
def newer_arguments_of_other_types_on_a_classic_queue(s: Run) -> None:
    names = ("x-consumer-timeout", "x-consumer-disconnected-timeout", "x-delayed-retry-type", "x-delayed-retry-min")
    each_refused(s, [{name: 5} for name in (*names, "x-stream-filter-size-bytes")])


@scenario
def arguments_of_other_types_on_a_quorum_queue(s: Run) -> None:
    names = ("x-max-priority", "x-queue-mode", "x-max-age", "x-stream-max-segment-size-bytes", "x-queue-version")
    each_refused(s, [{**QUORUM, name: 1} for name in names])


@scenario
def arguments_of_other_types_on_a_stream(s: Run) -> None:
    names = ("x-expires", "x-message-ttl", "x-max-length", "x-max-priority", "x-delivery-limit")
    each_refused(s, [{**STREAM, name: 1} for name in names])
    named = {"x-dead-letter-exchange": "d", "x-overflow": "drop-head", "x-single-active-consumer": True}
    each_refused(s, [{**STREAM, name: value} for name, value in named.items()])
    each_refused(s, [{**STREAM, "x-dead-letter-exchange": 5}])


@scenario
def bad_values_on_a_quorum_queue(s: Run) -> None:
    cases = {"x-quorum-initial-group-size": 0, "x-max-in-memory-length": -1, "x-dead-letter-strategy": "often"}
    each_refused(s, [{**QUORUM, name: value} for name, value in cases.items()])


@scenario(versions=("4.3",))
def newer_bad_values_on_a_quorum_queue(s: Run) -> None:
    each_refused(s, [{**QUORUM, "x-consumer-timeout": -1}, {**QUORUM, "x-consumer-disconnected-timeout": -1}])


@scenario(versions=("4.3", "4.0"))
def bad_values_on_a_stream(s: Run) -> None:
    cases: list[tuple[str, object]] = [("x-max-age", "1x"), ("x-max-age", "D"), ("x-max-age", 5), ("x-max-age", "0D")]
    cases += [("x-stream-max-segment-size-bytes", 3_000_000_001), ("x-stream-max-segment-size-bytes", -1)]
    cases += [("x-stream-filter-size-bytes", 15), ("x-stream-filter-size-bytes", 256), ("x-initial-cluster-size", 0)]
    each_refused(s, [{**STREAM, name: value} for name, value in cases])


@scenario
def equal_arguments_are_equal_across_integer_tags(s: Run) -> None:
    s.channel().declare("q", arguments={"x-max-length": Field("I", 1000)})
    for tag in "sulLiI":
        s.channel().declare("q", arguments={"x-max-length": Field(tag, 1000)})
    s.channel().declare("q", arguments={"x-max-length": 1000.0})


@scenario
def how_different_arguments_read(s: Run) -> None:
    first = {"x-max-length": 5, "x-message-ttl": 100_000, "x-overflow": "drop-head"}
    s.channel().declare("q", arguments=first)
    changed: list[dict[str, object]] = [
        {**first, "x-max-length": 6},
        {**first, "x-message-ttl": 1e5},
        {**first, "x-overflow": "reject-publish"},
        {**first, "x-max-length": "5"},
        {"x-max-length": 5, "x-message-ttl": 100_000},
        {**first, "x-expires": 1000},
        {**first, "x-dead-letter-exchange": "d", "x-max-length": 7},
        {**first, "x-single-active-consumer": True},
    ]
    for arguments in changed:
        s.channel().declare("q", arguments=arguments)


OF_EVERY_TYPE = (
    *(Field("t", True), Field("l", 6), Field("d", 1.5), Field("S", "5"), Field("S", "ä\\"), Field("S", b"\xff")),
    *(Field("x", b"5"), Field("T", 6), Field("V", None), Field("A", []), Field("A", [5, "a"]), Field("F", {"k": 5})),
)


@scenario
def arguments_are_equal_across_all_tags_of_one_value(s: Run) -> None:
    s.channel().declare("n", arguments={"x-max-length": 5})
    s.channel().declare("s", arguments={"x-dead-letter-exchange": "", "x-overflow": "drop-head"})
    s.channel().declare("n", arguments={"x-max-length": Field("T", 5)})
    s.channel().declare("s", arguments={"x-dead-letter-exchange": Field("x", b""), "x-overflow": "drop-head"})
    s.channel().declare("s", arguments={"x-dead-letter-exchange": "", "x-overflow": Field("x", b"drop-head")})


@scenario
def how_different_arguments_of_every_type_read(s: Run) -> None:
    s.channel().declare("q", arguments={"x-max-length": 5})
    s.channel().declare("none")
    s.channel().declare_exchange("e", arguments={"alternate-exchange": "a"})
    for field in OF_EVERY_TYPE:
        s.channel().declare("q", arguments={"x-max-length": field})
        s.channel().declare("none", arguments={"x-max-length": field})
        s.channel().declare_exchange("e", arguments={"alternate-exchange": field})
    s.channel().declare("none", arguments={"x-max-length": Field("D", (0, 5))})


@scenario
def a_decimal_that_differs_breaks_the_connection(s: Run) -> None:
    s.channel().declare("q", arguments={"x-max-length": 5})
    s.channel().declare("q", arguments={"x-max-length": Field("D", (0, 5))})


@scenario
def unknown_arguments_are_not_compared(s: Run) -> None:
    s.channel().declare("q", arguments={"foo": 1})
    s.channel().declare("q", arguments={"foo": 2, "bar": 3})
    s.channel().declare("q")


@scenario
def arguments_of_an_existing_queue_are_compared_not_validated(s: Run) -> None:
    s.channel().declare("q")
    s.channel().declare("q", arguments={"x-expires": "nonsense"})
    s.channel().declare("q", arguments={"x-delivery-limit": 5})


@scenario
def declaring_a_classic_queue_as_quorum(s: Run) -> None:
    s.channel().declare("q")
    s.channel().declare("q", arguments=QUORUM)
    s.channel().declare("q", arguments={"x-queue-type": "classic"})


@scenario
def declaring_a_quorum_queue_as_classic(s: Run) -> None:
    s.channel().declare("q", arguments=QUORUM)
    s.channel().declare("q")
    s.channel().declare("q", arguments={"x-queue-type": "classic"})
    s.channel().declare("q", arguments=QUORUM)


@scenario
def the_first_of_two_equal_arguments_counts(s: Run) -> None:
    s.channel().declare("q", arguments=[("x-max-length", 1), ("x-max-length", "bad")])
    s.channel().declare("q", arguments=[("x-max-length", 1)])
    s.channel().declare("q", arguments=[("x-max-length", 2), ("x-max-length", 1)])


@scenario
def the_order_of_comparison_on_a_classic_queue(s: Run) -> None:
    names = ("x-expires", "x-message-ttl", "x-dead-letter-exchange", "x-dead-letter-routing-key", "x-max-length")
    names += ("x-max-length-bytes", "x-max-priority", "x-overflow", "x-single-active-consumer")
    values = (60_000, 60_000, "d", "k", 5, 5, 5, "drop-head", True)
    s.channel().declare("q", arguments=dict(zip(names, values, strict=True)))
    for count in range(len(names)):
        s.channel().declare("q", arguments=dict(zip(names[:count], values[:count], strict=True)))


@scenario
def arguments_that_some_versions_neither_check_nor_compare(s: Run) -> None:
    for name, values in (
        ("x-consumer-timeout", ("abc", -1, 60_000, 1.5, True)),
        ("x-stream-filter-size-bytes", ("abc", 5, 300, 32, True)),
        ("x-queue-leader-locator", ("balanced", "nowhere")),
    ):
        for kind in ("classic", "quorum", "stream"):
            for value in values:
                ch = s.channel()
                arguments = {"x-queue-type": kind, name: value}
                ch.declare("q", arguments=arguments)
                ch = s.channel()
                ch.declare("q", arguments={**arguments, name: 61_000})
                s.channel().delete("q")
