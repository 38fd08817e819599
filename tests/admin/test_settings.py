"""The lines of rabbitmq.conf that a broker accepts as `settings`."""

from __future__ import annotations

import socket

import pika
import pytest

from leveret import Broker
from leveret.errors import BrokerError


def test_the_broker_offers_clients_the_configured_limits() -> None:
    with Broker(settings={"heartbeat": 7, "channel_max": 3}) as broker:
        connection = pika.BlockingConnection(pika.URLParameters(broker.url))

        assert connection._impl.params.channel_max <= 3
        connection.close()


def test_infinity_is_no_limit() -> None:
    with Broker(settings={"connection_max": "infinity"}) as broker:
        pika.BlockingConnection(pika.URLParameters(broker.url)).close()


def test_a_denied_feature_is_denied_where_the_version_permits_it() -> None:
    denied = {"deprecated_features.permit.transient_nonexcl_queues": False}
    with Broker(rabbitmq="4.0", settings=denied, checks="unseen_channel_error=off") as broker:
        channel = pika.BlockingConnection(pika.URLParameters(broker.url)).channel()

        with pytest.raises(pika.exceptions.ConnectionClosed, match="not permitted per the configuration"):
            channel.queue_declare("q")


def test_a_permitted_feature_is_permitted_where_the_version_denies_it() -> None:
    with Broker(settings={"deprecated_features.permit.transient_nonexcl_queues": True}) as broker:
        connection = pika.BlockingConnection(pika.URLParameters(broker.url))

        connection.channel().queue_declare("q")
        connection.close()


def test_settings_outlive_a_restart() -> None:
    with Broker(settings={"max_message_size": 10}) as broker:
        broker.restart()
        broker.declare_queue("q")
        channel = pika.BlockingConnection(pika.URLParameters(broker.url)).channel()
        channel.confirm_delivery()

        with pytest.raises(pika.exceptions.ChannelClosed, match="larger than configured max size 10"):
            channel.basic_publish("", "q", b"x" * 11)


def own_address() -> str:
    """Return an address of this machine that is no loopback address, or skip the test."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            # Connecting a datagram socket sends nothing. It only chooses the interface.
            probe.connect(("192.0.2.1", 9))
        except OSError:
            pytest.skip("this machine has no network interface but loopback")
        return str(probe.getsockname()[0])


def test_guest_may_not_log_in_from_another_machine() -> None:
    with Broker(host="0.0.0.0") as broker:
        far = pika.ConnectionParameters(own_address(), broker.port)

        with pytest.raises(pika.exceptions.ProbableAuthenticationError, match="Login was refused"):
            pika.BlockingConnection(far)


@pytest.mark.parametrize("settings", [{"loopback_users": "none"}, {"loopback_users.guest": False}])
def test_guest_may_log_in_from_another_machine_when_the_settings_say_so(settings: dict[str, object]) -> None:
    with Broker(host="0.0.0.0", settings=settings) as broker:
        pika.BlockingConnection(pika.ConnectionParameters(own_address(), broker.port)).close()


def test_a_user_may_be_kept_to_this_machine() -> None:
    users, settings = {"shop": "secret"}, {"loopback_users.shop": True}
    with Broker(host="0.0.0.0", users=users, settings=settings) as broker:
        login = pika.PlainCredentials("shop", "secret")

        with pytest.raises(pika.exceptions.ProbableAuthenticationError, match="Login was refused"):
            pika.BlockingConnection(pika.ConnectionParameters(own_address(), broker.port, credentials=login))
        pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", broker.port, credentials=login)).close()
        pika.BlockingConnection(pika.ConnectionParameters(own_address(), broker.port)).close()


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"chanel_max": 3}, "unknown setting 'chanel_max'; did you mean 'channel_max'"),
        (
            {"loopback_users": "guest"},
            "loopback_users must be \"none\", not 'guest'; name a user with loopback_users.NAME",
        ),
        ({"loopback_users.guest": "no"}, "loopback_users.guest must be True or False, not 'no'"),
        (
            {"auth_mechanisms.1": "EXTRENAL"},
            "auth_mechanisms.1 must be one of PLAIN, AMQPLAIN, ANONYMOUS, EXTERNAL, not",
        ),
        ({"auth_mechanisms": "PLAIN"}, "auth_mechanisms is a list; write a line for each, as in auth_mechanisms.1"),
        ({"ssl_cert_login_from": "cn"}, "ssl_cert_login_from must be one of distinguished_name, common_name, not 'cn'"),
        ({"log.file": True}, "unknown setting 'log.file'"),
        ({"channel_max": "many"}, "channel_max must be a whole number of at least 0, not 'many'"),
        ({"frame_max": 100}, "frame_max must be a whole number of at least 8192, not 100"),
        (
            {"message_interceptors.incoming.set_header_timestamp.overwrite": "no"},
            "message_interceptors.incoming.set_header_timestamp.overwrite must be True or False, not 'no'",
        ),
        ({"deprecated_features.permit.transient_nonexcl_queues": 1}, "must be True or False, not 1"),
        (
            {"deprecated_features.permit.global_qos": False},
            "deprecated_features.permit.global_qos cannot be False; leveret can deny only transient_nonexcl_queues",
        ),
    ],
)
def test_an_unsupported_setting_is_refused(settings: dict[str, object], complaint: str) -> None:
    with pytest.raises(BrokerError, match=complaint):
        Broker(settings=settings)
