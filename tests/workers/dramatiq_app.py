"""A dramatiq application of a user."""

from __future__ import annotations

import os

import dramatiq
from dramatiq.brokers.rabbitmq import RabbitmqBroker

dramatiq.set_broker(RabbitmqBroker(url=os.environ["AMQP_URL"]))


@dramatiq.actor(queue_name="mails")
def mail(address):
    print(f"mailed {address}", flush=True)
