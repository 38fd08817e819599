"""Virtual hosts, users and permissions, and what clients see of them."""

from __future__ import annotations

import pika
import pytest

from leveret import Broker
from leveret.errors import BrokerError, NotDeclaredError


def open_refusal(broker: Broker, vhost: str, user: str = "guest", password: str = "guest") -> str:
    """Return the error of a refused open; only pika's SelectConnection shows the reply text."""
    told = []
    parameters = pika.URLParameters(broker.url_for(user=user, password=password))
    parameters.virtual_host = vhost

    def on_close(connection: pika.SelectConnection, error: BaseException) -> None:
        told.append(error)
        connection.ioloop.stop()

    connection = pika.SelectConnection(parameters, on_open_error_callback=on_close, on_close_callback=on_close)
    connection.ioloop.start()
    (error,) = told
    return str(error)


def test_a_virtual_host_is_closed_to_users_without_a_permission(broker: Broker, connect) -> None:
    assert "NOT_ALLOWED - vhost stage not found" in open_refusal(broker, "stage")
    broker.admin.add_vhost("stage")
    assert "NOT_ALLOWED - access to vhost 'stage' refused for user 'guest'" in open_refusal(broker, "stage")

    broker.admin.set_permissions("guest", "stage")

    assert connect("stage").channel().queue_declare("orders", durable=True).method.queue == "orders"
    assert broker.admin.list_vhosts() == ["/", "stage"]


def test_a_virtual_host_that_is_deleted_takes_its_connections_along(broker: Broker, connect, reason_of_close) -> None:
    broker.admin.add_vhost("stage")
    broker.admin.set_permissions("guest", "stage")
    connection, other = connect("stage"), connect()

    broker.admin.delete_vhost("stage")

    assert reason_of_close(connection) == "CONNECTION_FORCED - vhost 'stage' is deleted"
    assert "vhost stage not found" in open_refusal(broker, "stage")
    assert other.channel().is_open


def test_the_default_queue_type_holds_for_queues_to_come(broker: Broker, connect) -> None:
    broker.admin.add_vhost("stage", default_queue_type="quorum")
    broker.admin.set_permissions("guest", "stage")
    channel = connect("stage").channel()
    channel.queue_declare("first", durable=True)

    broker.admin.update_vhost_metadata("stage", default_queue_type="classic", description="for staging", tags=["a"])
    channel.queue_declare("second", durable=True)

    assert [queue.type for queue in broker.queues] == ["quorum", "classic"]


def test_a_vhost_limit_of_queues_holds_until_it_is_cleared(broker: Broker, connect) -> None:
    broker.admin.set_vhost_limits("/", {"max-queues": 1})
    connection = connect()
    connection.channel().queue_declare("first", durable=True)
    with pytest.raises(pika.exceptions.ChannelClosedByBroker) as refused:
        connection.channel().queue_declare("second", durable=True)

    broker.admin.clear_vhost_limits("/")

    text = "PRECONDITION_FAILED - cannot declare queue 'second': queue limit in vhost '/' (1) is reached"
    assert refused.value.reply_text == text
    assert connection.channel().queue_declare("second", durable=True).method.queue == "second"


def test_a_vhost_limit_of_connections_counts_those_that_are_open(broker: Broker, connect) -> None:
    broker.admin.set_vhost_limits("/", {"max-connections": 1})
    first = connect()
    text = "NOT_ALLOWED - access to vhost '/' refused for user 'guest': connection limit (1) is reached"
    assert text in open_refusal(broker, "/")

    first.close()

    assert connect().is_open


def test_a_user_limit_of_connections_holds_until_it_is_cleared(broker: Broker, connect) -> None:
    broker.admin.set_user_limits("guest", {"max-connections": 0})
    text = "NOT_ALLOWED - connection refused for user 'guest': user connection limit (0) is reached"
    assert text in open_refusal(broker, "/")

    broker.admin.clear_user_limits("guest", "max-connections")

    assert connect().is_open


def test_a_user_limit_of_channels_counts_all_connections(broker: Broker, connect) -> None:
    broker.admin.set_user_limits("guest", {"max-channels": 2})
    first, second = connect(), connect()
    first.channel()
    second.channel()

    with pytest.raises(pika.exceptions.ConnectionClosedByBroker) as refused:
        second.channel()

    text = "number of channels opened for user 'guest' has reached the maximum allowed user limit of 2"
    assert (refused.value.reply_code, refused.value.reply_text) == (530, f"NOT_ALLOWED - {text}")
    assert first.channel().is_open


def test_passwords_are_changed_and_taken_away(broker: Broker, connect) -> None:
    broker.admin.add_user("shop", "secret", tags=["management"])
    broker.admin.set_permissions("shop")
    open_all_along = connect(user="shop")

    broker.admin.change_password("shop", "other")
    with pytest.raises(pika.exceptions.ProbableAuthenticationError):
        connect(user="shop", password="secret")
    assert connect(user="shop", password="other").is_open
    broker.admin.clear_password("shop")
    with pytest.raises(pika.exceptions.ProbableAuthenticationError):
        connect(user="shop", password="other")

    assert open_all_along.channel().is_open
    assert broker.admin.list_users() == {"guest": ("administrator",), "shop": ("management",)}


def test_an_impersonator_may_publish_for_others(broker: Broker, connect) -> None:
    broker.declare_queue("orders")
    connection = connect()
    properties = pika.BasicProperties(user_id="somebody")
    refused = connection.channel()
    refused.basic_publish("", "orders", b"x", properties)
    with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="authenticated user was 'guest'"):
        refused.queue_declare("orders", passive=True)

    broker.admin.set_user_tags("guest", "administrator", "impersonator")
    channel = connection.channel()
    for _ in range(3):
        channel.basic_publish("", "orders", b"x", properties)
    assert len(broker.queue("orders").ready) == 3

    broker.admin.set_user_tags("guest", "administrator")
    channel.basic_publish("", "orders", b"x", properties)
    with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="authenticated user was 'guest'"):
        channel.queue_declare("orders", passive=True)


def test_a_permission_that_is_taken_away_stops_a_publisher_in_full_swing(broker: Broker, connect) -> None:
    broker.declare_queue("orders")
    channel = connect().channel()
    for _ in range(3):
        channel.basic_publish("", "orders", b"x")
    assert len(broker.queue("orders").ready) == 3

    broker.admin.set_permissions("guest", write="^$")
    channel.basic_publish("", "orders", b"x")

    with pytest.raises(pika.exceptions.ChannelClosedByBroker, match=r"write access to exchange .amq\.default."):
        channel.queue_declare("orders", passive=True)


def test_topic_permissions_narrow_until_they_are_cleared(broker: Broker, connect) -> None:
    broker.declare_queue("orders")
    broker.bind_queue("orders", "amq.topic", "#")
    broker.admin.set_topic_permissions("guest", "/", "amq.topic", write="^order", read=".*")
    connection = connect()
    refused = connection.channel()
    refused.basic_publish("amq.topic", "invoice.sent", b"x")
    with pytest.raises(pika.exceptions.ChannelClosedByBroker, match=r"write access to topic .invoice\.sent."):
        refused.queue_declare("orders", passive=True)

    broker.admin.clear_topic_permissions("guest")
    connection.channel().basic_publish("amq.topic", "invoice.sent", b"x")

    assert len(broker.queue("orders").ready) == 1


@pytest.mark.parametrize(
    ("mistake", "text"),
    [
        (lambda broker: broker.admin.delete_vhost("stag"), "virtual host 'stag' does not exist; did you mean 'stage'"),
        (
            lambda broker: broker.admin.add_vhost("x", default_queue_type="quorom"),
            "unknown queue type 'quorom'; did you mean",
        ),
        (lambda broker: broker.admin.set_user_tags("gest", "x"), "unknown user 'gest'; did you mean 'guest'"),
        (lambda broker: broker.admin.set_user_limits("guest", {"max-chanels": 1}), "did you mean 'max-channels'"),
        (lambda broker: broker.admin.set_vhost_limits("/", {"max-queues": "1"}), "limit max-queues must be an integer"),
        (lambda broker: broker.admin.set_permissions("guest", write="("), r"write='\(' is not a regular expression"),
        (lambda broker: broker.admin.set_permissions("guest", write="a" * 1025), "write='a+'... is too long; RabbitMQ"),
        (lambda broker: broker.admin.clear_user_limits("guest", "max"), "unknown limit 'max'"),
    ],
)
def test_a_mistake_is_refused_with_a_suggestion(broker: Broker, mistake, text: str) -> None:
    broker.admin.add_vhost("stage")

    with pytest.raises((BrokerError, NotDeclaredError), match=text):
        mistake(broker)
