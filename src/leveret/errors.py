"""What a broker raises at the line of a test that asked for something it cannot have.

What a client does wrong is answered on the wire, as RabbitMQ does; these are for the test's own calls.
"""

from __future__ import annotations

from leveret.model.errors import AmqpError
from leveret.observe.denied import denied_feature, ways_out


class BrokerError(RuntimeError):
    """This call cannot be done."""


class Refused(BrokerError):
    """RabbitMQ would have refused it; `code` and the text are what it would have said.

    For a denied feature a note says what to do about it.
    """

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code

    @classmethod
    def of(cls, error: AmqpError) -> Refused:
        """The refusal a client would have been sent."""
        refused = cls(error.code, error.reply_text)
        feature = denied_feature(error.reply_text)
        if feature is not None:
            refused.add_note("\n".join(ways_out(feature)))
        return refused


class WaitedTooLong(TimeoutError):
    """What a `wait_` call waited for did not happen in time; the text shows the state of the broker."""


class EndlessTime(BrokerError):
    """Time was moved from deadline to deadline, and there was always another one; the text names the loop."""


# Known by the name they are imported by: it is what a summary line of a failing test shows.
for _public in (BrokerError, Refused, WaitedTooLong, EndlessTime):
    _public.__module__ = "leveret"
