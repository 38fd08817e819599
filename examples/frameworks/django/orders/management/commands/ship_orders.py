"""The worker: `python manage.py ship_orders`."""

from __future__ import annotations

import json
from typing import Any

from django.core.management.base import BaseCommand, CommandParser
from django.db import transaction

from orders import messages
from orders.carrier import CarrierError, carrier
from orders.models import Order

IDLE_AFTER_S = 0.1


class Command(BaseCommand):
    """Ship orders, one after the other."""

    help = "Ship orders, one after the other."

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the options of the command."""
        parser.add_argument("--stop-when-idle", action="store_true", help="end when no order is left")

    def handle(self, *arguments: Any, stop_when_idle: bool, **options: Any) -> None:
        """Consume orders until the command is interrupted, or until none is left."""
        with messages.connect() as connection:
            channel = connection.channel()
            messages.declare_queues(channel)
            channel.confirm_delivery()
            channel.basic_qos(prefetch_count=1)
            timeout = IDLE_AFTER_S if stop_when_idle else None
            for method, properties, body in channel.consume("orders", inactivity_timeout=timeout):
                if method is None:
                    break
                try:
                    ship(json.loads(body)["number"])
                except CarrierError:
                    channel.basic_publish("", "orders.retry", body, properties)
                except (ValueError, KeyError, TypeError, Order.DoesNotExist):
                    channel.basic_reject(method.delivery_tag, requeue=False)
                    continue
                channel.basic_ack(method.delivery_tag)


@transaction.atomic
def ship(number: int) -> None:
    """Ship an order and note it; an order that was shipped already stays as it is."""
    order = Order.objects.get(number=number)
    if not order.is_shipped:
        carrier.collect(number)
        order.is_shipped = True
        order.save()
