"""Faults: what goes wrong in a broker, when, and how often.

See docs/reference/faults.md. The refusals, such as PreconditionFailed, are for faults that a test suite defines: see
docs/how-to/writing-a-fault.md.
"""

from leveret.core.model.errors import AccessRefused as AccessRefused
from leveret.core.model.errors import CommandInvalid as CommandInvalid
from leveret.core.model.errors import ConnectionForced as ConnectionForced
from leveret.core.model.errors import InternalRefusal as InternalRefusal
from leveret.core.model.errors import NotAllowed as NotAllowed
from leveret.core.model.errors import NotFound as NotFound
from leveret.core.model.errors import NotImplementedByBroker as NotImplementedByBroker
from leveret.core.model.errors import PreconditionFailed as PreconditionFailed
from leveret.core.model.errors import ResourceLocked as ResourceLocked
from leveret.faults.conversation import BlockPublishers as BlockPublishers
from leveret.faults.conversation import CancelConsumers as CancelConsumers
from leveret.faults.conversation import CloseChannel as CloseChannel
from leveret.faults.conversation import CloseConnection as CloseConnection
from leveret.faults.conversation import Delay as Delay
from leveret.faults.conversation import FailLogin as FailLogin
from leveret.faults.conversation import ResetPeer as ResetPeer
from leveret.faults.conversation import Restart as Restart
from leveret.faults.conversation import Withhold as Withhold
from leveret.faults.fault import Fault as Fault
from leveret.faults.messages import DelayConfirm as DelayConfirm
from leveret.faults.messages import Drop as Drop
from leveret.faults.messages import Duplicate as Duplicate
from leveret.faults.messages import Expire as Expire
from leveret.faults.messages import NackPublish as NackPublish
from leveret.faults.messages import Redeliver as Redeliver
from leveret.faults.messages import Reorder as Reorder
from leveret.faults.messages import WithholdConfirm as WithholdConfirm
from leveret.faults.occasion import Occasion as Occasion
from leveret.faults.plan import FaultPlan as FaultPlan
from leveret.faults.rule import Rule as Rule
from leveret.faults.streams import Effect as Effect
from leveret.faults.toxics import Bandwidth as Bandwidth
from leveret.faults.toxics import Blackhole as Blackhole
from leveret.faults.toxics import ByteFault as ByteFault
from leveret.faults.toxics import Corrupt as Corrupt
from leveret.faults.toxics import HalfClose as HalfClose
from leveret.faults.toxics import LimitData as LimitData
from leveret.faults.toxics import Slicer as Slicer
from leveret.faults.toxics import Stall as Stall

__all__ = [name for name, value in list(vars().items()) if isinstance(value, type)]
