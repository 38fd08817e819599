"""Denied features: what a refusal says of one, and the two ways out of it.

RabbitMQ's text tells an operator which parameter to set; a test has no rabbitmq.conf, and is told what it can do.
"""

from __future__ import annotations

import re
from typing import Final

_TEXT: Final = re.compile(r"Feature `(\w+)` is deprecated")
# What to do instead of using a denied feature.
_INSTEAD: Final = {
    "transient_nonexcl_queues": "declare the queue with durable=True (or exclusive=True)",
    "queue_master_locator": "leave the argument x-queue-master-locator out",
    "global_qos": "set a limit for each consumer: basic.qos with global=False",
}


def denied_feature(text: str) -> str | None:
    """The feature that the text of a refusal calls deprecated, if it does."""
    match = _TEXT.search(text)
    return match[1] if match else None


def ways_out(feature: str) -> list[str]:
    """What to do about a denied feature: do without it, or permit it."""
    instead = _INSTEAD.get(feature, "do without it")
    permit = f'permit={{"{feature}"}}'
    return [
        f"RabbitMQ denies {feature} from 4.3 on. Two ways out:",
        f"  {instead}; or",
        f"  permit it: Broker({permit}), @pytest.mark.leveret({permit}), or leveret_permit = {feature} in the ini file",
    ]
