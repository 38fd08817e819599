"""Connections, channels and consumers of clients."""

from __future__ import annotations

from urllib.parse import quote

from tests.semantics.codec import Field

from ..scenario import Run, scenario

_PROPERTIES = {"connection_name": "shop", "product": "till", "version": "1.0", "information": "about"}


def _name(s: Run) -> str:
    """Return the name of the only connection of the virtual host, as a segment of a path."""
    found = s.get(f"/vhosts/{s.v}/connections", hidden=True, until=lambda it: bool(it) and "channels" in it[0])
    assert isinstance(found, list)
    return quote(found[0]["name"], safe="")


@scenario
def a_connection(s: Run) -> None:
    s.amqp.connect(client_properties=_PROPERTIES)
    name = _name(s)
    s.get(
        f"/connections/{name}", until={"state": "running", "channels": 0, "recv_oct_details": lambda it: it is not None}
    )
    s.get(f"/vhosts/{s.v}/connections")
    s.get("/connections", mine=True)
    s.get(f"/connections/{name}/channels")
    s.get("/connections/username/guest", mine=True)
    s.get(f"/connections/{name}?columns=name,user_provided_name")
    s.get("/connections/nothing")
    s.get("/connections/username/nothing")


@scenario
def closing_one(s: Run) -> None:
    connection = s.amqp.connect()
    name = _name(s)
    s.delete(f"/connections/{name}")
    connection.wait_end(20)
    s.get(f"/connections/{name}", hidden=True, until=lambda it: "error" in it)
    s.delete(f"/connections/{name}")
    s.delete("/connections/nothing")
    s.answers.append([line for lines in s.amqp.lines.values() for line in lines])


@scenario
def closing_one_with_a_reason(s: Run) -> None:
    connection = s.amqp.connect()
    s.delete(f"/connections/{_name(s)}", headers={"X-Reason": "because"})
    connection.wait_end(20)
    s.answers.append([line for lines in s.amqp.lines.values() for line in lines])


@scenario
def closing_those_of_a_user(s: Run) -> None:
    name = s.add_user("alice", "management")
    connection = s.amqp.connect(user="alice", password="pw")
    s.get(f"/connections/username/{name}", hidden=True, until=lambda it: bool(it))
    s.delete(f"/connections/username/{name}", headers={"X-Reason": "go away"})
    connection.wait_end(20)
    s.delete(f"/connections/username/{name}")
    s.answers.append([line for lines in s.amqp.lines.values() for line in lines])


@scenario
def a_management_user_sees_and_closes_only_its_own(s: Run) -> None:
    s.add_user("alice", "management")
    s.add_user("bob", "management")
    s.amqp.connect(user="alice", password="pw")
    name = _name(s)
    s.get("/connections?columns=user,vhost", user="alice")
    s.get("/connections?columns=user,vhost", user="bob")
    s.get(f"/vhosts/{s.v}/connections?columns=user", user="bob")
    s.get(f"/connections/{name}?columns=user", user="bob")
    s.get(f"/connections/{name}/channels", user="bob")
    s.delete(f"/connections/{name}", user="bob")
    s.get("/channels", user="bob")
    s.delete(f"/connections/{name}", user="alice")


@scenario
def a_channel(s: Run) -> None:
    channel = s.amqp.channel()
    channel.qos(5)
    name = _name(s)
    path = f"/channels/{name}%20(1)"
    s.get(path, until={"prefetch_count": 5})
    s.get(f"/connections/{name}/channels")
    s.get(f"/vhosts/{s.v}/channels")
    s.get("/channels", mine=True)
    s.get("/channels/nothing")
    s.get("/vhosts/nothing/channels")


@scenario
def a_busy_channel(s: Run) -> None:
    channel = s.amqp.channel()
    channel.declare("q")
    channel.fill("q", "a", "b", "c")
    channel.confirm_select()
    channel.qos(2)
    channel.consume("q", consumer_tag="c")
    channel.deliveries(2)
    path = f"/channels/{_name(s)}%20(1)"
    s.get(
        path,
        until={"messages_unacknowledged": 2, "consumer_count": 1, "confirm": True, "message_stats": {"deliver": 2}},
    )


@scenario
def a_transactional_channel(s: Run) -> None:
    channel = s.amqp.channel()
    channel.declare("q")
    channel.tx_select()
    channel.publish("", "q", "a")
    channel.sync()
    path = f"/channels/{_name(s)}%20(1)"
    # leveret counts a publish when it arrives, a server when it is committed.
    s.get(path, until={"transactional": True, "messages_uncommitted": 1}, without=("message_stats",))


@scenario
def consumers(s: Run) -> None:
    channel = s.amqp.channel()
    channel.declare("q")
    channel.qos(3)
    channel.consume("q", consumer_tag="one")
    channel.consume("q", consumer_tag="two", no_ack=True, arguments={"x-priority": Field("I", 5)})
    s.get(f"/consumers/{s.v}", until=lambda it: len(it) == 2, without=("consumer_timeout",), unordered=True)
    s.get("/consumers", mine=True, without=("consumer_timeout",), unordered=True)
    s.get("/consumers/nothing")


@scenario
def waiting_consumers(s: Run) -> None:
    channel = s.amqp.channel()
    channel.declare("q", arguments={"x-single-active-consumer": Field("t", True)})
    channel.consume("q", consumer_tag="one")
    channel.consume("q", consumer_tag="two")
    s.get(
        f"/consumers/{s.v}?columns=consumer_tag,active,activity_status,exclusive",
        until=lambda it: len(it) == 2,
        unordered=True,
    )


@scenario
def the_counts_of_a_connection(s: Run) -> None:
    s.amqp.channel()
    s.amqp.channel()
    s.get(
        f"/vhosts/{s.v}/connections?columns=channels,state,channel_max,frame_max,timeout,auth_mechanism,protocol,type,ssl,user",
        until={"channels": 2},
    )
