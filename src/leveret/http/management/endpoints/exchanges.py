"""The endpoints about exchanges."""

from __future__ import annotations

from typing import Final

from leveret.admin.definitions_export import described_exchange
from leveret.core.model.exchanges.exchange import Exchange
from leveret.core.model.vhost import VirtualHost
from leveret.core.protocol.handlers import exchange as methods
from leveret.core.wire.methods import ExchangeDeclare, ExchangeDelete
from leveret.http.management import statistics
from leveret.http.management.calls import CREATED, DONE, ManagementCall, no_object, refuse_other_node
from leveret.http.management.listing import Described
from leveret.http.management.routes import describes, endpoint, lists

_EXCHANGE: Final = "/api/exchanges/{vhost}/{exchange}"
_COUNTED = (("publish_in",), ("publish_out",))


@lists("/api/exchanges", "management", in_vhost="vhost", paged=True)
def list_exchanges(call: ManagementCall) -> list[Described]:
    """List the exchanges of a virtual host, or of all that the user sees."""
    return [_described(call, vhost, each) for vhost in call.vhosts() for each in vhost.exchanges.values()]


@describes(_EXCHANGE, "vhost")
def get_exchange(call: ManagementCall) -> Described:
    """Describe an exchange. What comes in and goes out by channel and queue is empty in the rates mode "basic"."""
    return {**_described(call, call.vhost, _exchange(call)), "incoming": [], "outgoing": []}


@endpoint("PUT", _EXCHANGE, "vhost")
def put_exchange(call: ManagementCall) -> object:
    """Declare an exchange."""
    body = call.body()
    durable, auto_delete, internal = (body.parsed_flag(name) for name in ("durable", "auto_delete", "internal"))
    arguments, kind = body.table("arguments"), body.text("type", "direct")
    name = call.exchange_name
    with call.acting(), call.channel(call.changed_vhost) as channel:
        refuse_other_node(body, call.compat)
        vhost = channel.vhost
        is_known = name in vhost.exchanges
        method = ExchangeDeclare(name, kind, False, durable, auto_delete, internal, True, arguments)
        methods.declare(channel, method)
        if not is_known:
            call.state.statistics.makers[vhost.name, name] = call.user.name
    return DONE if is_known else CREATED


@endpoint("DELETE", _EXCHANGE, "vhost")
def delete_exchange(call: ManagementCall) -> None:
    """Delete an exchange."""
    with call.acting():
        name = _exchange(call).name
        with call.channel(call.vhost) as channel:
            methods.delete(channel, ExchangeDelete(name, call.flag("if-unused"), True))


def _exchange(call: ManagementCall) -> Exchange:
    exchange = call.vhost.exchanges.get(call.exchange_name)
    if exchange is None:
        raise no_object()
    return exchange


def _described(call: ManagementCall, vhost: VirtualHost, exchange: Exchange) -> Described:
    counts, vhosts_maker = call.state.statistics, vhost.maker or statistics.INTERNAL_USER
    policy, _ = vhost.policies.for_exchange(exchange.name)
    return {
        **described_exchange(vhost, exchange),
        **({} if policy is None else {"policy": policy.name}),
        "user_who_performed_action": counts.makers.get((vhost.name, exchange.name), vhosts_maker),
        **statistics.message_stats(counts.of("exchange", vhost.name, exchange.name), call.node.now, *_COUNTED),
    }
