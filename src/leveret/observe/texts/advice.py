"""What to do about an error that a client or a call of the test got: the ways out, a line each.

RabbitMQ's texts name a log file, or a line of rabbitmq.conf. A test has neither, so the advice names what a test can
do. A refused login says neither who nor why, so the core adds its cause to the event.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from leveret.core.model.exchanges import EXCHANGE_TYPES
from leveret.core.model.node import Node
from leveret.errors import did_you_mean, expected
from leveret.observe.texts.handle import FOR_ONE_TEST, Handle
from leveret.trace.events import Event

# Who declared what a broker began with.
DEFINITIONS: Final = "the definitions"
_UNEXPECTED_FRAME: Final = 505
_ONE_THREAD: Final = (
    "Frames that do not fit together come from two threads in one connection, or from a client's bug. A connection of "
    "pika belongs to one thread: open one for each, or call connection.add_callback_threadsafe() from the others"
)
# What to do instead of using a denied feature.
_INSTEAD: Final = {
    "transient_nonexcl_queues": "declare the queue with durable=True (or exclusive=True)",
    "queue_master_locator": "remove the argument x-queue-master-locator",
    "global_qos": "set a limit for each consumer: basic.qos with global=False",
}


def ways_out(feature: str, handle: Handle = FOR_ONE_TEST) -> list[str]:
    """Return what to do about a denied feature: replace it, or permit it."""
    instead = _INSTEAD.get(feature, "stop using it")
    permit = handle.ways_to_set("permit", f'{{"{feature}"}}', feature)
    return [
        f"RabbitMQ denies {feature} from 4.3 on. Ways out:",
        f"  {instead}; or",
        f"  permit it: {permit}",
    ]


def ways_out_of_version(feature: str, handle: Handle) -> list[str]:
    """Return what `ways_out` does, and how to set an older version, for a test whose version was not chosen."""
    version = handle.ways_to_set("rabbitmq", '"4.2"', "4.2")
    return [*ways_out(feature, handle), f"  or, if you run an older RabbitMQ, set its version: {version}"]


def advice(refusal: Event, declarers: Mapping[tuple[str, str, str], str], handle: Handle) -> list[str]:
    """Return what to do about an error that was sent to a client; empty if its text says enough.

    `declarers` says who declared each queue and exchange, by kind, virtual host and name. `handle` is that of the
    broker.
    """
    if refusal.code == _UNEXPECTED_FRAME:
        return [_ONE_THREAD]
    subject = refusal.subject or {}
    kind, name, vhost, user = (subject.get(word, "") for word in ("kind", "name", "vhost", "user"))
    match subject.get("problem"):
        case "denied_feature":
            return ways_out_of_version(subject["feature"], handle)
        case "unknown_user":
            added = f"{handle.admin(f'add_user({user!r}, password)')}; {handle.admin(f'set_permissions({user!r})')}"
            ways = handle.ways_to_set("users", f"{{{user!r}: password}}", f"{user}=PASSWORD", added)
            return [f"To add user {user!r}: {ways}"]
        case "wrong_password" if handle.name:
            return [f"The URL with the password of user {user!r}: {handle.name}.url_for(user={user!r})"]
        case "no_vhost":
            added = f"{handle.admin(f'add_vhost({vhost!r})')}; {_permissions(handle, user, vhost)}"
            return [f"To add vhost {vhost!r}: {handle.ways_to_set('vhosts', f'{{{vhost!r}}}', vhost, added)}"]
        case "no_access":
            return [f"To let user {user!r} in: {_permissions(handle, user, vhost)}"]
        case "inequivalent":
            who = declarers.get((kind, refusal.vhost, name))
            by = f" by {who}" if who else ""
            alike = "as they do" if who == DEFINITIONS else "alike everywhere"
            otherwise = "" if who == DEFINITIONS else ", or let only the application declare it"
            return [
                f"{kind.capitalize()} {name!r} exists, declared in another way{by}. Declare it {alike}, with the same "
                f"durable= and arguments={otherwise}"
            ]
        case "missing":
            if who := declarers.get((kind, refusal.vhost, name)):
                return [f"{kind.capitalize()} {name!r} did not exist then: {who} declared it later, or it was deleted"]
            declared = [other for its_kind, host, other in declarers if (its_kind, host) == (kind, refusal.vhost)]
            return [f"No {kind} {name!r}{hint}"] if (hint := did_you_mean(name, declared)) else []
        case "unknown_type":
            return [f"No exchange type {subject['type']!r}{expected(subject['type'], EXCHANGE_TYPES)}"]
        case "no_right":
            return [
                f"To give user {user!r} every right: {_permissions(handle, user, vhost)}; it replaces all three, so to "
                f"give fewer, pass configure=, write= and read=, and let {subject['right']}= match {name!r}"
            ]
    return []


def queue_not_exchange(name: str) -> str:
    """Return the hint for a call that names a queue as its exchange."""
    return (
        f"{name!r} is a queue: messages go to it through an exchange, such as the default one with exchange='' and "
        f"routing_key={name!r}"
    )


def own_advice(subject: Mapping[str, str], node: Node) -> list[str]:
    """Return what to do about a call of the test that was refused; empty if the text of the refusal says enough."""
    match subject.get("problem"):
        case "missing":
            kind, name, vhost = subject["kind"], subject["name"], node.vhosts[subject["vhost"]]
            if kind == "exchange" and name in vhost.queues:
                return [queue_not_exchange(name)]
            if kind == "queue" and name in vhost.exchanges:
                return [
                    f"{name!r} is an exchange: bind_queue(queue, exchange, routing_key) leads its messages to a queue"
                ]
            hint = did_you_mean(name, vhost.queues if kind == "queue" else vhost.exchanges).removeprefix("; ")
            return [hint or f"declare it first: declare_{kind}({name!r})"]
        case "unknown_type":
            return [expected(subject["type"], EXCHANGE_TYPES).removeprefix("; ")]
        case "inequivalent":
            return [f"declare it as before, or first call delete_{subject['kind']}({subject['name']!r})"]
    return []


def _permissions(handle: Handle, user: str, vhost: str) -> str:
    return handle.admin(f"set_permissions({user!r}, {vhost!r})")
