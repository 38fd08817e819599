"""Faults: what goes wrong in a broker, when, and how often.

See docs/reference/faults.md. The refusals, such as PreconditionFailed, are for faults that a test suite defines: see
docs/how-to/writing-a-fault.md.
"""

from leveret.core.model.errors import (
    AccessRefused,
    CommandInvalid,
    ConnectionForced,
    InternalRefusal,
    NotAllowed,
    NotFound,
    NotImplementedByBroker,
    PreconditionFailed,
    ResourceLocked,
)
from leveret.faults.conversation import (
    BlockPublishers,
    CancelConsumers,
    CloseChannel,
    CloseConnection,
    Delay,
    FailLogin,
    ResetPeer,
    Restart,
    Withhold,
)
from leveret.faults.fault import Fault
from leveret.faults.messages import (
    DelayConfirm,
    Drop,
    Duplicate,
    Expire,
    NackPublish,
    Redeliver,
    Reorder,
    WithholdConfirm,
)
from leveret.faults.occasion import Occasion
from leveret.faults.plan import FaultPlan
from leveret.faults.rule import Rule
from leveret.faults.streams import Effect
from leveret.faults.toxics import Bandwidth, Blackhole, ByteFault, Corrupt, HalfClose, LimitData, Slicer, Stall

__all__ = [
    "AccessRefused",
    "Bandwidth",
    "Blackhole",
    "BlockPublishers",
    "ByteFault",
    "CancelConsumers",
    "CloseChannel",
    "CloseConnection",
    "CommandInvalid",
    "ConnectionForced",
    "Corrupt",
    "Delay",
    "DelayConfirm",
    "Drop",
    "Duplicate",
    "Effect",
    "Expire",
    "FailLogin",
    "Fault",
    "FaultPlan",
    "HalfClose",
    "InternalRefusal",
    "LimitData",
    "NackPublish",
    "NotAllowed",
    "NotFound",
    "NotImplementedByBroker",
    "Occasion",
    "PreconditionFailed",
    "Redeliver",
    "Reorder",
    "ResetPeer",
    "ResourceLocked",
    "Restart",
    "Rule",
    "Slicer",
    "Stall",
    "Withhold",
    "WithholdConfirm",
]
