"""Permissions: the right that each method needs, and the texts of refusals."""

from __future__ import annotations

from ..client import Connection
from ..scenario import Run, scenario


def user_with(s: Run, configure: str = "^$", write: str = "^$", read: str = "^$") -> Connection:
    """Connect as a user with these patterns, after declaring queues and exchanges as guest."""
    ch = s.channel()
    for name in ("q", "other"):
        ch.declare(name)
        ch.declare_exchange(f"x {name}", "topic")
    s.operator.add_user("worker", "secret")
    s.operator.set_permissions("worker", s.vhost, configure, write, read)
    return s.connect(user="worker", password="secret")


@scenario
def what_needs_configure(s: Run) -> None:
    connection = user_with(s)
    s.channel(on=connection).declare("new")
    s.channel(on=connection).declare("q")
    s.channel(on=connection).delete("q")
    s.channel(on=connection).delete("missing")
    s.channel(on=connection).declare_exchange("new")
    s.channel(on=connection).declare_exchange("x q", "topic")
    s.channel(on=connection).delete_exchange("x q")


@scenario
def what_needs_write(s: Run) -> None:
    connection = user_with(s, read=".*")
    s.channel(on=connection).bind("q", "x q", "k")
    s.channel(on=connection).unbind("q", "x q", "k")
    s.channel(on=connection).bind_exchange("x q", "x other", "k")
    s.channel(on=connection).unbind_exchange("x q", "x other", "k")
    ch = s.channel(on=connection)
    ch.publish("x q", "k", "1")
    ch.receive()
    ch = s.channel(on=connection)
    ch.publish("", "q", "1")
    ch.receive()


@scenario
def what_needs_read(s: Run) -> None:
    connection = user_with(s, write=".*")
    s.channel(on=connection).bind("q", "x q", "k")
    s.channel(on=connection).unbind("q", "x q", "k")
    s.channel(on=connection).bind_exchange("x q", "x other", "k")
    s.channel(on=connection).consume("q")
    s.channel(on=connection).get("q")
    s.channel(on=connection).purge("q")


@scenario
def a_missing_right_wins_over_a_missing_resource(s: Run) -> None:
    connection = user_with(s)
    s.channel(on=connection).consume("missing")
    s.channel(on=connection).bind("missing", "missing", "k")
    ch = s.channel(on=connection)
    ch.publish("missing", "k", "1")
    ch.receive()


@scenario(versions=("4.3",))
def a_passive_declare_needs_any_right(s: Run) -> None:
    connection = user_with(s, configure="^q$", write="^x q$", read="^other$")
    for queue in ("q", "other", "missing"):
        s.channel(on=connection).passive(queue)
    for exchange in ("x q", "x other"):
        s.channel(on=connection).call("exchange.declare", exchange=exchange, type="topic", passive=True)


@scenario(versions=("3.10",))
def a_passive_declare_needs_no_right(s: Run) -> None:
    connection = user_with(s)
    s.channel(on=connection).passive("q")
    s.channel(on=connection).call("exchange.declare", exchange="x q", type="topic", passive=True)


@scenario
def a_dead_letter_exchange_needs_read_and_write(s: Run) -> None:
    connection = user_with(s, configure=".*")
    dead = {"x-dead-letter-exchange": "x q"}
    s.channel(on=connection).declare("new", arguments=dead)
    s.operator.set_permissions("worker", s.vhost, ".*", "^$", ".*")
    s.channel(on=s.connect(user="worker", password="secret")).declare("new", arguments=dead)
    s.operator.set_permissions("worker", s.vhost, ".*", "x q", "new")
    s.channel(on=s.connect(user="worker", password="secret")).declare("new", arguments=dead)


@scenario
def an_alternate_exchange_needs_read_and_write(s: Run) -> None:
    connection = user_with(s, configure=".*")
    alternate = {"alternate-exchange": "x q"}
    s.channel(on=connection).declare_exchange("new", arguments=alternate)
    s.operator.set_permissions("worker", s.vhost, ".*", "^$", ".*")
    s.channel(on=s.connect(user="worker", password="secret")).declare_exchange("new", arguments=alternate)


@scenario
def patterns_are_searched_not_anchored(s: Run) -> None:
    connection = user_with(s, configure="p.q")
    s.channel(on=connection).declare("xxp.qyy")
    s.channel(on=connection).declare("p-q")
    s.channel(on=connection).declare("pq")


@scenario
def the_default_exchange_is_called_amq_default(s: Run) -> None:
    connection = user_with(s, write="^amq\\.default$")
    ch = s.channel(on=connection)
    ch.publish("", "q", "1")
    ch.sync()
    s.channel().await_count("q", 1)


@scenario
def patterns_see_server_made_names(s: Run) -> None:
    connection = user_with(s, configure="^amq\\.gen.*")
    s.channel(on=connection).declare("", exclusive=True)
    s.channel(on=connection).declare("named", exclusive=True)


@scenario
def topic_permissions_check_every_key(s: Run) -> None:
    connection = user_with(s, ".*", ".*", ".*")
    s.operator.set_topic_permissions("worker", s.vhost, "x q", "^a", "^a")
    for key, headers in (("a.b", {}), ("b.b", {}), ("a.b", {"CC": ["b"]}), ("a.b", {"BCC": ["b"]})):
        ch = s.channel(on=connection)
        ch.publish("x q", key, "1", headers=headers)
        ch.sync()
    s.channel(on=connection).bind("q", "x q", "a.#")
    s.channel(on=connection).bind("q", "x q", "b.#")
    s.channel(on=connection).unbind("q", "x q", "b.#")
    ch = s.channel(on=connection)
    ch.publish("x other", "b", "1")
    ch.sync()


@scenario
def topic_permissions_concern_topic_exchanges_only(s: Run) -> None:
    connection = user_with(s, ".*", ".*", ".*")
    s.operator.set_topic_permissions("worker", s.vhost, "amq.direct", "^a", "^a")
    ch = s.channel(on=connection)
    ch.publish("amq.direct", "b", "1")
    ch.bind("q", "amq.direct", "b")


@scenario
def topic_permissions_expand_the_user_name(s: Run) -> None:
    connection = user_with(s, ".*", ".*", ".*")
    s.operator.set_topic_permissions("worker", s.vhost, "x q", "^{username}\\.{vhost}$", ".*")
    for key in (f"{s.user('worker')}.{s.vhost}", "nobody.x"):
        ch = s.channel(on=connection)
        ch.publish("x q", key, "1")
        ch.sync()


@scenario
def direct_reply_to_needs_no_right_to_consume(s: Run) -> None:
    connection = user_with(s)
    s.channel(on=connection).consume("amq.rabbitmq.reply-to", "c", no_ack=True)


@scenario
def deleting_a_user_closes_its_connections(s: Run) -> None:
    connection = user_with(s)
    connection.answers_close = False
    s.operator.delete_user("worker")

    connection.take(0, "connection.close")


@scenario
def a_user_limit_of_connections(s: Run) -> None:
    s.operator.add_user("limited", "secret")
    s.operator.set_permissions("limited", s.vhost)
    s.operator.set_user_limit("limited", "max-connections", 1)
    s.channel(on=s.connect(user="limited", password="secret")).sync()

    s.connect(user="limited", password="secret")


@scenario
def a_user_limit_of_channels(s: Run) -> None:
    s.operator.add_user("limited", "secret")
    s.operator.set_permissions("limited", s.vhost)
    s.operator.set_user_limit("limited", "max-channels", 1)
    connection = s.connect(user="limited", password="secret")
    s.channel(on=connection).sync()

    s.channel(on=connection)


@scenario
def a_vhost_limit_of_connections(s: Run) -> None:
    s.operator.set_vhost_limit(s.vhost, "max-connections", 0)

    s.connect()


@scenario
def closing_a_connection_with_a_reason(s: Run) -> None:
    s.operator.add_user("worker", "secret")
    s.operator.set_permissions("worker", s.vhost)
    connection = s.connect(user="worker", password="secret")
    s.channel(on=connection).sync()
    s.operator.close_connections("worker", "because I say so")

    connection.take(0, "connection.close")


@scenario
def rights_are_matched_byte_by_byte(s: Run) -> None:
    ch = s.channel()
    for name in ("é", "٣", "7"):
        ch.declare(name)
    s.operator.add_user("worker", "secret")
    for pattern in (r"^.$", r"\d", r"\w$", r"^\Q7\E\z"):
        s.operator.set_permissions("worker", s.vhost, "^$", "^$", pattern)
        connection = s.connect(user="worker", password="secret")
        for name in ("é", "٣", "7"):
            s.channel(on=connection).get(name)


@scenario
def a_user_name_in_a_topic_permission_may_be_a_pattern(s: Run) -> None:
    ch = s.channel()
    ch.declare_exchange("x", "topic")
    s.operator.add_user("a.b", "secret")
    s.operator.set_permissions("a.b", s.vhost, ".*", ".*", ".*")
    s.operator.set_topic_permissions("a.b", s.vhost, "x", "^{username}$", ".*")
    connection = s.connect(user="a.b", password="secret")
    for key in (s.user("a.b"), s.user("a.b").replace(".", "x")):
        ch = s.channel(on=connection)
        ch.publish("x", key, "1")
        ch.sync()
