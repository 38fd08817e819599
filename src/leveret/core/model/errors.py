"""What a client may not do: one exception class per reply code of AMQP 0-9-1, raised where the rule is known.

A soft error ends the channel, a hard one the connection (AMQP 0-9-1 1.1, RabbitMQ's table of reply codes). The
explanation is the text RabbitMQ sends after the code's name; it is copied from what RabbitMQ 4.3 was seen to send.
Refusals that only frames and the conversation can cause stand in `leveret.core.protocol.refusals`.
"""

from __future__ import annotations

from typing import ClassVar, Self


class AmqpError(Exception):
    """A refusal the client is told about: `code`, `name` and an explanation."""

    code: ClassVar[int]
    name: ClassVar[str]
    is_hard: ClassVar[bool] = False

    def __init__(self, explanation: str = "") -> None:
        super().__init__(explanation)
        self.explanation = explanation
        # The method a close names (class and method id in one number), when it is not the one being handled; 0 is none.
        self.method_id: int | None = None

    def at(self, method_id: int) -> Self:
        """The same refusal, naming another method than the one being handled."""
        self.method_id = method_id
        return self

    @property
    def reply_text(self) -> str:
        """The text on the wire: the bare name where RabbitMQ explains nothing, cut to 255 characters as it does."""
        text = self.whole_text
        return text if len(text) <= 255 else text[:252] + "..."

    @property
    def whole_text(self) -> str:
        """The text before it is cut."""
        return f"{self.name} - {self.explanation}" if self.explanation else self.name


class AccessRefused(AmqpError):
    """403."""

    code, name = 403, "ACCESS_REFUSED"


class NotFound(AmqpError):
    """404."""

    code, name = 404, "NOT_FOUND"


class ResourceLocked(AmqpError):
    """405."""

    code, name = 405, "RESOURCE_LOCKED"


class PreconditionFailed(AmqpError):
    """406."""

    code, name = 406, "PRECONDITION_FAILED"


class HardError(AmqpError):
    """Ends the connection."""

    is_hard = True


class ConnectionForced(HardError):
    """320."""

    code, name = 320, "CONNECTION_FORCED"


class CommandInvalid(HardError):
    """503."""

    code, name = 503, "COMMAND_INVALID"


class NotAllowed(HardError):
    """530."""

    code, name = 530, "NOT_ALLOWED"


class NotImplementedByBroker(HardError):
    """540."""

    code, name = 540, "NOT_IMPLEMENTED"


class InternalRefusal(HardError):
    """541 that RabbitMQ itself sends: denied features, and its own crashes on odd input. Not an error of ours."""

    code, name = 541, "INTERNAL_ERROR"

    def __init__(self, explanation: str = "") -> None:
        super().__init__(explanation)
        # A crash is explained by nothing and names no method.
        self.method_id = None if explanation else 0
