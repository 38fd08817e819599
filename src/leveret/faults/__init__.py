"""Faults: what goes wrong in a broker, when, and how often.

See docs/reference/faults.md and docs/how-to/writing-a-fault.md.
"""

from leveret.faults.conversation import (
    BlockPublishers,
    CancelConsumers,
    CloseChannel,
    CloseConnection,
    Delay,
    FailLogin,
    ResetPeer,
    Withhold,
)
from leveret.faults.fault import Fault
from leveret.faults.messages import Drop, Duplicate, Expire, Redeliver, Reorder
from leveret.faults.node import Restart
from leveret.faults.occasion import Occasion
from leveret.faults.plan import FaultPlan
from leveret.faults.publishing import DelayConfirm, NackPublish, WithholdConfirm
from leveret.faults.rule import Rule
from leveret.faults.toxics import Bandwidth, Blackhole, Corrupt, HalfClose, LimitData, Slicer, Stall

__all__ = [
    "Bandwidth",
    "Blackhole",
    "BlockPublishers",
    "CancelConsumers",
    "CloseChannel",
    "CloseConnection",
    "Corrupt",
    "Delay",
    "DelayConfirm",
    "Drop",
    "Duplicate",
    "Expire",
    "FailLogin",
    "Fault",
    "FaultPlan",
    "HalfClose",
    "LimitData",
    "NackPublish",
    "Occasion",
    "Redeliver",
    "Reorder",
    "ResetPeer",
    "Restart",
    "Rule",
    "Slicer",
    "Stall",
    "Withhold",
    "WithholdConfirm",
]
