"""Exchange types and queue arguments of RabbitMQ plugins that leveret does not have. It refuses them by name.

A server without the plugin would refuse such an exchange type too, and would ignore such an argument. A client that
uses one relies on the plugin, so leveret never ignores it silently. `docs/reference/features.md` lists what leveret
has.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from leveret.core.model.errors import NotImplementedByBroker

# Exchange types, each with the plugin that adds it.
EXCHANGE_TYPES: Final[dict[str, str]] = {
    "x-jms-topic": "rabbitmq_jms_topic_exchange",
    "x-lvc": "rabbitmq_lvc_exchange",
    "x-message-deduplication": "rabbitmq_message_deduplication",
    "x-presence": "rabbitmq_presence_exchange",
    "x-rtopic": "rabbitmq_rtopic_exchange",
}
# Queue arguments, each with the plugin that interprets it.
QUEUE_ARGUMENTS: Final[dict[str, str]] = {"x-message-deduplication": "rabbitmq_message_deduplication"}


def refusal(feature: str) -> NotImplementedByBroker:
    """Return the refusal of a feature, described as in "exchange type 'x-jms-topic'"."""
    return NotImplementedByBroker(f"leveret does not have {feature}; its page 'Features of RabbitMQ' lists what it has")


def refuse(kind: str, name: str, plugins: Mapping[str, str]) -> None:
    """Refuse what only one of these plugins has. Raises NotImplementedByBroker."""
    if name in plugins:
        raise refusal(f"{kind} '{name}' (plugin {plugins[name]})")
