"""leveret: an in-process AMQP 0-9-1 broker for test suites.

The names below are the public ones. Each is imported when it is first used, so `import leveret` costs next to nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from leveret.admin.admin import Admin
    from leveret.broker import Broker
    from leveret.core.compat import RabbitMQVersion
    from leveret.engine.broker_options import BrokerOptions
    from leveret.errors import (
        BrokerError,
        CheckFailedError,
        EndlessTimeError,
        EventsMissingError,
        LeveretWarning,
        NotDeclaredError,
        RefusedError,
        WaitTimeoutError,
    )
    from leveret.exploration import Exploration, ExplorationFailedError, explore
    from leveret.exploration.kinds import FaultKind
    from leveret.faults.plan import FaultPlan
    from leveret.faults.rule import Rule
    from leveret.observe.assertions.keywords import (
        Alarm,
        AssertionOptions,
        BasicProperties,
        DeadLetterReason,
        DropReason,
        FaultOptions,
        QueueAssertionOptions,
        RequeueReason,
    )
    from leveret.observe.checks.checked_assertions import Allowed
    from leveret.observe.checks.table import CheckLevel, CheckName
    from leveret.observe.views.message_view import DeathView, MessageView
    from leveret.observe.views.views import (
        BindingView,
        ChannelView,
        ConnectionView,
        ConsumerView,
        ExchangeView,
        QueueView,
    )
    from leveret.scripted.consumer import AckMode, AioConsumer, Delivered, ScriptedConsumer
    from leveret.scripted.reply import Reply
    from leveret.scripted.responder import Responder
    from leveret.server.tls import Authority, TlsEndpoint
    from leveret.time.aio import Aio, AioClock
    from leveret.time.autojump import Autojump
    from leveret.time.clock import Clock
    from leveret.trace.events import Event, EventKind, TracedMessage
    from leveret.trace.recorder import Recorder, RecordLevel

    __version__: str

__all__ = [
    "AckMode",
    "Admin",
    "Aio",
    "AioClock",
    "AioConsumer",
    "Alarm",
    "Allowed",
    "AssertionOptions",
    "Authority",
    "Autojump",
    "BasicProperties",
    "BindingView",
    "Broker",
    "BrokerError",
    "BrokerOptions",
    "ChannelView",
    "CheckFailedError",
    "CheckLevel",
    "CheckName",
    "Clock",
    "ConnectionView",
    "ConsumerView",
    "DeadLetterReason",
    "DeathView",
    "Delivered",
    "DropReason",
    "EndlessTimeError",
    "Event",
    "EventKind",
    "EventsMissingError",
    "ExchangeView",
    "Exploration",
    "ExplorationFailedError",
    "FaultKind",
    "FaultOptions",
    "FaultPlan",
    "LeveretWarning",
    "MessageView",
    "NotDeclaredError",
    "QueueAssertionOptions",
    "QueueView",
    "RabbitMQVersion",
    "RecordLevel",
    "Recorder",
    "RefusedError",
    "Reply",
    "RequeueReason",
    "Responder",
    "Rule",
    "ScriptedConsumer",
    "TlsEndpoint",
    "TracedMessage",
    "WaitTimeoutError",
    "__version__",
    "explore",
]

# Where each name is imported from; a type checker reads the imports above.
_HOMES = {
    "admin.admin": ("Admin",),
    "time.aio": ("Aio", "AioClock"),
    "broker": ("Broker",),
    "core.compat": ("RabbitMQVersion",),
    "engine.broker_options": ("BrokerOptions",),
    "errors": (
        *("BrokerError", "CheckFailedError", "EndlessTimeError", "EventsMissingError"),
        *("LeveretWarning", "NotDeclaredError", "RefusedError", "WaitTimeoutError"),
    ),
    "exploration": ("Exploration", "ExplorationFailedError", "explore"),
    "exploration.kinds": ("FaultKind",),
    "faults.plan": ("FaultPlan",),
    "faults.rule": ("Rule",),
    "observe.assertions.keywords": (
        *("Alarm", "AssertionOptions", "BasicProperties", "DeadLetterReason", "DropReason", "FaultOptions"),
        *("QueueAssertionOptions", "RequeueReason"),
    ),
    "observe.checks.checked_assertions": ("Allowed",),
    "observe.checks.table": ("CheckLevel", "CheckName"),
    "observe.views.message_view": ("DeathView", "MessageView"),
    "observe.views.views": (
        *("BindingView", "ChannelView", "ConnectionView", "ConsumerView", "ExchangeView", "QueueView"),
    ),
    "scripted.consumer": ("AckMode", "AioConsumer", "Delivered", "ScriptedConsumer"),
    "scripted.reply": ("Reply",),
    "scripted.responder": ("Responder",),
    "server.tls": ("Authority", "TlsEndpoint"),
    "time.autojump": ("Autojump",),
    "time.clock": ("Clock",),
    "trace.events": ("Event", "EventKind", "TracedMessage"),
    "trace.recorder": ("RecordLevel", "Recorder"),
    "trace.version": ("__version__",),
}


def __dir__() -> list[str]:
    return [*__all__]


# A type checker must see the names above and no others.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        home = next((home for home, names in _HOMES.items() if name in names), None)
        if home is None:
            raise AttributeError(f"module 'leveret' has no attribute {name!r}{_hint(name)}")
        from importlib import import_module

        value = getattr(import_module(f"leveret.{home}"), name)
        globals()[name] = value
        return value


def _hint(name: str) -> str:
    """Return a hint at the closest name: one of the package, or one of a broker, which a test gets as a fixture."""
    if name.startswith("_"):
        return ""
    from leveret.broker import Broker
    from leveret.errors import did_you_mean, nearest, nearest_call
    from leveret.observe.calls.hinting import hint_at

    foreign, of_a_broker = hint_at(name, Broker), nearest_call(name, dir(Broker))
    if nearest(name, __all__) or not (foreign or of_a_broker):
        return did_you_mean(name, __all__)
    belongs = "belongs to a broker, which a test gets as the fixture: def test_it(leveret)"
    return f"{foreign} That {belongs}" if foreign else f"; {of_a_broker[0]!r} {belongs}"
