"""The handlers of methods: plain functions, one file per AMQP class.

`HANDLERS` holds the methods of channels, `CONTROL_HANDLERS` those of channel 0. A client may not send a method that the
table in question lacks. basic.publish is in neither, because its handler takes its content too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar, cast

from leveret.core.protocol.channel import Channel
from leveret.core.protocol.connection import Connection
from leveret.core.protocol.handlers import basic, channel, confirm, connection, exchange, queue, tx
from leveret.core.wire import methods as m

__all__ = ["CONTROL_HANDLERS", "HANDLERS", "basic", "channel", "connection"]

M = TypeVar("M", bound=m.Method)
Handler = Callable[["Channel", m.Method], None]
ControlHandler = Callable[["Connection", m.Method], None]


HANDLERS: Final[dict[type[m.Method], Handler]] = {}
CONTROL_HANDLERS: Final[dict[type[m.Method], ControlHandler]] = {}


def _on_channel(method: type[M], handle: Callable[[Channel, M], None]) -> None:
    HANDLERS[method] = cast(Handler, handle)


def _on_control(method: type[M], handle: Callable[[Connection, M], None]) -> None:
    CONTROL_HANDLERS[method] = cast(ControlHandler, handle)


_on_channel(m.ChannelOpen, channel.reopen)
_on_channel(m.ChannelFlow, channel.flow)
_on_channel(m.ChannelClose, channel.close)
_on_channel(m.AccessRequest, channel.access_request)
_on_channel(m.ExchangeDeclare, exchange.declare)
_on_channel(m.ExchangeDelete, exchange.delete)
_on_channel(m.ExchangeBind, exchange.bind)
_on_channel(m.ExchangeUnbind, exchange.unbind)
_on_channel(m.QueueDeclare, queue.declare)
_on_channel(m.QueueBind, queue.bind)
_on_channel(m.QueueUnbind, queue.unbind)
_on_channel(m.QueuePurge, queue.purge)
_on_channel(m.QueueDelete, queue.delete)
_on_channel(m.BasicQos, basic.qos)
_on_channel(m.BasicConsume, basic.consume)
_on_channel(m.BasicCancel, basic.cancel)
_on_channel(m.BasicCancelOk, basic.cancel_ok)
_on_channel(m.BasicGet, basic.get)
_on_channel(m.BasicAck, basic.ack)
_on_channel(m.BasicReject, basic.reject)
_on_channel(m.BasicNack, basic.nack)
_on_channel(m.BasicRecover, basic.recover)
_on_channel(m.BasicRecoverAsync, basic.recover_async)
_on_channel(m.ConfirmSelect, confirm.select)
_on_channel(m.TxSelect, tx.select)
_on_channel(m.TxCommit, tx.commit)
_on_channel(m.TxRollback, tx.rollback)
_on_control(m.ConnectionStartOk, connection.start_ok)
_on_control(m.ConnectionTuneOk, connection.tune_ok)
_on_control(m.ConnectionOpen, connection.open_vhost)
_on_control(m.ConnectionUpdateSecret, connection.update_secret)
_on_control(m.ConnectionClose, connection.close)
_on_control(m.ConnectionCloseOk, connection.close_ok)
