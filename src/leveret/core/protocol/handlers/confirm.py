"""confirm.select: publisher confirms."""

from __future__ import annotations

from leveret.core.model.errors import PreconditionFailed
from leveret.core.protocol.channel import Channel
from leveret.core.protocol.confirms import Confirms
from leveret.core.wire.methods import ConfirmSelect, ConfirmSelectOk


def select(channel: Channel, method: ConfirmSelect) -> None:
    """Switch confirm mode on. A second time changes nothing."""
    if channel.transaction is not None:
        raise PreconditionFailed("cannot switch from tx to confirm mode")
    if channel.confirms is None:
        channel.confirms = Confirms()
    if not method.nowait:
        channel.send(ConfirmSelectOk())
