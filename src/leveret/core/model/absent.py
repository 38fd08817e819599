"""What RabbitMQ has, or plugins give it, and leveret has not: refused by name, never taken in silence.

A server without the plugin would refuse such an exchange type too, and would ignore such an argument; whoever names one
has the plugin and counts on it. `python -m leveret features` lists what there is and what there is not.
"""

from __future__ import annotations

from typing import Final

from leveret.core.model.errors import NotImplementedByBroker

# Exchange types by the plugin they come with.
EXCHANGE_TYPES: Final[dict[str, str]] = {
    "x-jms-topic": "rabbitmq_jms_topic_exchange",
    "x-lvc": "rabbitmq_lvc_exchange",
    "x-message-deduplication": "rabbitmq_message_deduplication",
    "x-presence": "rabbitmq_presence_exchange",
    "x-rtopic": "rabbitmq_rtopic_exchange",
}
# Arguments of queues by the plugin that gives them a meaning.
QUEUE_ARGUMENTS: Final[dict[str, str]] = {"x-message-deduplication": "rabbitmq_message_deduplication"}


def refusal(feature: str) -> NotImplementedByBroker:
    """The refusal of a feature, which it names as in "exchange type 'x-jms-topic'"."""
    return NotImplementedByBroker(f"leveret does not have {feature}; python -m leveret features lists what it has")


def refuse_exchange_type(name: str) -> None:
    """Refuse a type of a plugin that leveret does not have; raises NotImplementedByBroker."""
    if name in EXCHANGE_TYPES:
        raise refusal(f"exchange type '{name}' (plugin {EXCHANGE_TYPES[name]})")


def refuse_queue_argument(name: str) -> None:
    """Refuse an argument of a plugin that leveret does not have; raises NotImplementedByBroker."""
    if name in QUEUE_ARGUMENTS:
        raise refusal(f"queue argument '{name}' (plugin {QUEUE_ARGUMENTS[name]})")
