"""The methods of `broker.faults` that are named after faults, such as `broker.faults.reset_peer(on="basic.ack")`.

Each creates a fault, adds a rule for it and returns the rule. It also takes the keywords of `add`, except `do`. Without
`on=`, a fault that can do so applies at once to everything that matches.
"""

from __future__ import annotations

from typing import Literal, Unpack

from leveret.faults import conversation, messages, toxics
from leveret.faults.conversation import When
from leveret.faults.fault import Fault
from leveret.faults.rule import ACCEPT, Rule
from leveret.faults.streams import Direction
from leveret.observe.assertions.keywords import Alarm, FaultOptions

Refusal = Literal["reset", "login", "close"]


class NamedFaults:
    """The methods that each add the rule of one fault and return it."""

    def add(self, *, on: str | None = None, do: Fault, **options: Unpack[FaultOptions]) -> Rule:
        """Add a rule for the fault `do`."""
        raise NotImplementedError

    def _add_at(self, on: str, fault: Fault, options: FaultOptions) -> Rule:
        """Add a rule for a fault that always acts at the same point."""
        __tracebackhide__ = True
        if "on" in options:
            raise TypeError(f"{fault.name}() takes no on=: it always acts on {on}")
        return self.add(on=on, do=fault, **options)

    def close_channel(
        self,
        code: int = 406,
        text: str = "closed by a fault",
        *,
        on: str | None = None,
        **options: Unpack[FaultOptions],
    ) -> Rule:
        """Close the channel with an error. The client's method is not handled."""
        return self.add(on=on, do=conversation.CloseChannel(code, text), **options)

    def close_connection(
        self,
        code: int = 320,
        text: str = "closed by a fault",
        *,
        on: str | None = None,
        **options: Unpack[FaultOptions],
    ) -> Rule:
        """Close the connection with an error. The client's method is not handled."""
        return self.add(on=on, do=conversation.CloseConnection(code, text), **options)

    def reset_peer(self, *, when: When = "before", on: str | None = None, **options: Unpack[FaultOptions]) -> Rule:
        """Reset the connection "before" or "after" the broker does what `on` names. The reply is lost."""
        return self.add(on=on, do=conversation.ResetPeer(when), **options)

    def refuse_connections(
        self,
        how: Refusal = "reset",
        *,
        code: int = 530,
        text: str = "refused by a fault",
        **options: Unpack[FaultOptions],
    ) -> Rule:
        """Refuse every new connection.

        `how` is "reset" for the socket, "login" for a failed login, or "close" for a connection.close with `code` and
        `text` when the client opens its virtual host. Raises ValueError for any other `how`.
        """
        __tracebackhide__ = True
        refusals: dict[Refusal, tuple[str, Fault]] = {
            "reset": (ACCEPT, conversation.ResetPeer()),
            "login": ("connection.start-ok", conversation.FailLogin()),
            "close": ("connection.open", conversation.CloseConnection(code, text)),
        }
        if how not in refusals:
            raise ValueError(f"how={how!r} is unknown; expected 'reset', 'login' or 'close'")
        on, fault = refusals[how]
        # Show the name that the test called.
        fault.name = "refuse_connections"
        options.setdefault("times", None)
        return self.add(on=on, do=fault, **options)

    def withhold(self, on: str, **options: Unpack[FaultOptions]) -> Rule:
        """Never send a reply, such as "queue.declare-ok"."""
        options.setdefault("sent_by", "broker")
        return self.add(on=on, do=conversation.Withhold(), **options)

    def delay(self, on: str, *, seconds: float, **options: Unpack[FaultOptions]) -> Rule:
        """Handle a method, or send a reply or a delivery, `seconds` later on the broker's clock."""
        return self.add(on=on, do=conversation.Delay(seconds), **options)

    def nack_publishes(self, **options: Unpack[FaultOptions]) -> Rule:
        """Nack publishes and discard the messages, on channels in confirm mode."""
        return self._add_at("basic.publish", messages.NackPublish(), options)

    def withhold_confirms(self, **options: Unpack[FaultOptions]) -> Rule:
        """Accept messages and never confirm them."""
        return self._add_at("basic.publish", messages.WithholdConfirm(), options)

    def delay_confirms(self, *, seconds: float, **options: Unpack[FaultOptions]) -> Rule:
        """Accept messages and confirm them `seconds` later on the broker's clock."""
        return self._add_at("basic.publish", messages.DelayConfirm(seconds), options)

    def cancel_consumers(self, *, on: str | None = None, **options: Unpack[FaultOptions]) -> Rule:
        """Cancel consumers, as RabbitMQ does when their queue is deleted. The queue stays."""
        return self.add(on=on, do=conversation.CancelConsumers(), **options)

    def block_publishers(
        self, resource: Alarm = "memory", *, on: str | None = None, **options: Unpack[FaultOptions]
    ) -> Rule:
        """Raise the "memory" or "disk" alarm, which blocks publishers until the rule is removed."""
        return self.add(on=on, do=conversation.BlockPublishers(resource), **options)

    def drop(self, on: str = "basic.publish", **options: Unpack[FaultOptions]) -> Rule:
        """Lose a method on its way, such as a publish, a delivery or an ack. A lost publish is still confirmed."""
        return self.add(on=on, do=messages.Drop(), **options)

    def duplicate(self, **options: Unpack[FaultOptions]) -> Rule:
        """Deliver messages twice, each time with its own delivery tag."""
        return self._add_at("basic.deliver", messages.Duplicate(), options)

    def redeliver(self, **options: Unpack[FaultOptions]) -> Rule:
        """Deliver messages twice, the second time flagged as redelivered."""
        return self._add_at("basic.deliver", messages.Redeliver(), options)

    def reorder(self, window: int = 3, *, seconds: float = 0.1, **options: Unpack[FaultOptions]) -> Rule:
        """Collect `window` deliveries of a consumer, for at most `seconds`, and send them in another order."""
        return self._add_at("basic.deliver", messages.Reorder(window, seconds), options)

    def expire(self, **options: Unpack[FaultOptions]) -> Rule:
        """Expire messages as soon as they are enqueued."""
        return self._add_at("enqueued", messages.Expire(), options)

    def blackhole(
        self, direction: Direction = "both", *, on: str | None = None, **options: Unpack[FaultOptions]
    ) -> Rule:
        """Let no bytes through, not even heartbeats, in "both" directions, "to_client" or "to_broker".

        The broker does not close the connection for missed heartbeats meanwhile. When the rule is removed, all that was
        sent meanwhile arrives, in order.
        """
        return self.add(on=on, do=toxics.Blackhole(direction), **options)

    def bandwidth(
        self,
        bytes_per_second: int,
        *,
        direction: Direction = "both",
        on: str | None = None,
        **options: Unpack[FaultOptions],
    ) -> Rule:
        """Limit the bandwidth to `bytes_per_second`, by the broker's clock."""
        return self.add(on=on, do=toxics.Bandwidth(bytes_per_second, direction), **options)

    def slicer(
        self, size: int = 1, *, direction: Direction = "both", on: str | None = None, **options: Unpack[FaultOptions]
    ) -> Rule:
        """Pass bytes in pieces of `size` bytes."""
        return self.add(on=on, do=toxics.Slicer(size, direction), **options)

    def stall(
        self,
        seconds: float | None = None,
        *,
        direction: Direction = "both",
        on: str | None = None,
        **options: Unpack[FaultOptions],
    ) -> Rule:
        """Hold back all bytes for `seconds` on the broker's clock, or until the rule is removed, and then pass them."""
        return self.add(on=on, do=toxics.Stall(seconds, direction), **options)

    def corrupt(
        self,
        byte: int = 1,
        *,
        direction: Direction = "to_client",
        on: str | None = None,
        **options: Unpack[FaultOptions],
    ) -> Rule:
        """Invert one byte, the nth from now on."""
        return self.add(on=on, do=toxics.Corrupt(byte, direction), **options)

    def limit_data(self, bytes: int = 0, *, on: str | None = None, **options: Unpack[FaultOptions]) -> Rule:
        """Reset the connection after `bytes` bytes to the client."""
        return self.add(on=on, do=toxics.LimitData(bytes), **options)

    def half_close(self, *, on: str | None = None, **options: Unpack[FaultOptions]) -> Rule:
        """Close the broker's side of the connection. The broker still receives what the client sends."""
        return self.add(on=on, do=toxics.HalfClose(), **options)

    def restart(self, *, on: str | None = None, at: float | None = None, **options: Unpack[FaultOptions]) -> Rule:
        """Restart the broker, at once or when `on` happens, or `at` seconds after that on the broker's clock."""
        return self.add(on=on, do=conversation.Restart(at), **options)
