"""The versions that leveret emulates, and the error for an unknown one."""

from __future__ import annotations

import re

import pytest

from leveret.core.compat import BETWEEN, VERSIONS, Compat


def test_an_unknown_version_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"'2\.8'.*4\.3, 4\.2, 4\.0, 3\.13, 3\.10"):
        Compat.for_version("2.8")


@pytest.mark.parametrize(
    ("version", "advice"),
    [
        ("4.3.6", "take '4.3', which behaves as 4.3.6"),
        ("v4.0.1", "take '4.0', which behaves as 4.0.5"),
        ("rabbitmq:3.13-management", "take '3.13', which behaves as 3.13.7"),
        ("4.1", "take '4.0', because direct reply-to changed with 4.2, or '4.2' for its smallest frame_max"),
        ("4.1.8", "take '4.0', because"),
        ("3.12", "take '3.10', because headers and dead letters changed with 3.13"),
        ("3.11.28", "take '3.10', because headers and dead letters changed with 3.13"),
        ("3.9", "take '3.10', the oldest that leveret behaves as"),
        ("4.4", "take '4.3', the newest that leveret behaves as"),
        ("5", "take '4.3', the newest that leveret behaves as"),
        ("4", "take '4.3', the newest of 4.x"),
        ("3", "take '3.13', the newest of 3.x"),
        ("latest", "take '4.3', the newest"),
    ],
)
def test_a_version_without_a_profile_is_answered_with_the_one_to_take(version: str, advice: str) -> None:
    with pytest.raises(ValueError, match=f"^unknown RabbitMQ version '{version}'; .*; {re.escape(advice)}"):
        Compat.for_version(version)


def test_every_series_between_two_profiles_has_its_advice() -> None:
    series = {tuple(map(int, version.split("."))) for version in VERSIONS}
    released = {(4, minor) for minor in range(4)} | {(3, minor) for minor in range(10, 14)}

    assert released - series == set(BETWEEN)


@pytest.mark.parametrize("version", VERSIONS)
def test_every_version_is_found_under_its_name(version: str) -> None:
    compat = Compat.for_version(version)

    assert compat.version == version
    assert compat.product_version.startswith(f"{version}.")
