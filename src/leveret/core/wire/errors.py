"""Errors in octets: one exception class for each way in which RabbitMQ reacts.

The wire layer only reports what it found. The caller decides which close method follows, if any. RabbitMQ 4.3 answers
501 to the first two, resets the socket for the third, and answers 541 to the fourth.
"""

from __future__ import annotations


class WireError(Exception):
    """Octets or values that cannot be read or written."""


class Undecodable(WireError):
    """A method with arguments that are too short or too long; `octets` holds them without the id."""

    def __init__(self, octets: bytes) -> None:
        super().__init__(f"cannot decode {octets!r}")
        self.octets = octets


class MalformedUtf8(WireError):
    """A short string that must be UTF-8 and is not."""


class UnknownFieldType(WireError):
    """A field table that holds an unknown tag or a value that is not a number, or that ends before its values do."""


class UndecodableProperties(WireError):
    """Properties that are cut short, followed by other octets, or hold headers that are no table."""


class ShortStringTooLong(WireError):
    """A short string to be sent that has more than 255 octets. RabbitMQ crashes here and answers 541."""
