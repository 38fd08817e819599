"""The markers: `leveret`, the broker settings of one test, class or module, and a fault or a state of its broker.

Markers of module, class, test and parameter are merged keyword by keyword; the closest wins. An unknown keyword or an
invalid value fails the test before it starts, so that a typo never runs a test on the wrong broker.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
from _pytest import outcomes

from pytest_leveret.options import Setting, Settings
from pytest_leveret.options.table import KEYWORDS, OPTIONS

if TYPE_CHECKING:
    from leveret import Broker

NAME: Final = "leveret"
LINE: Final = (
    f"leveret({', '.join(f'{option.word}={option.example}' for option in OPTIONS)}): settings of the brokers that the "
    "fixtures `leveret` and `make_leveret` give this test; every keyword is optional, and those of test, class and "
    "module are merged: the closest wins."
)
FAULT_NAME: Final = "leveret_fault"
FAULT_LINE: Final = (
    "leveret_fault(on='basic.ack', do=ResetPeer(), after=0, times=None, ...): add a fault to the broker of the fixture "
    "`leveret`, with the keywords of `broker.faults.add`; each marker adds a rule, those of the module first."
)
STATE_NAME: Final = "leveret_state"
STATE_LINE: Final = (
    "leveret_state(build=function): begin with the broker of the fixture `leveret` in the state that function(broker) "
    "made once in this run; or the name of a fixture of the session or module that returns broker.snapshot()."
)
EXPLORE_NAME: Final = "leveret_explore"
EXPLORE_LINE: Final = (
    "leveret_explore(faults=('lost before', ...), on='*', pairs=0, only=None, limit=10, keep_going=False, seed=0, "
    "seconds=None): run the test once without a fault, then once for each fault at each step of the broker of the "
    "fixture `leveret`; it takes the keywords of `leveret.explore`."
)
NAMES: Final = (NAME, FAULT_NAME, STATE_NAME, EXPLORE_NAME)
LINES: Final = (LINE, FAULT_LINE, STATE_LINE, EXPLORE_LINE)
_ORIGIN: Final = "marker leveret"


class WrongMarker(Exception):
    """An invalid marker."""


def marked_settings(item: pytest.Item) -> dict[str, Setting]:
    """Return the settings of a test's markers, by keyword. Raises WrongMarker if one is invalid."""
    settings: dict[str, Setting] = {}
    for mark in _closest_first(item):
        if mark.args:
            raise WrongMarker(f"the marker takes keywords only, as in leveret(rabbitmq={mark.args[0]!r})")
        for word, value in mark.kwargs.items():
            closest = Setting(_checked(word, value, item.config.rootpath), _ORIGIN)
            settings[word] = merged(word, closest, settings.get(word))
    return settings


def merged(word: str, setting: Setting, closer: Setting | None) -> Setting:
    """Return the setting that applies if a closer place sets the same keyword.

    The closer one replaces the other, except that levels of checks are merged and redacted headers are added up.
    """
    if closer is None:
        return setting
    if word == "trace_redact":
        # Headers that are redacted for all tests stay redacted for this one.
        return Setting({*setting.value, *closer.value}, f"{setting.origin}, {closer.origin}")
    if word != "checks":
        return closer
    return Setting(f"{setting.value} {closer.value}", f"{setting.origin}, {closer.origin}")


def with_marked(general: Settings, marked: Settings) -> dict[str, Setting]:
    """Return the settings of all tests merged with those of one test's markers."""
    return {**marked, **{word: merged(word, setting, marked.get(word)) for word, setting in general.items()}}


class Failed(outcomes.Failed):
    """What leveret itself says of a test. It is not the failure that a mark such as xfail expects."""

    # As pytest has it, which names the error in its summary.
    __module__ = "builtins"


def failure_at(item: pytest.Item, text: str) -> BaseException:
    """Return the failure of a test as a whole: its text begins with the file and the line of the test."""
    path, line, _ = item.location
    return Failed(f"{path}:{(line or 0) + 1}: {text}", pytrace=False)


def show_unexpected(call: pytest.CallInfo[None], report: pytest.TestReport) -> None:
    """Report a failure of `failure_at` as such, although the test is marked xfail."""
    if hasattr(report, "wasxfail") and call.excinfo is not None and isinstance(call.excinfo.value, Failed):
        report.outcome = "failed"
        del report.wasxfail


def refuse_wrong_marker(item: pytest.Item, *, has_run_broker: bool, has_standins: bool) -> None:
    """Fail a test whose marker is invalid, with the place of the test.

    Levels of checks act on every broker, any other keyword on one that starts for the test.
    """
    try:
        settings = marked_settings(item)
    except WrongMarker as error:
        raise failure_at(item, str(error)) from None
    _refuse_without_broker(item)
    from pytest_leveret.options.scopes import shared_names

    fixtures = getattr(item, "fixturenames", ())
    shared = shared_names(item)
    has_own = not {"leveret", "make_leveret"}.isdisjoint(fixtures)
    words = settings.keys() - {"checks"}
    if words and shared and not has_own:
        pytest.fail(
            f"{item.nodeid}: the marker leveret cannot change {shared[0]}, which serves many tests; "
            "use the fixture leveret, or set the option for all tests",
            pytrace=False,
        )
    # A marker of the module or the class may apply to its other tests only, and `request` can still give a broker.
    is_marked = any(mark.name == NAME for mark in item.own_markers) and not has_own and "request" not in fixtures
    if is_marked and words and has_run_broker and not has_standins:
        options = ", ".join(f"leveret_{word}" for word in sorted(words))
        raise failure_at(
            item,
            f"marker leveret: {', '.join(sorted(words))} cannot change the broker of the run, which serves many tests; "
            f"use the fixture leveret, or set {options} for all tests",
        )
    if is_marked and not (shared or has_run_broker or has_standins):
        raise failure_at(
            item,
            "marker leveret: the test uses neither the fixture leveret nor make_leveret; use one of them, or remove "
            "the marker",
        )


# What does the same for a broker of make_leveret.
_OF_ONE_BROKER: Final = {
    FAULT_NAME: "broker.faults.add(...) with the same keywords",
    STATE_NAME: "build(broker), or broker.restore(state)",
}


def _refuse_without_broker(item: pytest.Item) -> None:
    """Fail a marked test without a broker, unless it uses `request` and so can still get one while it runs."""
    fixtures = getattr(item, "fixturenames", ())
    name = next((mark.name for mark in item.own_markers if mark.name in _OF_ONE_BROKER), None)
    if "leveret" in fixtures or name is None:
        return
    if "make_leveret" in fixtures:
        raise failure_at(
            item,
            f"{name}: the marker applies to the broker of the fixture leveret, which the test does not use; for a "
            f"broker of make_leveret, call {_OF_ONE_BROKER[name]}",
        )
    if "request" not in fixtures or "leveret_session" in fixtures:
        raise failure_at(item, f"{name}: the test does not use the fixture leveret; use it, or remove the marker")


def set_faults(item: pytest.Item, broker: Broker) -> None:
    """Add the rules of a test's markers. An invalid marker fails the test before it runs."""
    for mark in reversed(list(item.iter_markers(FAULT_NAME))):
        try:
            if mark.args:
                raise TypeError("the marker takes keywords only, as in leveret_fault(on='basic.ack', do=...)")
            broker.faults.add(**{"do": None, **mark.kwargs})
        except (TypeError, ValueError) as error:
            raise failure_at(item, f"{FAULT_NAME}: {error}") from None


def _closest_first(item: pytest.Item) -> Iterator[pytest.Mark]:
    # pytest puts the marks of a parameter behind those of its function, although they are closer.
    callspec = getattr(item, "callspec", None)
    if callspec is not None:
        yield from (mark for mark in callspec.marks if mark.name == NAME)
    yield from item.iter_markers(NAME)


def _checked(word: str, value: object, root: Path) -> object:
    option = KEYWORDS.get(word)
    if option is None or not option.example:
        from leveret.errors import expected, keyword_hint

        words = [known.word for known in OPTIONS]
        own = f"; only a broker that the test starts takes it: make_leveret({word}=...)"
        hint = keyword_hint(word, words) if option is None else own
        raise WrongMarker(f"unknown keyword {word!r}{hint or expected(word, words)}")
    try:
        checked = option.kind.check(word, value)
    except ValueError as error:
        raise WrongMarker(str(error)) from None
    return str(root / checked) if word == "definitions" and isinstance(checked, str) else checked
