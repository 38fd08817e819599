"""The faults by their names: `broker.faults.reset_peer(on="basic.ack")`, and so on.

Each makes a fault and adds a rule for it; whatever `add` takes besides `do` may be given. Without `on=`, one that can
strikes at once whoever matches.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Unpack

from leveret.faults.conversation import (
    BlockPublishers,
    CancelConsumers,
    CloseChannel,
    CloseConnection,
    Delay,
    FailLogin,
    ResetPeer,
    When,
    Withhold,
)
from leveret.faults.fault import Fault
from leveret.faults.messages import Drop, Duplicate, Expire, Redeliver, Reorder
from leveret.faults.node import Restart
from leveret.faults.publishing import DelayConfirm, NackPublish, WithholdConfirm
from leveret.faults.rule import ACCEPT, Rule
from leveret.faults.toxics import Bandwidth, Blackhole, Corrupt, Direction, HalfClose, LimitData, Slicer, Stall

if TYPE_CHECKING:
    from leveret.observe.keywords import Alarm, FaultOptions

Refusal = Literal["reset", "login", "close"]


class NamedFaults:
    """These add one rule each and return it."""

    def add(self, *, on: str | None = None, do: Fault, **options: Unpack[FaultOptions]) -> Rule:
        """Add a rule."""
        raise NotImplementedError

    def close_channel(
        self,
        code: int = 406,
        text: str = "closed by a fault",
        *,
        on: str | None = None,
        **options: Unpack[FaultOptions],
    ) -> Rule:
        """Close the channel with an error; what the client asked for is not done."""
        return self.add(on=on, do=CloseChannel(code, text), **options)

    def close_connection(
        self,
        code: int = 320,
        text: str = "closed by a fault",
        *,
        on: str | None = None,
        **options: Unpack[FaultOptions],
    ) -> Rule:
        """Close the connection with an error; what the client asked for is not done."""
        return self.add(on=on, do=CloseConnection(code, text), **options)

    def reset_peer(self, *, when: When = "before", on: str | None = None, **options: Unpack[FaultOptions]) -> Rule:
        """Reset the connection `when` ("before" or "after") what it waits for happens; the answer is lost with it."""
        return self.add(on=on, do=ResetPeer(when), **options)

    def refuse_connections(
        self,
        how: Refusal = "reset",
        *,
        code: int = 530,
        text: str = "refused by a fault",
        **options: Unpack[FaultOptions],
    ) -> Rule:
        """Let nobody in: "reset" the socket, "login" fails, or "close" with `code` when the client names its vhost."""
        refusals: dict[Refusal, tuple[str, Fault]] = {
            "reset": (ACCEPT, ResetPeer()),
            "login": ("connection.start-ok", FailLogin()),
            "close": ("connection.open", CloseConnection(code, text)),
        }
        if how not in refusals:
            raise ValueError(f"how={how!r} is none of 'reset', 'login' and 'close'")
        on, fault = refusals[how]
        # As the test has called it.
        fault.name = "refuse_connections"
        options.setdefault("times", None)
        return self.add(on=on, do=fault, **options)

    def withhold(self, on: str, **options: Unpack[FaultOptions]) -> Rule:
        """Never send an answer, as `withhold("queue.declare-ok")`."""
        options.setdefault("sent_by", "broker")
        return self.add(on=on, do=Withhold(), **options)

    def delay(self, on: str, *, seconds: float, **options: Unpack[FaultOptions]) -> Rule:
        """Do it so much later on the broker's clock: handle a method, or send an answer or a delivery."""
        return self.add(on=on, do=Delay(seconds), **options)

    def nack_publishes(self, **options: Unpack[FaultOptions]) -> Rule:
        """Take no message and nack it, where the channel is in confirm mode."""
        return self.add(on="basic.publish", do=NackPublish(), **options)

    def withhold_confirms(self, **options: Unpack[FaultOptions]) -> Rule:
        """Take messages and never confirm them."""
        return self.add(on="basic.publish", do=WithholdConfirm(), **options)

    def delay_confirms(self, *, seconds: float, **options: Unpack[FaultOptions]) -> Rule:
        """Take messages and confirm them so much later on the broker's clock."""
        return self.add(on="basic.publish", do=DelayConfirm(seconds), **options)

    def cancel_consumers(self, *, on: str | None = None, **options: Unpack[FaultOptions]) -> Rule:
        """Cancel consumers as RabbitMQ does when their queue goes; the queue stays."""
        return self.add(on=on, do=CancelConsumers(), **options)

    def block_publishers(
        self, resource: Alarm = "memory", *, on: str | None = None, **options: Unpack[FaultOptions]
    ) -> Rule:
        """Raise the alarm of "memory" or "disk": who publishes is blocked until the rule is removed."""
        return self.add(on=on, do=BlockPublishers(resource), **options)

    def drop(self, on: str = "basic.publish", **options: Unpack[FaultOptions]) -> Rule:
        """Lose a publish that is confirmed all the same, a delivery, an ack: it never arrives where it was sent."""
        return self.add(on=on, do=Drop(), **options)

    def duplicate(self, **options: Unpack[FaultOptions]) -> Rule:
        """Deliver messages twice, each under a tag of its own."""
        return self.add(on="basic.deliver", do=Duplicate(), **options)

    def redeliver(self, **options: Unpack[FaultOptions]) -> Rule:
        """Deliver messages twice, the second time flagged as redelivered."""
        return self.add(on="basic.deliver", do=Redeliver(), **options)

    def reorder(self, window: int = 3, *, seconds: float = 0.1, **options: Unpack[FaultOptions]) -> Rule:
        """Gather so many deliveries of a consumer, for `seconds` at most, and send them in another order."""
        return self.add(on="basic.deliver", do=Reorder(window, seconds), **options)

    def expire(self, **options: Unpack[FaultOptions]) -> Rule:
        """Let messages expire as soon as they lie in a queue."""
        return self.add(on="enqueued", do=Expire(), **options)

    def blackhole(
        self, direction: Direction = "both", *, on: str | None = None, **options: Unpack[FaultOptions]
    ) -> Rule:
        """Let nothing through, heartbeats included: "both" ways, "to_client" or "to_broker"."""
        return self.add(on=on, do=Blackhole(direction), **options)

    def bandwidth(
        self,
        bytes_per_second: int,
        *,
        direction: Direction = "both",
        on: str | None = None,
        **options: Unpack[FaultOptions],
    ) -> Rule:
        """Let so many octets a second through, by the broker's clock."""
        return self.add(on=on, do=Bandwidth(bytes_per_second, direction), **options)

    def slicer(
        self, size: int = 1, *, direction: Direction = "both", on: str | None = None, **options: Unpack[FaultOptions]
    ) -> Rule:
        """Let octets through in pieces of this size."""
        return self.add(on=on, do=Slicer(size, direction), **options)

    def stall(
        self,
        seconds: float | None = None,
        *,
        direction: Direction = "both",
        on: str | None = None,
        **options: Unpack[FaultOptions],
    ) -> Rule:
        """Let nothing through for so long on the broker's clock, or until the rule is removed; then all of it."""
        return self.add(on=on, do=Stall(seconds, direction), **options)

    def corrupt(
        self,
        byte: int = 1,
        *,
        direction: Direction = "to_client",
        on: str | None = None,
        **options: Unpack[FaultOptions],
    ) -> Rule:
        """Turn around the nth octet from here on."""
        return self.add(on=on, do=Corrupt(byte, direction), **options)

    def limit_data(self, bytes: int = 0, *, on: str | None = None, **options: Unpack[FaultOptions]) -> Rule:
        """Reset the connection after so many octets to the client."""
        return self.add(on=on, do=LimitData(bytes), **options)

    def half_close(self, *, on: str | None = None, **options: Unpack[FaultOptions]) -> Rule:
        """End the broker's side of the connection; what the client sends is still heard."""
        return self.add(on=on, do=HalfClose(), **options)

    def restart(self, *, on: str | None = None, at: float | None = None, **options: Unpack[FaultOptions]) -> Rule:
        """Restart the broker: now, on something, or `at` so many seconds from then on the broker's clock."""
        return self.add(on=on, do=Restart(at), **options)

    def unblock(self) -> None:
        """Remove every rule of `block_publishers`: their alarms are cleared."""
        for rule in self.rules:
            if isinstance(rule.fault, BlockPublishers):
                rule.remove()

    @property
    def rules(self) -> list[Rule]:
        """All there have been."""
        raise NotImplementedError
