"""Patterns of public definitions, and others of all that the translation knows: leveret chooses what RabbitMQ chose."""

from __future__ import annotations

import json
import re

import pytest

from leveret.core.compat import Compat
from leveret.core.model.operators.patterns import name_pattern, octets
from tests.patterns.record import INVALID, RECORDED, bits

_RECORDED = json.loads(RECORDED.read_text())


@pytest.mark.parametrize("version", ["4.3", "4.0", "3.10"])
@pytest.mark.parametrize("kind", ["real", "generated"])
def test_a_pattern_chooses_the_names_that_rabbitmq_chooses(kind: str, version: str) -> None:
    is_pcre2 = Compat.for_version(version).has_pcre2

    wrong = {
        pattern: (answers[version], choice)
        for pattern, answers in _RECORDED[kind].items()
        if (choice := choice_of(pattern, is_pcre2=is_pcre2)) != answers[version]
    }

    assert wrong == {}


def choice_of(pattern: str, *, is_pcre2: bool) -> str:
    try:
        search = name_pattern(pattern, is_pcre2=is_pcre2).search
    except re.error:
        return INVALID
    return bits([search(octets(name)) is not None for name in _RECORDED["names"]])
