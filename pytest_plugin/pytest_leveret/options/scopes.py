"""Which brokers a test shares with other tests, and which fixture to use instead of a wrong one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

import pytest

_OWN: Final = ("leveret", "make_leveret")
_NAMES: Final = (*_OWN, "leveret_session")
# The text of pytest when a fixture asks for one of a narrower scope.
_MISMATCH: Final = re.compile(r"ScopeMismatch: .*? (\w+) scoped fixture (\w+) with a (\w+) scoped request")


def shared_names(item: pytest.Item) -> list[str]:
    """Return the fixtures of a test that give it a broker which it shares with others."""
    return [name for name, fixture in _fixtures_of(item) if _gives_shared_broker(name, fixture)]


def _gives_shared_broker(name: str, fixture: Any) -> bool:
    is_ours = getattr(fixture.func, "__module__", None) == "pytest_leveret.fixtures"
    return is_ours and fixture.scope != "function" and not name.startswith("_")


def _fixtures_of(item: pytest.Item) -> Iterator[tuple[str, Any]]:
    found = getattr(getattr(item, "_fixtureinfo", None), "name2fixturedefs", {})
    return ((name, fixtures[-1]) for name, fixtures in found.items())


def explain_mismatch(item: pytest.Item, error: BaseException) -> None:
    """Add to pytest's ScopeMismatch about a broker which fixture to use instead."""
    # Nothing is asked of an error of the user's: the answer may take for ever.
    if not isinstance(error, pytest.fail.Exception) or (match := _MISMATCH.search(error.msg or "")) is None:
        return
    narrow, name, wide = match.groups()
    if name not in _OWN and not _depends_on_own(dict(_fixtures_of(item)), name):
        return
    subject = f"{name} has" if name in _OWN else f"{name} uses leveret, which has"
    if wide == "session":
        advice = "In a fixture of the session, use leveret_session, the one broker of the run."
    else:
        advice = (
            f"For one broker for each {wide}, write beside your fixture, and use there and in its tests:\n"
            f'    from pytest_leveret import leveret_fixture\n    {wide}_broker = leveret_fixture("{wide}")'
        )
    error.msg = f"{error.msg}\n\n{subject} a new broker for each {narrow}. {advice}"


def explain_missing(error: BaseException) -> str | None:
    """Return what to use instead of a fixture that pytest has not found, if its name is like one of ours."""
    if not isinstance(error, pytest.FixtureLookupError) or (name := error.argname) is None:
        return None
    from leveret.observe.calls.other_names import FIXTURES

    meant = next((meant for others, meant in FIXTURES.items() if name in others.split()), None)
    if meant is not None:
        fixture = meant.partition(".")[0]
        return (
            f"fixture {name!r} does not exist. The broker of a test is the fixture leveret, and that of the whole run "
            f"leveret_session. For another name, write:\n"
            f"    @pytest.fixture\n    def {name}({fixture}):\n        return {meant}"
        )
    if not name.startswith("lev"):
        return None
    from leveret.errors import expected

    return f"fixture {name!r} does not exist{expected(name, _NAMES)}"


def _depends_on_own(fixtures: dict[str, Any], name: str) -> bool:
    seen: set[str] = set()
    names = [name]
    while names:
        current = names.pop()
        if current in _OWN:
            return True
        if current in fixtures and current not in seen:
            seen.add(current)
            names += fixtures[current].argnames
    return False
