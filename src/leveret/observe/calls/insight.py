"""Insight into clients in this process: whether they have let the code under test see an error.

What a client does with an error that no call waits for differs from client to client, and the broker sees little of it.
The table in tests/checks/swallowing.py shows what each client does. Where this module knows nothing, the error counts
as seen only if the client shows it to the broker.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterable
from contextlib import suppress
from traceback import walk_tb
from typing import Any, Final

from leveret.observe.calls.callers import client_calls, is_of_user

# The modules of clients that call back when a channel ends, each with its class `Channel`.
_WITH_CALLBACKS: Final = ("pika.channel", "aio_pika.channel")
# The product of the client of Node.js, whose channels emit an event `error`.
_NEVER_SILENT: Final = "amqplib"


class ClientInsight:
    """What can be known of how clients in this process handle one error."""

    def __init__(self, product: object, channel_number: int, text: str) -> None:
        """`product` is the client's name for itself, `text` the error's. The broker has not sent it yet."""
        self._product = product
        self._text = text
        channels = _channel_classes()
        known = _instances((Exception, *channels))
        # An earlier test may have made the same mistake.
        self._earlier: Final = {id(one) for one in _with_text(known, text)}
        # Whether the code under test has registered a callback for the end of such a channel.
        self.has_close_handler: Final = any(
            not _is_of_client(callback)
            for channel in known
            if issubclass(type(channel), channels)
            for callback in _close_callbacks(channel, channel_number)
        )

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
        """Return whether the code under test got an exception with the error's text. Something must still hold it.

        It did if the client is one that ends its process when nothing handles an error that it has read.
        """
        return self._product == _NEVER_SILENT or any(
            id(one) not in self._earlier and any(is_of_user(frame) for frame, _ in walk_tb(one.__traceback__))
            for one in _with_text(_instances((Exception,)), self._text)
        )


def _instances(kinds: tuple[type, ...]) -> list[Any]:
    # `isinstance` would ask proxies and mocks for their class.
    return [one for one in gc.get_objects() if issubclass(type(one), kinds)]


def _with_text(objects: Iterable[Any], text: str) -> list[Exception]:
    errors = [one for one in objects if issubclass(type(one), Exception)]
    return [one for one in errors if any(text in part for part in one.args if type(part) is str)]


def _channel_classes() -> tuple[type, ...]:
    known = (getattr(sys.modules.get(module), "Channel", None) for module in _WITH_CALLBACKS)
    return tuple(kind for kind in known if isinstance(kind, type))


def _close_callbacks(channel: Any, number: int) -> Iterable[object]:
    # pika keeps its callbacks in private attributes. If a version has others, nothing is known.
    with suppress(Exception):
        if channel.is_closed:
            return ()
        if type(channel).__module__.startswith("aio_pika"):
            return list(channel.close_callbacks)
        stack = channel.callbacks._stack.get(str(number), {}).get("_on_channel_close", ())
        return [one["callback"] for one in stack] if channel.channel_number == number else ()
    return ()


def _is_of_client(callback: object) -> bool:
    module = str(getattr(callback, "__module__", ""))
    return module.partition(".")[0] in ("pika", "aio_pika")
