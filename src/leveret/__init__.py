"""leveret: an in-process AMQP 0-9-1 broker for test suites.

The names below are the public ones. Each is imported when it is first used, so `import leveret` costs next to nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from leveret.admin.admin import Admin as Admin
    from leveret.broker import Broker as Broker
    from leveret.core.compat import RabbitMQVersion as RabbitMQVersion
    from leveret.core.wire.ordinary import Timestamp as Timestamp
    from leveret.engine.broker_options import BrokerOptions as BrokerOptions
    from leveret.engine.snapshots import Snapshot as Snapshot
    from leveret.errors import BrokerError as BrokerError
    from leveret.errors import CheckFailedError as CheckFailedError
    from leveret.errors import EndlessTimeError as EndlessTimeError
    from leveret.errors import EventsMissingError as EventsMissingError
    from leveret.errors import LeveretWarning as LeveretWarning
    from leveret.errors import NotDeclaredError as NotDeclaredError
    from leveret.errors import RefusedError as RefusedError
    from leveret.errors import WaitTimeoutError as WaitTimeoutError
    from leveret.exploration import Exploration as Exploration
    from leveret.exploration import ExplorationFailedError as ExplorationFailedError
    from leveret.exploration import explore as explore
    from leveret.exploration.kinds import FaultKind as FaultKind
    from leveret.faults.plan import FaultPlan as FaultPlan
    from leveret.faults.rule import Rule as Rule
    from leveret.observe.assertions.keywords import Alarm as Alarm
    from leveret.observe.assertions.keywords import AssertionOptions as AssertionOptions
    from leveret.observe.assertions.keywords import BasicProperties as BasicProperties
    from leveret.observe.assertions.keywords import DeadLetterReason as DeadLetterReason
    from leveret.observe.assertions.keywords import DropReason as DropReason
    from leveret.observe.assertions.keywords import FaultOptions as FaultOptions
    from leveret.observe.assertions.keywords import QueueAssertionOptions as QueueAssertionOptions
    from leveret.observe.assertions.keywords import RequeueReason as RequeueReason
    from leveret.observe.checks.checked_assertions import Allowed as Allowed
    from leveret.observe.checks.table import CheckLevel as CheckLevel
    from leveret.observe.checks.table import CheckName as CheckName
    from leveret.observe.recorder import Recorder as Recorder
    from leveret.observe.views.message_view import DeathView as DeathView
    from leveret.observe.views.message_view import MessageView as MessageView
    from leveret.observe.views.views import BindingView as BindingView
    from leveret.observe.views.views import ChannelView as ChannelView
    from leveret.observe.views.views import ConnectionView as ConnectionView
    from leveret.observe.views.views import ConsumerView as ConsumerView
    from leveret.observe.views.views import ExchangeView as ExchangeView
    from leveret.observe.views.views import QueueView as QueueView
    from leveret.scripted.consumer import AckMode as AckMode
    from leveret.scripted.consumer import AioConsumer as AioConsumer
    from leveret.scripted.consumer import Delivered as Delivered
    from leveret.scripted.consumer import ScriptedConsumer as ScriptedConsumer
    from leveret.scripted.responder import Reply as Reply
    from leveret.scripted.responder import Responder as Responder
    from leveret.server.tls import Authority as Authority
    from leveret.server.tls import TlsEndpoint as TlsEndpoint
    from leveret.time.aio import Aio as Aio
    from leveret.time.aio import AioClock as AioClock
    from leveret.time.autojump import Autojump as Autojump
    from leveret.time.clock import Clock as Clock
    from leveret.trace.events import Event as Event
    from leveret.trace.events import EventKind as EventKind
    from leveret.trace.events import TracedMessage as TracedMessage
    from leveret.trace.ring import RecordLevel as RecordLevel

    __version__: str

# Where each name is imported from; a type checker reads the imports above, in which `as` makes a name public.
_HOMES = {
    "admin.admin": ("Admin",),
    "time.aio": ("Aio", "AioClock"),
    "broker": ("Broker",),
    "core.compat": ("RabbitMQVersion",),
    "core.wire.ordinary": ("Timestamp",),
    "engine.broker_options": ("BrokerOptions",),
    "engine.snapshots": ("Snapshot",),
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
    "observe.recorder": ("Recorder",),
    "observe.checks.table": ("CheckLevel", "CheckName"),
    "observe.views.message_view": ("DeathView", "MessageView"),
    "observe.views.views": (
        *("BindingView", "ChannelView", "ConnectionView", "ConsumerView", "ExchangeView", "QueueView"),
    ),
    "scripted.consumer": ("AckMode", "AioConsumer", "Delivered", "ScriptedConsumer"),
    "scripted.responder": ("Reply", "Responder"),
    "server.tls": ("Authority", "TlsEndpoint"),
    "time.autojump": ("Autojump",),
    "time.clock": ("Clock",),
    "trace.events": ("Event", "EventKind", "TracedMessage"),
    "trace.ring": ("RecordLevel",),
    "trace.version": ("__version__",),
}
__all__ = [name for names in _HOMES.values() for name in names]


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
    from leveret.observe.calls.other_names import EVERYWHERE, answer_to

    if answer := answer_to(name, EVERYWHERE):
        return f"; {answer}"

    foreign, of_a_broker = hint_at(name, Broker), nearest_call(name, dir(Broker))
    if nearest(name, __all__) or not (foreign or of_a_broker):
        return did_you_mean(name, __all__)
    belongs = "belongs to a broker, which a test gets as the fixture: def test_it(leveret)"
    return f"{foreign} That {belongs}" if foreign else f"; {of_a_broker[0]!r} {belongs}"
