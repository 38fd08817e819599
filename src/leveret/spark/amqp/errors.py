"""What a job is told when it cannot read from or write to its broker."""

from __future__ import annotations


class OptionError(ValueError):
    """An option is missing, unknown, or says something that cannot be; the text names it and what it may be."""


class LinkError(RuntimeError):
    """The broker refuses what was asked of it (a login, a queue): asking again would not help."""


class LinkLostError(LinkError):
    """The connection is gone or could not be made; what was unacknowledged on it is back in its queue."""


class PublishError(RuntimeError):
    """The broker did not take responsibility for messages: returned, nacked or not confirmed in time."""
