"""Policies: which one applies, how two of them merge, and what RabbitMQ refuses."""

from __future__ import annotations

from contextlib import nullcontext

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leveret.core.compat import Compat
from leveret.core.model.operators.patterns import name_pattern, octets
from leveret.core.model.operators.policy import Policies, Policy, PolicyInvalid


def policies(*given: Policy, operator: tuple[Policy, ...] = ()) -> Policies:
    made = Policies()
    for policy in given:
        made.user.set(policy)
    for policy in operator:
        made.operator.set(policy)
    return made


def applied(made: Policies, queue_type: str = "classic", name: str = "orders") -> str | None:
    policy, _ = made.for_queue(name, queue_type)
    return None if policy is None else policy.name


def refusal(definition: object, *, operator: bool = False, **fields: object) -> str:
    policy = Policy(**{"name": "p", "pattern": "^a", "definition": definition, **fields})
    made = Policies()
    try:
        (made.operator if operator else made.user).set(policy)
    except PolicyInvalid as refused:
        return str(refused)
    return ""


def merged(ours: dict[str, object], theirs: dict[str, object]) -> dict[str, object]:
    made = policies(Policy("p", ".*", ours), operator=(Policy("o", ".*", theirs),))
    return dict(made.effective_for_queue("q", "quorum"))


def test_without_policies_nothing_is_set() -> None:
    assert Policies().effective_for_queue("q", "classic") == {}
    assert Policies().effective_for_exchange("x") == {}


def test_a_pattern_is_searched_anywhere_in_the_name() -> None:
    assert applied(policies(Policy("p", "rde", {"max-length": 1}))) == "p"


def test_a_pattern_that_is_not_found_does_not_apply() -> None:
    assert applied(policies(Policy("p", "^rde", {"max-length": 1}))) is None


def test_the_highest_priority_applies_alone() -> None:
    made = policies(Policy("low", ".*", {"expires": 5}), Policy("high", ".*", {"max-length": 1}, priority=1))

    assert made.effective_for_queue("q", "classic") == {"max-length": 1}


def test_among_equal_priorities_the_first_name_applies() -> None:
    assert applied(policies(Policy("b", ".*", {"max-length": 1}), Policy("a", ".*", {"max-length": 2}))) == "a"


def test_setting_a_policy_again_replaces_it() -> None:
    made = policies(Policy("p", ".*", {"max-length": 1}), Policy("p", ".*", {"max-length": 2}))

    assert made.effective_for_queue("q", "classic") == {"max-length": 2}
    assert list(made.user.by_name) == ["p"]


def test_clearing_a_policy_lets_the_next_one_apply() -> None:
    made = policies(Policy("a", ".*", {"max-length": 1}), Policy("b", ".*", {"max-length": 2}))

    made.user.clear("a")

    assert applied(made) == "b"


def test_clearing_a_missing_policy_raises_key_error() -> None:
    with pytest.raises(KeyError):
        Policies().user.clear("p")


@pytest.mark.parametrize(
    ("apply_to", "expected"),
    [
        ("all", ["classic", "quorum", "stream", "exchange"]),
        ("queues", ["classic", "quorum", "stream"]),
        ("classic_queues", ["classic"]),
        ("quorum_queues", ["quorum"]),
        ("streams", ["stream"]),
        ("exchanges", ["exchange"]),
    ],
)
def test_apply_to_chooses_the_kind_of_object(apply_to: str, expected: list[str]) -> None:
    made = policies(Policy("p", ".*", {"queue-version": 2}, apply_to))

    found = [queue_type for queue_type in ("classic", "quorum", "stream") if applied(made, queue_type)]
    if made.for_exchange("x")[0] is not None:
        found.append("exchange")

    assert found == expected


@pytest.mark.parametrize(
    ("key", "value", "queue_types"),
    [
        ("delivery-limit", 5, ["quorum"]),
        ("queue-mode", "lazy", ["classic"]),
        ("max-age", "1D", ["stream"]),
        ("max-length", 5, ["classic", "quorum"]),
        ("max-length-bytes", 5, ["classic", "quorum", "stream"]),
        ("dead-letter-strategy", "at-most-once", ["quorum"]),
    ],
)
def test_a_policy_with_a_key_the_queue_type_lacks_does_not_apply(
    key: str, value: object, queue_types: list[str]
) -> None:
    made = policies(Policy("p", ".*", {key: value, "queue-version": 2}))

    assert [each for each in ("classic", "quorum", "stream") if applied(made, each)] == queue_types


def test_if_a_policy_does_not_suit_the_queue_type_the_next_one_applies() -> None:
    made = policies(Policy("a", ".*", {"delivery-limit": 5}, priority=9), Policy("b", ".*", {"max-length": 7}))

    assert (applied(made, "classic"), applied(made, "quorum")) == ("b", "a")


def test_an_operator_policy_alone_applies() -> None:
    made = policies(operator=(Policy("o", ".*", {"max-length": 5}),))

    assert made.effective_for_queue("q", "classic") == {"max-length": 5}


def test_the_keys_of_both_policies_are_combined() -> None:
    assert merged({"max-length": 5}, {"expires": 9}) == {"max-length": 5, "expires": 9}


@pytest.mark.parametrize(
    ("key", "ours", "theirs", "result"),
    [
        ("max-length", 5, 9, 5),
        ("max-length", 9, 5, 5),
        ("message-ttl", 9, 5, 5),
        ("delivery-limit", 5, 9, 5),
        ("delivery-limit", -1, 9, 9),
        ("delivery-limit", 5, -2, 5),
        ("overflow", "drop-head", "reject-publish", "reject-publish"),
        ("queue-version", 2, 1, 1),
        ("target-group-size", 5, 9, 9),
        ("delayed-retry-min", 9, 5, 9),
        ("delayed-retry-max", 5, 9, 5),
    ],
)
def test_a_key_of_both_policies_takes_the_stricter_or_the_operators_value(
    key: str, ours: object, theirs: object, result: object
) -> None:
    assert merged({key: ours}, {key: theirs}) == {key: result}


@pytest.mark.parametrize(
    ("definition", "text"),
    [
        ({}, "no policy provided"),
        ({"foo": 5, "bar": "x"}, '[{<<"bar">>,<<"x">>},{<<"foo">>,5}] are not recognised policy settings'),
        ({"foo": {"a": [1, True]}}, '[{<<"foo">>,#{<<"a">> => [1,true]}}] are not recognised policy settings'),
        ({"foo": 5, "max-length": -1}, "-1 is not a valid maximum length"),
        ({"max-length": "x"}, '<<"x">> is not a valid maximum length'),
        ({"max-length": True}, "true is not a valid maximum length"),
        ({"max-length": 1.5}, "1.5 is not a valid maximum length"),
        ({"max-length": -1, "expires": 0}, "0 is not a valid queue expiry"),
        ({"max-length-bytes": -1}, "-1 is not a valid maximum length in bytes"),
        ({"message-ttl": -1}, "-1 is not a valid message TTL"),
        ({"max-in-memory-length": -1}, "-1 is not a valid maximum memory in bytes"),
        ({"delivery-limit": "x"}, '<<"x">> is not a valid delivery limit'),
        ({"consumer-timeout": -1}, "-1 is not a valid consumer timeout"),
        ({"queue-version": 3}, "3 is not a valid queue-version value"),
        ({"queue-mode": "x"}, '<<"x">> is not a valid queue-mode value'),
        ({"overflow": "x"}, '<<"x">> is not a valid overflow value'),
        ({"max-age": "0D"}, '<<"0D">> is not a valid max age'),
        ({"stream-filter-size-bytes": 15}, "15 is not a valid filter size. Valid range is 16-255"),
        ({"alternate-exchange": 5}, "5 is not a valid alternate exchange name"),
        ({"dead-letter-exchange": 5}, "5 is not a valid dead letter exchange name"),
        (
            {"delayed-retry-type": "x"},
            '<<"x">> is not a valid delayed retry type. Must be one of: all, failed, returned, disabled',
        ),
        ({"delayed-retry-min": 0}, "0 is not a valid delayed retry minimum delay. Must be a positive integer"),
        ({"delayed-retry-type": "all"}, "delayed-retry-min is required when delayed-retry-type is all"),
        (
            {"delayed-retry-min": 5, "delayed-retry-max": 3},
            "delayed-retry-max (3) must not be smaller than delayed-retry-min (5)",
        ),
        ({"queue-master-locator": "x"}, "use of deprecated queue-master-locator argument is not permitted"),
    ],
)
def test_a_definition_that_rabbitmq_refuses_is_refused_with_its_text(definition: object, text: str) -> None:
    assert refusal(definition) == text


@pytest.mark.parametrize("key", ["alternate-exchange", "dead-letter-exchange", "consumer-timeout", "queue-mode"])
def test_operators_cannot_set_every_key(key: str) -> None:
    assert refusal({key: 5}, operator=True) == f'[{{<<"{key}">>,5}}] are not recognised policy settings'


def test_the_refusal_of_an_unknown_target_has_two_spaces() -> None:
    assert refusal({"max-length": 5}, apply_to="foo") == (
        "apply-to 'foo' unrecognised; should be one of: "
        "'queues', 'classic_queues',  'quorum_queues', 'streams', 'exchanges', or 'all'"
    )


def test_a_priority_that_is_not_a_number_is_refused() -> None:
    assert refusal({"max-length": 5}, priority="x") == 'priority should be a number, actually was <<"x">>'


def test_a_pattern_that_is_not_a_string_is_refused() -> None:
    assert refusal({"max-length": 5}, pattern=5) == "pattern should be a binary but was 5"


def test_an_invalid_regular_expression_is_refused() -> None:
    text = refusal({"max-length": 5}, pattern="(")

    assert text.startswith("pattern should be regular expression but is invalid: {")


def test_a_refused_policy_leaves_the_old_one() -> None:
    made = policies(Policy("p", ".*", {"max-length": 5}))

    with pytest.raises(PolicyInvalid):
        made.user.set(Policy("p", ".*", {"max-length": -1}))

    assert made.effective_for_queue("q", "classic") == {"max-length": 5}


# What the sources of the versions say of which no server was asked (rabbit_policies, rabbit_*_queue).
KEYS_OF_VERSIONS = [
    ("4.2", "user", {"delayed-retry-min": 1000}, False),
    ("4.2", "user", {"consumer-disconnected-timeout": 1000}, False),
    ("4.2", "user", {"consumer-timeout": 1000}, True),
    ("4.2", "user", {"target-group-size": 3}, True),
    ("4.2", "operator", {"queue-master-locator": "min-masters"}, True),
    ("4.2", "user", {"ha-mode": "all"}, False),
    ("4.2", "user", {"delivery-limit": -1}, True),
    ("3.13", "user", {"delayed-retry-min": 1000}, False),
    ("3.13", "user", {"stream-filter-size-bytes": 32}, True),
    ("3.13", "operator", {"target-group-size": 3}, True),
    ("3.13", "operator", {"overflow": "drop-head"}, True),
    ("3.13", "operator", {"ha-mode": "all"}, True),
    ("3.13", "operator", {"ha-mode": "all", "ha-sync-batch-size": 1}, False),
    ("3.13", "user", {"queue-master-locator": "min-masters"}, True),
    ("3.13", "user", {"queue-master-locator": "balanced"}, False),
    ("3.13", "operator", {"queue-master-locator": "min-masters"}, False),
    ("3.13", "user", {"delivery-limit": -1}, False),
]


@pytest.mark.parametrize(("version", "kind", "definition", "is_taken"), KEYS_OF_VERSIONS)
def test_a_version_takes_the_keys_that_its_source_names(
    version: str, kind: str, definition: dict[str, object], is_taken: bool
) -> None:
    made = Policies(Compat.for_version(version))
    policy = Policy("p", ".*", definition)

    with nullcontext() if is_taken else pytest.raises(PolicyInvalid):
        (made.user if kind == "user" else made.operator).set(policy)


def test_a_policy_with_a_leader_locator_suits_no_classic_queue_of_3_13() -> None:
    made = Policies(Compat.for_version("3.13"))

    made.user.set(Policy("p", ".*", {"queue-leader-locator": "balanced"}))

    assert (applied(made, "classic"), applied(made, "quorum")) == (None, "p")


@settings(max_examples=100)
@given(
    given_policies=st.lists(
        st.tuples(
            st.sampled_from(["", "^", "^a", "^ab", "b", "^(a|b)", "^a.c", "(?i)^AB", r"^\Qa.\E", "^a*b", "^é", "c$"]),
            st.integers(0, 2),
            st.sampled_from(["all", "queues", "exchanges"]),
        ),
        max_size=8,
    ),
    name=st.text("abc.é", max_size=4),
)
def test_of_policies_that_begin_differently_the_highest_that_matches_applies(
    given_policies: list[tuple[str, int, str]], name: str
) -> None:
    every = [
        Policy(f"p{index}", pattern, {"max-length": 1}, apply_to, priority)
        for index, (pattern, priority, apply_to) in enumerate(given_policies)
    ]

    fitting = [
        policy
        for policy in every
        if policy.apply_to != "exchanges" and name_pattern(policy.pattern, is_pcre2=True).search(octets(name))
    ]

    expected = min(fitting, key=lambda policy: (-policy.priority, policy.name)).name if fitting else None
    assert applied(policies(*every), name=name) == expected
