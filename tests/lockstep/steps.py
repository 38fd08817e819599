"""This module is what a program is made of: steps, each one thing a client does on one channel.

A step is an AMQP method with its fields, or one of two other acts (``elapse``, ``connection.drop``). Deliveries are
meant by their place among those outstanding on the channel, so that a program makes sense when steps are taken out.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Step:
    """One act on a channel of a connection; both are opened when they are not."""

    op: str
    connection: int = 1
    channel: int = 1
    fields: dict[str, object] = field(default_factory=dict)

    def __str__(self) -> str:
        given = ", ".join(f"{name}={value!r}" for name, value in self.fields.items())
        return f'({self.connection}, {self.channel}, "{self.op}"{", " if given else ""}{given})'

    def to_json(self) -> list[object]:
        """The step as JSON keeps it."""
        return [self.op, self.connection, self.channel, self.fields]

    @classmethod
    def from_json(cls, parts: list[object]) -> Step:
        """The step that ``to_json`` wrote."""
        op, connection, channel, fields = parts
        assert isinstance(op, str)
        assert isinstance(connection, int)
        assert isinstance(channel, int)
        assert isinstance(fields, dict)
        return cls(op, connection, channel, fields)


Program = tuple[Step, ...]


def text(program: Iterable[Step]) -> str:
    """The program as lines to read and to copy."""
    return "\n".join(f"    step{step}," for step in program)
