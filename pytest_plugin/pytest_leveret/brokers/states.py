"""The marker `leveret_state`: a test's broker begins in a state that was built once in the run.

It is built on a broker of its own with the settings of the test, which ends before the first test begins.
"""

from __future__ import annotations

from collections.abc import Callable
from inspect import isasyncgen, isasyncgenfunction, isawaitable, iscoroutinefunction, isgenerator, isgeneratorfunction
from typing import TYPE_CHECKING, Any, Final, NoReturn

import pytest

from pytest_leveret.brokers import STARTER, report_instead, start_broker, stop_and_check
from pytest_leveret.options import Settings
from pytest_leveret.options.markers import STATE_NAME, failure_at

if TYPE_CHECKING:
    from leveret import Broker

# What each function has built with which settings: by both, the function, which lives as long, and the snapshot.
_BUILT: Final = pytest.StashKey[dict[tuple[int, str], Any]]()


def refuse_wrong_marker(item: pytest.Item) -> None:
    """Fail a test whose marker gives no state, before a broker starts."""
    mark = item.get_closest_marker(STATE_NAME)
    if mark is None:
        return
    build = _given(mark)
    if (
        mark.kwargs.keys() - {"build"}
        or len(mark.args) + len(mark.kwargs) != 1
        or not isinstance(build, str | Callable)
    ):
        written = ", ".join([*map(repr, mark.args), *(f"{word}={value!r}" for word, value in mark.kwargs.items())])
        raise failure_at(
            item,
            f"{STATE_NAME}({written}): the marker takes a function of a broker, or the name of a fixture of the "
            f"session or module, and nothing else: {STATE_NAME}(build=make_orders)",
        )
    if iscoroutinefunction(build) or isgeneratorfunction(build) or isasyncgenfunction(build):
        _refuse_late(item, build)


def _given(mark: pytest.Mark) -> Any:
    return mark.kwargs.get("build", mark.args[0] if mark.args else None)


def begin(request: pytest.FixtureRequest, broker: Broker, mark: pytest.Mark, settings: Settings) -> None:
    """Put a test's own broker, which has these settings, into the state that its marker names."""
    build = _given(mark)
    if isinstance(build, str):
        from leveret.engine.snapshots import Snapshot

        state = request.getfixturevalue(build)
        if not isinstance(state, Snapshot):
            text = f"the fixture {build} must return what broker.snapshot() gives, not {state!r}"
            raise failure_at(request.node, f"{STATE_NAME}: {text}")
        broker.restore(state)
    elif STARTER in request.config.stash:
        # A server cannot go back, so the state is built there for each test.
        _build(request.node, build, broker)
    else:
        built = request.session.stash.setdefault(_BUILT, {})
        key = id(build), repr(sorted((word, setting.value) for word, setting in settings.items()))
        if key not in built:
            builder = start_broker(request.config, settings, {"port": 0})
            try:
                _build(request.node, build, builder)
                built[key] = build, builder.snapshot()
            except BaseException:
                report_instead(request.node, broker, builder)
                raise
            finally:
                # What the strict checks find there is this test's.
                stop_and_check([builder], is_judged=key in built, item=request.node)
        broker.restore(built[key][1])


def _build(item: pytest.Item, build: Callable[[Broker], object], broker: Broker) -> None:
    result = build(broker)
    if isawaitable(result) or isgenerator(result) or isasyncgen(result):
        if hasattr(result, "close"):
            # Python warns of a coroutine that nothing has awaited.
            result.close()
        _refuse_late(item, build)


def _refuse_late(item: pytest.Item, build: object) -> NoReturn:
    name = getattr(build, "__name__", build)
    raise failure_at(item, f"{STATE_NAME}: {name} must build at once; it cannot be async, nor yield")
