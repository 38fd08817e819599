"""The marker `leveret_state`: a test's broker begins in a state that was built once in the run, and restored since."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import pytest

from pytest_leveret.brokers import STARTER
from pytest_leveret.options.markers import STATE_NAME, failure_at

if TYPE_CHECKING:
    from leveret import Broker

# What each function has built, for each kind of broker that asked for it.
_BUILT: Final = pytest.StashKey[dict[object, list[Any]]]()


def begin(request: pytest.FixtureRequest, broker: Broker) -> None:
    """Put a test's own broker into the state that its marker names."""
    mark = request.node.get_closest_marker(STATE_NAME)
    if mark is None:
        return
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
        build(broker)
    else:
        _restore_or_build(request.session, build, broker)


def _restore_or_build(session: pytest.Session, build: Callable[[Broker], object], broker: Broker) -> None:
    """Restore what the function has built for a broker of this kind. Without that, it builds on this one."""
    from leveret import BrokerError

    states = session.stash.setdefault(_BUILT, {}).setdefault(build, [])
    for state in states:
        with suppress(BrokerError):
            return broker.restore(state)
    build(broker)
    states.append(broker.snapshot())
    # The first test begins as all others do: without the clients that built.
    return broker.restore(states[-1])
