"""Policies of 3.x that ask for mirrors: checked as RabbitMQ 3.10 checks them."""

from __future__ import annotations

import pytest

from leveret.core.compat import VERSIONS
from leveret.core.model.operators.policy import Policies, Policy, PolicyInvalid


@pytest.mark.parametrize(
    "definition",
    [
        {"ha-mode": "all"},
        {"ha-mode": "exactly", "ha-params": 2},
        {"ha-mode": "nodes", "ha-params": ["rabbit@a"]},
        {"ha-mode": "all", "ha-sync-mode": "automatic", "ha-sync-batch-size": 10},
        {"ha-mode": "all", "ha-promote-on-shutdown": "always", "ha-promote-on-failure": "when-synced"},
    ],
)
def test_mirroring_keys_that_3_x_accepts_are_accepted(definition: dict[str, object]) -> None:
    policies = Policies(VERSIONS["3.13"])

    policies.user.set(Policy("p", ".*", definition))

    assert policies.effective_for_queue("q", "classic") == definition


@pytest.mark.parametrize(
    ("definition", "text"),
    [
        ({"ha-mode": "none"}, '<<"none">> is not a valid ha-mode value'),
        ({"ha-mode": "exactly"}, 'ha-mode="exactly" takes an integer, none given'),
        ({"ha-mode": "exactly", "ha-params": 0}, 'ha-mode="exactly" takes an integer, 0 given'),
        ({"ha-mode": "exactly", "ha-params": "2"}, 'ha-mode="exactly" takes an integer, <<"2">> given'),
        ({"ha-mode": "nodes"}, 'ha-mode="nodes" takes a list, none given'),
        ({"ha-mode": "nodes", "ha-params": []}, 'ha-mode="nodes" list must be non-empty'),
        ({"ha-mode": "all", "ha-params": 2}, 'ha-mode="all" does not take parameters'),
        (
            {"ha-sync-mode": "automatic"},
            "ha-mode must be specified to specify ha-params, ha-sync-mode or ha-promote-on-shutdown",
        ),
        ({"ha-mode": "all", "ha-sync-mode": "x"}, 'ha-sync-mode must be "manual" or "automatic", got <<"x">>'),
        (
            {"ha-mode": "all", "ha-promote-on-failure": "x"},
            'ha-promote-on-failure must be "always" or "when-synced", got <<"x">>',
        ),
        (
            {"ha-mode": "all", "ha-sync-batch-size": 0},
            "ha-sync-batch-size takes an integer greater than 0, 0 given",
        ),
        ({"ha-mode": "x", "max-length": -1}, "-1 is not a valid maximum length"),
        ({"ha-mode": "x", "foo": 1}, '<<"x">> is not a valid ha-mode value'),
    ],
)
def test_mirroring_keys_that_3_x_refuses_are_refused(definition: dict[str, object], text: str) -> None:
    with pytest.raises(PolicyInvalid) as refused:
        Policies(VERSIONS["3.13"]).user.set(Policy("p", ".*", definition))

    assert str(refused.value) == text
