"""Books parcels, with kombu's ConsumerMixin. Parcels that are too heavy, and messages that are none, are set aside."""

from __future__ import annotations

from kombu import Connection, Exchange, Queue
from kombu.mixins import ConsumerProducerMixin

SHOP = Exchange("shop", type="topic", durable=True)
FAILED = Queue("shipping.failed", durable=True)
PACKED = Queue(
    "shipping.packed",
    SHOP,
    routing_key="order.packed",
    durable=True,
    queue_arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "shipping.failed"},
)
HEAVIEST = 31_500


class Invalid(Exception):
    """A message that is no parcel."""


class Shipping(ConsumerProducerMixin):
    """The service: `run` consumes until `should_stop` is set."""

    def __init__(self, url: str) -> None:
        self.connection = Connection(url)
        self.labels: dict[str, str] = {}

    def get_consumers(self, consumer, channel):
        """Consume parcels one at a time."""
        FAILED(channel).declare()
        return [consumer([PACKED], callbacks=[self.on_packed], accept=["json"], prefetch_count=1)]

    def on_packed(self, parcel, message) -> None:
        """Book one parcel."""
        try:
            booking = self.book(parcel)
        except (Invalid, LookupError, TypeError, AttributeError):
            message.reject()
            return
        self.producer.publish(booking, exchange=SHOP, routing_key="parcel.booked", serializer="json", declare=[SHOP])
        message.ack()

    def book(self, parcel: dict) -> dict:
        """Return the booking of a parcel."""
        grams = sum(item["grams"] * item.get("count", 1) for item in parcel["items"])
        if grams > HEAVIEST:
            raise Invalid("too heavy")
        address = parcel["address"]
        label = "\n".join([address["name"], address["street"], f"{address['zip']} {address['city']}"])
        if address.get("company"):
            label = f"{address['company']}\n{label}"
        self.labels[parcel["parcel_id"]] = label
        service = "express" if parcel.get("express") is True else "standard"
        return {"parcel_id": parcel["parcel_id"], "service": service, "grams": grams}
