"""The marker `leveret_state`: a test's broker begins in a state that was built once in the run.

It is built on a broker of its own with the settings of the test, which ends before the first test begins.
"""

from __future__ import annotations

from collections.abc import Callable
from inspect import isasyncgen, isawaitable, isgenerator
from typing import TYPE_CHECKING, Any, Final

import pytest

from pytest_leveret.brokers import STARTER, start_broker, stop_and_check
from pytest_leveret.options import Settings
from pytest_leveret.options.markers import STATE_NAME, failure_at

if TYPE_CHECKING:
    from leveret import Broker

# What each function has built with which settings: by both, the function, which lives as long, and the snapshot.
_BUILT: Final = pytest.StashKey[dict[tuple[int, str], Any]]()


def begin(request: pytest.FixtureRequest, broker: Broker, mark: pytest.Mark, settings: Settings) -> None:
    """Put a test's own broker, which has these settings, into the state that its marker names."""
    build: Any = mark.kwargs.get("build", mark.args[0] if mark.args else None)
    if isinstance(build, str):
        from leveret.engine.snapshots import Snapshot

        state = request.getfixturevalue(build)
        if not isinstance(state, Snapshot):
            text = f"the fixture {build} must return what broker.snapshot() gives, not {state!r}"
            raise failure_at(request.node, f"{STATE_NAME}: {text}")
        broker.restore(state)
    elif not callable(build):
        raise failure_at(
            request.node,
            f"{STATE_NAME} takes a function of a broker, or the name of a fixture of the session or module: "
            f"{STATE_NAME}(build=make_orders)",
        )
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
            finally:
                # What the strict checks find there is this test's.
                stop_and_check([builder], is_judged=key in built, item=request.node)
        broker.restore(built[key][1])


def _build(item: pytest.Item, build: Callable[[Broker], object], broker: Broker) -> None:
    result = build(broker)
    if isawaitable(result) or isgenerator(result) or isasyncgen(result):
        text = f"{getattr(build, '__name__', build)} must build at once; it cannot be async, nor yield"
        raise failure_at(item, f"{STATE_NAME}: {text}")
