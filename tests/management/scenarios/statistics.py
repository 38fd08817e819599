"""Counts of messages, as clients publish, take and settle them."""

from __future__ import annotations

from ..scenario import Run, scenario


def _traffic(s: Run) -> None:
    channel = s.amqp.channel()
    channel.declare("q")
    channel.declare_exchange("x", "fanout")
    channel.bind("q", "x")
    for body in ("a", "b", "c", "d", "e", "f"):
        channel.publish("x", "", body)
    channel.await_count("q", 6)
    channel.ack(channel.get("q"))
    channel.get("q", no_ack=True)
    channel.reject(channel.get("q"), requeue=True)
    channel.get("q")
    channel.qos(2)
    channel.consume("q", consumer_tag="c")
    for event in channel.deliveries(2):
        channel.ack(event)
    channel.cancel("c")
    channel.sync()


_QUEUE = {"message_stats": {"publish": 6, "get": 3, "get_no_ack": 1}}


@scenario
def of_a_queue(s: Run) -> None:
    _traffic(s)
    s.get(
        f"/queues/{s.v}/q?columns=message_stats",
        until={"message_stats": {"publish": 6, "get": 3, "get_no_ack": 1, "ack": 3}},
    )
    s.get(f"/queues/{s.v}?columns=name,message_stats")


@scenario
def of_an_exchange(s: Run) -> None:
    _traffic(s)
    s.get(f"/exchanges/{s.v}/x", until={"message_stats": {"publish_in": 6, "publish_out": 6}})
    s.get(f"/exchanges/{s.v}?columns=name,message_stats")


@scenario
def of_a_virtual_host(s: Run) -> None:
    _traffic(s)
    s.get(f"/vhosts/{s.v}", until={"message_stats": {"publish": 6, "ack": 3}, "messages": lambda it: it is not None})


@scenario
def of_a_channel(s: Run) -> None:
    _traffic(s)
    s.get(f"/vhosts/{s.v}/channels?columns=message_stats", until={"message_stats": {"publish": 6, "ack": 3}})


@scenario
def of_messages_without_a_queue(s: Run) -> None:
    channel = s.amqp.channel()
    channel.confirm_select()
    channel.publish("amq.fanout", "", "lost")
    channel.confirms()
    channel.publish("amq.fanout", "", "returned", mandatory=True)
    channel.receive("basic.return")
    channel.confirms()
    wanted = {"publish": 2, "confirm": 2, "return_unroutable": 1, "drop_unroutable": 1}
    s.get(f"/vhosts/{s.v}/channels?columns=message_stats", until={"message_stats": wanted})


@scenario
def of_an_empty_queue(s: Run) -> None:
    s.put(f"/queues/{s.v}/q", {"durable": True})
    s.get(f"/queues/{s.v}/q?columns=name,messages,message_stats", until={"messages": 0})
    s.get(f"/exchanges/{s.v}/amq.direct?columns=name,message_stats")


@scenario
def lengths_and_rates_over_time(s: Run) -> None:
    s.put(f"/queues/{s.v}/q", {"durable": True})
    s.get(f"/queues/{s.v}/q", hidden=True, until={"messages_details": lambda it: it is not None})
    s.get(f"/queues/{s.v}/q?lengths_age=60&lengths_incr=5&columns=messages,messages_details.rate")
    s.get(f"/queues/{s.v}/q?msg_rates_age=60&msg_rates_incr=5&columns=messages_details.rate")
