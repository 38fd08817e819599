"""Insight into clients in this process: whether they have let the code under test see an error.

What a client does with an error that no call waits for differs from client to client, and the broker sees little of it.
The table in tests/checks/swallowing.py shows what each client does. Where this module knows nothing, the error counts
as seen only if the client shows it to the broker.
"""

from __future__ import annotations

import gc
import sys
import weakref
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from operator import attrgetter
from traceback import walk_tb
from typing import Any, Final

from leveret.observe.calls.callers import client_calls, is_of_user, modules_of_others

_PIKA: Final = "pika.channel"
_AIORMQ: Final = "aiormq.channel"
_AIO_PIKA: Final = "aio_pika.channel"
# By the module of a class `Channel`: the attributes with a channel's number and with the port of its connection.
_NUMBER_AND_PORT: Final = {
    _PIKA: attrgetter("channel_number", "connection.params.port"),
    _AIORMQ: attrgetter("number", "connection.url.port"),
    # The URL of aio-pika's own connection has no port if the program's has none.
    _AIO_PIKA: attrgetter("number", "_connection.transport.connection.url.port"),
}
# By the product of a client: the module of the class to whose channels messages are returned.
_RETURNED_TO: Final = {"Pika Python Client Library": _PIKA, "aiormq": _AIORMQ}
# The product of the client of Node.js, whose channels emit an event `error`.
_NEVER_SILENT: Final = "amqplib"
# What clients raise from a call on a channel that an error has closed. It does not say which error.
_CLOSED: Final = (("pika.exceptions", "ChannelWrongStateError"), ("aiormq.exceptions", "ChannelInvalidStateError"))
# The module whose frames run a test of unittest.
_UNITTEST: Final = "unittest.case"
# The product of the client whose next call raises the error, also if that call closes the channel or the connection.
_ALWAYS_RAISES: Final = "rabbitpy"


class ClientInsight:
    """What can be known of how clients in this process handle one error."""

    def __init__(self, product: object, channel_number: int, text: str, ports: Collection[int] = ()) -> None:
        """`product` is the client's name for itself, `text` the error's. The broker has not sent it yet.

        `ports` are those of the brokers in this process.
        """
        self._product = product
        self._text = text
        # `assertRaises` takes from an exception all that shows where it came by.
        self.may_be_cleared: Final = _UNITTEST in modules_of_others()
        kinds = _channel_classes()
        things = instances((Exception, *kinds))
        # An earlier test may have made the same mistake.
        self._earlier: Final = [_reference(error) for error in _errors_about(text, things)]
        # The channels that may be this one, by module. An earlier test may have left a channel open, to a broker that
        # has stopped since. They are not kept: a connection that the program has dropped must end.
        sought = {(channel_number, port) for port in ports}
        channels = {
            module: [thing for thing in things if kind in type(thing).__mro__ and _is_sought(thing, module, sought)]
            for kind, module in kinds.items()
        }
        # Also if the code under test has registered a callback for the end of such a channel.
        self.is_certain_to_be_seen: Final = product == _ALWAYS_RAISES or any(
            not _is_of_client(callback)
            for module, own in channels.items()
            for channel in own
            for callback in _close_callbacks(channel, module)
        )
        returned_to = channels.get(_RETURNED_TO.get(str(product), ""), [])
        # Whether such channels exist in this process, and none of them raises or calls back for a return.
        self.ignores_returns: Final = bool(returned_to) and not any(map(_handles_returns, returned_to))

    def is_raised_by_close(self) -> bool:
        """Return whether the client is in a call that closes a channel and raises the error.

        pika does that, but it drops the error if it closes the channel because the connection closes.
        """
        return any(
            "BlockingChannel.close" in names and "BlockingConnection.close" not in names for names, _ in client_calls()
        )

    def is_opened_by_client_itself(self) -> bool:
        """Return whether a client opens a channel without a call of the code under test, as aio-pika's robust one."""
        return any(
            not has_user and any(name.startswith("RobustChannel.") for name in names)
            for names, has_user in client_calls()
        )

    def was_raised(self) -> bool:
        """Return whether the code under test got an exception with the error's text, or one that its channel is closed.

        Something must still hold it.

        It did if the client is one that ends its process when nothing handles an error that it has read.
        """
        earlier = {id(reference()) for reference in self._earlier}
        return self._product == _NEVER_SILENT or any(
            id(error) not in earlier and any(is_of_user(frame) for frame, _ in walk_tb(error.__traceback__))
            for error in _errors_about(self._text, instances((Exception,)))
        )


class RobustQueues:
    """The queues of aio-pika's robust connections in this process.

    After a lost connection, such a queue is declared and bound again, and its consumers consume under their old tags.
    """

    def __init__(self, lost: Iterable[str], ports: Collection[int]) -> None:
        """Find them. `lost` are the tags of the consumers to look for, `ports` those of the broker."""
        self.lost: Final = frozenset(lost)
        self._ports: Final = ports
        kind = getattr(sys.modules.get("aio_pika.robust_queue"), "RobustQueue", None)
        self._queues: Final = [weakref.ref(queue) for queue in instances((kind,))] if isinstance(kind, type) else []

    def expected(self, lost: Iterable[str]) -> list[str]:
        """Return the tags of the consumers that are certain to come back, unless their client is closed first."""
        queues: list[Any] = [queue for reference in self._queues if (queue := reference()) is not None]
        return [tag for tag in lost if any(self._restores(queue, tag) for queue in queues)]

    def _restores(self, queue: Any, tag: str) -> bool:
        with suppress(Exception):
            connection = queue.channel._connection
            is_over = connection.is_closed or connection.close_called or connection.loop.is_closed()
            return tag in queue._consumers and connection.url.port in self._ports and not is_over
        return False


def instances(kinds: Iterable[type]) -> list[Any]:
    """Return the objects of these classes, and of classes that extend them, that the collector knows."""
    # `isinstance` would ask proxies and mocks for their class. `issubclass` would ask an abstract class, and CPython
    # 3.11 crashes if that is about a class being collected. Such a class is no longer among the subclasses.
    # A metaclass may have its own hash. `id` would raise an audit event for each object of the process.
    address = object.__hash__
    classes: dict[int, type] = {}
    waiting = list(kinds)
    while waiting:
        kind = waiting.pop()
        classes[address(kind)] = kind
        waiting += type.__subclasses__(kind)
    return [thing for thing in gc.get_objects() if address(type(thing)) in classes]


def _errors_about(text: str, things: Iterable[object]) -> list[Exception]:
    closed = {getattr(sys.modules.get(module), name, None) for module, name in _CLOSED}
    return [
        error
        for error in things
        if isinstance(error, Exception)
        and (type(error) in closed or any(text in part for part in error.args if type(part) is str))
    ]


def _reference(error: Exception) -> Callable[[], Exception | None]:
    """Return what gives the error while it exists. By its address, it could be taken for one that is made later."""
    try:
        return weakref.ref(error)
    except TypeError:
        return lambda: error


def _channel_classes() -> dict[type, str]:
    """Return the classes of channels that this process has imported, each with its module."""
    classes = {module: getattr(sys.modules.get(module), "Channel", None) for module in _NUMBER_AND_PORT}
    return {kind: module for module, kind in classes.items() if isinstance(kind, type)}


# Some attributes are private to the clients. If a version has others, nothing is known.


def _is_sought(channel: Any, module: str, sought: Collection[tuple[object, int]]) -> bool:
    with suppress(Exception):
        return not channel.is_closed and _NUMBER_AND_PORT[module](channel) in sought
    return False


def _close_callbacks(channel: Any, module: str) -> Iterable[object]:
    with suppress(Exception):
        if module == _AIO_PIKA:
            return list(channel.close_callbacks)
        if module == _PIKA:
            stack = channel.callbacks._stack.get(str(channel.channel_number), {}).get("_on_channel_close", ())
            return [entry["callback"] for entry in stack]
    return ()


def _handles_returns(channel: Any) -> bool:
    with suppress(Exception):
        if type(channel).__module__.startswith("pika"):
            # In confirm mode, the callback is the client's own, and its publish raises.
            return "_on_return" in channel.callbacks._stack.get(str(channel.channel_number), {})
        raises = channel.publisher_confirms and channel.on_return_raises
        # aio-pika registers its own channel in any case, which calls back what the code under test has registered.
        callbacks: list[Any] = list(channel.on_return_callbacks)
        return raises or any(not _is_of_client(call) or list(call.__self__.return_callbacks) for call in callbacks)
    return True


def _is_of_client(callback: object) -> bool:
    module = str(getattr(callback, "__module__", ""))
    return module.partition(".")[0] in ("pika", "aio_pika")
