"""The marker `leveret`: what one test, class or module asks of its broker.

Markers of module, class, test and parameter are merged word by word, the closest wins. A word or value that nobody
knows ends the test before it starts: a slip of the pen must not run a test on another broker than it asks for.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import Final

import pytest

from pytest_leveret.options import WORDS, Setting, Settings, read_levels, read_names

NAME: Final = "leveret"
LINE: Final = (
    "leveret(rabbitmq='4.3', permit={'transient_nonexcl_queues'}, seed=0, record='ring', trace_dir='traces', "
    "trace_bodies=True, trace_redact={'x-customer'}, checks='unroutable=error', host='127.0.0.1'): "
    "which broker the fixtures `leveret` and `make_leveret` give this test; every word may be left out, "
    "those of test, class and module are merged and the closest wins."
)
_ORIGIN: Final = "marker leveret"


class WrongMarker(Exception):
    """The marker says something that cannot be meant."""


def marked_settings(item: pytest.Item) -> dict[str, Setting]:
    """What the markers of a test say, by word; WrongMarker for what cannot be meant."""
    settings: dict[str, Setting] = {}
    for mark in _closest_first(item):
        if mark.args:
            raise WrongMarker(f"the marker takes keywords only, as in leveret(rabbitmq={mark.args[0]!r})")
        for word, value in mark.kwargs.items():
            closest = Setting(_checked(word, value), _ORIGIN)
            settings[word] = merged(word, closest, settings.get(word))
    return settings


def merged(word: str, setting: Setting, closer: Setting | None) -> Setting:
    """What counts when a closer place says the same word: it alone, but of levels of checks each the closest."""
    if closer is None:
        return setting
    if word == "trace_redact":
        # What is hidden for all tests is hidden for this one.
        return Setting({*setting.value, *closer.value}, f"{setting.origin}, {closer.origin}")
    if word != "checks":
        return closer
    return Setting(f"{setting.value} {closer.value}", f"{setting.origin}, {closer.origin}")


def with_marked(general: Settings, marked: Settings) -> dict[str, Setting]:
    """What is said for all tests, and what the markers of one say."""
    return {**marked, **{word: merged(word, setting, marked.get(word)) for word, setting in general.items()}}


def place_of(item: pytest.Item) -> str:
    """The file and line of a test."""
    path, line, _ = item.location
    return f"{path}:{(line or 0) + 1}"


def refuse_wrong_marker(item: pytest.Item) -> None:
    """End a test whose marker cannot be meant, with the place of the test."""
    try:
        settings = marked_settings(item)
    except WrongMarker as error:
        raise pytest.fail.Exception(f"{place_of(item)}: {error}", pytrace=False) from None
    fixtures = getattr(item, "fixturenames", ())
    if settings and "leveret_session" in fixtures and not {"leveret", "make_leveret"} & set(fixtures):
        pytest.fail(
            f"{item.nodeid}: the marker leveret cannot change leveret_session, which serves many tests; "
            "use the fixture leveret, or set the option for all tests",
            pytrace=False,
        )
    # A marker of the module or the class may be for its other tests; who asks for fixtures as it runs may get a broker.
    is_marked = any(mark.name == NAME for mark in item.own_markers)
    if is_marked and not {"leveret", "make_leveret", "request"} & set(fixtures):
        pytest.fail(
            f"{place_of(item)}: marker leveret: the test uses neither the fixture leveret nor make_leveret, "
            "so there is no broker to be marked",
            pytrace=False,
        )


def checked_names(value: object) -> object:
    """Names given as one text or as several; a text is not taken for its letters."""
    return read_names(value) if isinstance(value, str) else value


def _closest_first(item: pytest.Item) -> Iterator[pytest.Mark]:
    # pytest puts the marks of a parameter behind those of its function, though they are closer.
    callspec = getattr(item, "callspec", None)
    if callspec is not None:
        yield from (mark for mark in callspec.marks if mark.name == NAME)
    yield from item.iter_markers(NAME)


def _checked(word: str, value: object) -> object:
    if word not in WORDS:
        from leveret.errors import unknown

        raise WrongMarker(unknown("keyword", word, WORDS))
    if word in ("permit", "trace_redact"):
        names = checked_names(value)
        if not isinstance(names, Iterable) or not all(isinstance(name, str) for name in names):
            raise WrongMarker(f"{word}={value!r} is not a set of names")
        return names
    if word == "checks":
        try:
            return read_levels(value)
        except ValueError as error:
            raise WrongMarker(f"checks={value!r}: {error}") from None
    if word == "trace_dir" and isinstance(value, os.PathLike):
        value = os.fspath(value)
    if word == "rabbitmq" and isinstance(value, int | float):
        raise WrongMarker(f"rabbitmq={value!r} is a number; write the version as a string: rabbitmq='{value}'")
    wanted = {"seed": int, "trace_bodies": bool}.get(word, str)
    if not isinstance(value, wanted):
        raise WrongMarker(f"{word}={value!r} is no {wanted.__name__}")
    return value
