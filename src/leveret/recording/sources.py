"""Where the messages of a recording come from: a queue of its own beside an exchange or a queue, or the firehose.

A queue beside others gets copies of what is published, so nothing is taken from any consumer. The firehose also shows
what was delivered to whom, and so what a service published itself. It must be on: `rabbitmqctl trace_on`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, cast

from leveret.core.model.exchanges.exchange import ALTERNATE_EXCHANGE
from leveret.core.model.operators.policy import Policies, Policy
from leveret.core.wire import methods as amqp
from leveret.core.wire.commands import Command
from leveret.core.wire.properties import PROPERTY_NAMES, Properties
from leveret.core.wire.values import Field, Table
from leveret.errors import BrokerError
from leveret.recording.rec_file import RecordedMessage

TRACE_EXCHANGE: Final = "amq.rabbitmq.trace"
_SECTIONS: Final = ("exchanges", "queues", "bindings", "policies")
# Exchanges that give each message to one of their queues: a further queue would take its share.
_SHARING: Final = ("x-consistent-hash", "x-modulus-hash", "x-random", "x-local-random")
Bindings = list[tuple[str, str, Table]]
Values = Mapping[str, Any]


def kept_definitions(definitions: Values) -> dict[str, Any]:
    """Return the part of a server's definitions that a recording keeps: nothing of users, passwords or shovels."""
    return {name: definitions[name] for name in _SECTIONS if definitions.get(name)}


def without_exclusive(definitions: Values) -> tuple[dict[str, Any], list[str]]:
    """Return definitions without the bindings to queues that they do not have, and the names of these queues.

    RabbitMQ lists the bindings of exclusive queues, but not the queues: these go with their connection.
    """
    known = {it["name"] for it in definitions.get("queues", ())}
    bindings = definitions.get("bindings", [])
    kept = [it for it in bindings if it["destination_type"] != "queue" or it["destination"] in known]
    left_out = {str(it["destination"]) for it in bindings if it not in kept}
    return {**definitions, "bindings": kept}, sorted(left_out)


def bindings_beside(queue: str, definitions: Values) -> Bindings:
    """Return the bindings that lead to a queue. Raises BrokerError if there is none."""
    of_queues = [
        it for it in definitions.get("bindings", ()) if it.get("destination_type", "queue") == "queue" and it["source"]
    ]
    leading = [
        (str(it["source"]), str(it["routing_key"]), Table.from_python(it.get("arguments") or {}))
        for it in of_queues
        if it["destination"] == queue
    ]
    if not leading:
        known = ", ".join(sorted({str(it["destination"]) for it in of_queues}))
        raise BrokerError(
            f"--queue {queue}: no exchange leads to it, so no queue can be put beside it; use --firehose"
            f"{known and f', or one of: {known}'}"
        )
    return [it for it in leading if _is_copied(it[0], definitions)]


def bindings_to(exchange: str, keys: list[str] | None, definitions: Values) -> Bindings:
    """Return bindings for what is published to an exchange; without keys, for all that a queue can get from it.

    Raises BrokerError if the exchange is direct, and has no bindings, and if the recorder's queue would keep messages
    from an alternate exchange.
    """
    kind = _is_copied(exchange, definitions)
    bound = sorted({str(it["routing_key"]) for it in definitions.get("bindings", ()) if it["source"] == exchange})
    if keys is None and kind == "direct" and not bound:
        raise BrokerError(f"--exchange {exchange} is direct and has no bindings yet; name routing keys with --key")
    wanted = keys or (bound if kind == "direct" else ["#"])
    alternate = _alternate_of(exchange, definitions)
    is_all_taken = kind == "fanout" and bound
    if alternate is not None and not is_all_taken and (kind == "headers" or not set(wanted) <= set(bound)):
        raise BrokerError(
            f"exchange {exchange!r} sends what no queue takes to {alternate!r}, and the recorder's queue would keep it "
            "from there; name with --key what queues are bound with, or use --firehose"
        )
    return [(exchange, key, Table.EMPTY) for key in wanted]


def _alternate_of(exchange: str, definitions: Values) -> str | None:
    """Return the alternate exchange of an exchange, by its argument or else by the policy that acts on it.

    Raises BrokerError if the policy that acts on it cannot be found.
    """
    for it in definitions.get("exchanges", ()):
        if it["name"] == exchange and ALTERNATE_EXCHANGE in (it.get("arguments") or {}):
            return cast("str", it["arguments"][ALTERNATE_EXCHANGE])
    policies = Policies()
    for it in definitions.get("policies", ()):
        policies.user.keep(
            Policy(it["name"], it["pattern"], it["definition"], it.get("apply-to", "all"), it.get("priority", 0))
        )
    try:
        return cast("str | None", policies.effective_for_exchange(exchange).get(ALTERNATE_EXCHANGE))
    except re.error as error:
        raise BrokerError(
            f"--exchange {exchange}: the pattern {error.pattern!r} of a policy cannot be matched ({error.msg}), so "
            "whether the exchange has an alternate exchange is not known; use --firehose"
        ) from None


def _is_copied(exchange: str, definitions: Values) -> str:
    """Return the type of an exchange. Raises BrokerError for one of which a further queue would take messages."""
    known = {str(it["name"]): str(it["type"]) for it in definitions.get("exchanges", ())}
    kind = known.get(exchange, "direct" if exchange == "amq.direct" else "topic")
    if kind in _SHARING:
        raise BrokerError(
            f"exchange {exchange!r} of type {kind} gives each message to one queue, so the recorder's would take "
            "messages from the others; use --firehose"
        )
    return kind


def published(command: Command, at: int) -> RecordedMessage:
    """Return the message of a delivery from a queue of our own."""
    method = cast("amqp.BasicDeliver", command.method)
    properties = Properties.decode(command.properties)
    return RecordedMessage(at, method.exchange, method.routing_key, properties, command.body)


@dataclass(slots=True)
class FirehoseReader:
    """A reader of the firehose: the messages for one queue or exchange, or all, and what their consumers publish."""

    queue: str | None = None
    exchange: str | None = None
    # The numbers of clients, by the server's names for their connections, and those that consumed from the queue.
    _clients: dict[str, int] = field(default_factory=dict)
    _consumers: set[int] = field(default_factory=set)

    def read(self, record: RecordedMessage) -> RecordedMessage | None:
        """Return the publish or the delivery that a record is about; None if it was not asked for."""
        what, _, name = record.routing_key.partition(".")
        given = record.properties.headers or Table.EMPTY
        facts = given.to_python()
        client = self._clients.setdefault(str(facts.get("connection")), len(self._clients) + 1)
        keys = cast("list[object]", facts.get("routing_keys") or [""])
        exchange = str(facts.get("exchange_name") or "")
        place = RecordedMessage(record.at, exchange, str(keys[0]), Properties(), b"", client=client)
        if what == "deliver":
            if self.queue not in (None, name):
                return None
            self._consumers.add(client)
            return place._replace(queue=name)
        queues = tuple(str(it) for it in cast("list[object]", facts.get("routed_queues") or ()))
        is_own = client in self._consumers
        if not is_own and (self.queue not in (None, *queues) or self.exchange not in (None, exchange)):
            return None
        return place._replace(properties=_properties(given), body=record.body, queues=queues)


def _properties(facts: Table) -> Properties:
    """Return the properties of a record of the firehose, which has them as a table. Headers keep their types."""
    inner = facts.get("properties")
    entries = inner.value if inner is not None and isinstance(inner.value, Table) else Table.EMPTY
    return Properties(**{name: _property(item) for name, item in entries if name in PROPERTY_NAMES})


def _property(item: Field) -> Any:
    return item.value.decode("utf-8", "surrogateescape") if isinstance(item.value, bytes) else item.value
