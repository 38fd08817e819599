"""The refusals: one exception class per reply code of AMQP 0-9-1, raised by the code that knows the rule.

A soft error closes the channel, a hard error closes the connection (AMQP 0-9-1 1.1, RabbitMQ's table of reply codes).
The explanation is the text that RabbitMQ sends after the code's name, copied from RabbitMQ 4.3. Refusals that only
frames and the conversation can cause are in `leveret.core.protocol.refusals`.
"""

from __future__ import annotations

from typing import ClassVar, Self


class AmqpError(Exception):
    """A refusal that is sent to the client: `code`, `name` and an explanation."""

    code: ClassVar[int]
    name: ClassVar[str]
    is_hard: ClassVar[bool] = False

    def __init__(self, explanation: str = "") -> None:
        super().__init__(explanation)
        self.explanation = explanation
        # The method that the close names, as one number of class and method id. None means the method being handled,
        # and 0 means no method.
        self.method_id: int | None = None
        # What the test should know and RabbitMQ's text leaves out.
        self.cause: str | None = None
        # What was wrong, for code that must not read RabbitMQ's text: a word as `problem`, and the names it is about.
        self.subject: dict[str, str] | None = None
        # RabbitMQ returns the error instead of throwing it, so an import of definitions goes on without the object.
        self.is_returned = False

    def at(self, method_id: int) -> Self:
        """Name this method in the close instead of the one being handled; return the error itself."""
        self.method_id = method_id
        return self

    def because(self, cause: str) -> Self:
        """Add what the text leaves out, for the trace only; return the error itself."""
        self.cause = cause
        return self

    def returned(self) -> Self:
        """Say that an import of definitions leaves the object out; return the error itself."""
        self.is_returned = True
        return self

    def about(self, problem: str, **names: str) -> Self:
        """Say what was wrong and with what, for the trace only; return the error itself."""
        self.subject = {"problem": problem, **names}
        return self

    @property
    def reply_text(self) -> str:
        """The text on the wire: only the name if RabbitMQ gives no explanation, cut to 255 characters."""
        text = self.whole_text
        return text if len(text) <= 255 else text[:252] + "..."

    @property
    def whole_text(self) -> str:
        """The text before it is cut."""
        return f"{self.name} - {self.explanation}" if self.explanation else self.name


class AccessRefused(AmqpError):
    """403 ACCESS_REFUSED, which closes the channel."""

    code, name = 403, "ACCESS_REFUSED"


class NotFound(AmqpError):
    """404 NOT_FOUND, which closes the channel."""

    code, name = 404, "NOT_FOUND"


class ResourceLocked(AmqpError):
    """405 RESOURCE_LOCKED, which closes the channel."""

    code, name = 405, "RESOURCE_LOCKED"


class PreconditionFailed(AmqpError):
    """406 PRECONDITION_FAILED, which closes the channel."""

    code, name = 406, "PRECONDITION_FAILED"


class HardError(AmqpError):
    """An error that closes the connection."""

    is_hard = True


class ConnectionForced(HardError):
    """320 CONNECTION_FORCED, which closes the connection."""

    code, name = 320, "CONNECTION_FORCED"


class Shutdown(ConnectionForced):
    """The end of all connections when the broker stops or restarts."""

    def __init__(self, suffix: str = "") -> None:
        super().__init__(f"broker forced connection closure with reason 'shutdown'{suffix}")


class CommandInvalid(HardError):
    """503 COMMAND_INVALID, which closes the connection."""

    code, name = 503, "COMMAND_INVALID"


class NotAllowed(HardError):
    """530 NOT_ALLOWED, which closes the connection."""

    code, name = 530, "NOT_ALLOWED"


class NotImplementedByBroker(HardError):
    """540 NOT_IMPLEMENTED, which closes the connection."""

    code, name = 540, "NOT_IMPLEMENTED"


class InternalRefusal(HardError):
    """541 INTERNAL_ERROR, which closes the connection.

    RabbitMQ sends it for denied features and for its own crashes on odd input. It is not a bug of leveret.
    """

    code, name = 541, "INTERNAL_ERROR"

    def __init__(self, explanation: str = "") -> None:
        super().__init__(explanation)
        # A crash has no explanation, and its close names no method.
        self.method_id = None if explanation else 0
