"""What a broker begins with: users, virtual hosts and definitions."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pika
import pytest

from leveret import Broker, BrokerError

DEFINITIONS = {
    "vhosts": [{"name": "stage"}],
    "users": [{"name": "app", "password": "secret", "tags": []}],
    "permissions": [{"user": "app", "vhost": "stage", "configure": "", "write": ".*", "read": ".*"}],
    "queues": [{"name": "orders", "vhost": "stage", "durable": True, "auto_delete": False, "arguments": {}}],
}


def test_guest_and_the_users_may_do_everything_on_the_virtual_hosts() -> None:
    with Broker(vhosts={"shop"}, users={"app": "secret"}) as broker:
        for url in (broker.url_for("shop"), broker.url_for("shop", "app"), broker.url_for(user="app")):
            with pika.BlockingConnection(pika.URLParameters(url)) as connection:
                connection.channel().queue_declare("orders", durable=True)


def test_a_string_may_name_several_virtual_hosts() -> None:
    with Broker(vhosts="shop, billing") as broker:
        assert broker.admin.list_vhosts() == ["/", "shop", "billing"]


def test_definitions_are_imported_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "definitions.json"
    path.write_text(json.dumps(DEFINITIONS))

    with Broker(definitions=path) as broker:
        assert broker.queue("orders", vhost="stage").durable
        pika.BlockingConnection(pika.URLParameters(broker.url_for("stage", "app"))).close()


def test_definitions_may_use_the_virtual_hosts_and_users_of_the_broker() -> None:
    definitions = {"permissions": [{"user": "app", "vhost": "shop", "configure": "^$", "write": "^$", "read": ".*"}]}

    with Broker(vhosts=["shop"], users={"app": "secret"}, definitions=definitions) as broker:
        (permission,) = (
            one
            for one in broker.admin.export_definitions()["permissions"]
            if (one["user"], one["vhost"]) == ("app", "shop")
        )

    assert permission["configure"] == "^$"


def test_a_reset_broker_begins_with_the_same() -> None:
    with Broker(vhosts=["shop"], users={"app": "secret"}, definitions=DEFINITIONS) as broker:
        broker.delete_queue("orders", vhost="stage")
        broker.admin.delete_vhost("shop")

        broker.reset()

        assert broker.admin.list_vhosts() == ["/", "shop", "stage"]
        assert broker.queue("orders", vhost="stage").ready == ()
        pika.BlockingConnection(pika.URLParameters(broker.url_for("shop", "app"))).close()


def test_a_file_of_definitions_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(BrokerError, match=re.escape(f"definitions='{tmp_path}/x.json' cannot be read: No such file")):
        Broker(definitions=tmp_path / "x.json")


@pytest.mark.parametrize("mistake", [{"vhosts": 7}, {"vhosts": [7]}, {"definitions": 7}])
def test_a_value_of_the_wrong_kind_is_refused(mistake) -> None:
    (word,) = mistake
    with pytest.raises((TypeError, ValueError), match=rf"Broker\(\): {word}(=7)? must be "):
        Broker(**mistake)
