"""Faults: what should go wrong in a broker, when, and how often. See docs/faults.md and docs/writing-a-fault.md."""

from leveret.faults.conversation import (
    BlockPublishers,
    CancelConsumers,
    CloseChannel,
    CloseConnection,
    Delay,
    DropConnection,
    FailLogin,
    Withhold,
)
from leveret.faults.fault import Fault
from leveret.faults.messages import Duplicate, Expire, Lose, Redeliver, Reorder
from leveret.faults.node import Restart
from leveret.faults.occasion import Occasion
from leveret.faults.plan import FaultPlan
from leveret.faults.publishing import DelayConfirm, NackPublish, WithholdConfirm
from leveret.faults.rule import Rule
from leveret.faults.toxics import Corrupt, Cut, HalfClose, Silent, Slice, Slow, Stall

__all__ = [
    "BlockPublishers",
    "CancelConsumers",
    "CloseChannel",
    "CloseConnection",
    "Corrupt",
    "Cut",
    "Delay",
    "DelayConfirm",
    "DropConnection",
    "Duplicate",
    "Expire",
    "FailLogin",
    "Fault",
    "FaultPlan",
    "HalfClose",
    "Lose",
    "NackPublish",
    "Occasion",
    "Redeliver",
    "Reorder",
    "Restart",
    "Rule",
    "Silent",
    "Slice",
    "Slow",
    "Stall",
    "Withhold",
    "WithholdConfirm",
]
