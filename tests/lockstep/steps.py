"""The steps that a program consists of, each one act of a client on one channel.

A step is an AMQP method with its fields, or another act: ``elapse``, ``connection.drop``, ``policy.set`` and
``policy.clear``; ``segment``, which sends several methods at once; or ``closing``, which sends a method that the server
refuses by closing the channel, and then more methods and frames before the client agrees. A step refers to a delivery
by its place among those outstanding on the channel, so a program still makes sense if steps are removed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Step:
    """One act on a channel of a connection; both are opened if necessary."""

    op: str
    connection: int = 1
    channel: int = 1
    fields: dict[str, object] = field(default_factory=dict)

    @property
    def parts(self) -> tuple[Step, ...]:
        """The steps of a segment or of a closing channel, or the step itself."""
        if self.op not in ("segment", "closing"):
            return (self,)
        steps = self.fields["steps"]
        assert isinstance(steps, (list, tuple))
        return tuple(Step(op, self.connection, self.channel, fields) for op, fields in steps)

    def __str__(self) -> str:
        given = ", ".join(f"{name}={value!r}" for name, value in self.fields.items())
        return f'({self.connection}, {self.channel}, "{self.op}"{", " if given else ""}{given})'

    def to_json(self) -> list[object]:
        """Return the step in the form that JSON keeps."""
        return [self.op, self.connection, self.channel, self.fields]

    @classmethod
    def from_json(cls, parts: list[object]) -> Step:
        """Return the step that ``to_json`` wrote."""
        op, connection, channel, fields = parts
        assert isinstance(op, str)
        assert isinstance(connection, int)
        assert isinstance(channel, int)
        assert isinstance(fields, dict)
        return cls(op, connection, channel, fields)


Program = tuple[Step, ...]


def text(program: Iterable[Step]) -> str:
    """Return the program as lines to read and to copy."""
    return "\n".join(f"    step{step}," for step in program)
