"""What can be wrong with octets: one exception class per way in which RabbitMQ reacts to them.

The wire layer only says what it found. Which close method follows, if any, is decided by whoever feeds it
(RabbitMQ 4.3: 501 for the first two, a socket reset for the third, 541 for the fourth).
"""

from __future__ import annotations


class WireError(Exception):
    """Octets or values that cannot be read or written."""


class Undecodable(WireError):
    """A method's arguments are too short, too long or followed by other octets; `octets` holds them without the id."""

    def __init__(self, octets: bytes) -> None:
        super().__init__(f"cannot decode {octets!r}")
        self.octets = octets


class MalformedUtf8(WireError):
    """A short string that must be UTF-8 is not."""

    def __init__(self) -> None:
        super().__init__("Malformed UTF-8 in shortstr")


class UnknownFieldType(WireError):
    """A field table holds an unknown tag, a value that is not a number, or ends before its values do."""


class UndecodableProperties(WireError):
    """A content header's properties are cut short, followed by other octets, or hold headers that are no table."""


class ShortStringTooLong(WireError):
    """A short string to be sent has more than 255 octets; RabbitMQ crashes here and answers 541."""
