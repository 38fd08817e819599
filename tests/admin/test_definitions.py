"""Export and import of RabbitMQ's definitions.json."""

from __future__ import annotations

import json
import re
import warnings
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pika
import pytest

from leveret import Broker
from leveret.errors import BrokerError, LeveretWarning

# An export of RabbitMQ 4.3.6.
EXPORTED = Path(__file__).with_name("definitions-4.3.6.json")


def sections(definitions: dict[str, object]) -> dict[str, list[str]]:
    """Return every section as sorted lines, without the node that exported it."""
    return {
        name: sorted(json.dumps(item, sort_keys=True) for item in items)
        for name, items in definitions.items()
        if isinstance(items, list)
    }


def test_what_rabbitmq_exported_is_exported_again(broker: Broker) -> None:
    broker.admin.import_definitions(EXPORTED)

    again = broker.admin.export_definitions()

    exported = json.loads(EXPORTED.read_text())
    assert again.keys() == exported.keys()
    assert sections(again) == sections(exported)


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_definitions_that_a_shell_of_windows_saved_are_the_same(broker: Broker, tmp_path: Path, encoding: str) -> None:
    saved = tmp_path / "definitions.json"
    definitions = {"queues": [{"name": "häschen", "vhost": "/", "durable": True, "arguments": {}}]}
    text = json.dumps(definitions, indent=2, ensure_ascii=False).replace("\n", "\r\n")
    saved.write_bytes(text.encode(encoding))

    broker.admin.import_definitions(saved)

    assert [queue.name for queue in broker.queues] == ["häschen"]


def test_imported_definitions_take_effect(broker: Broker, connect) -> None:
    broker.admin.import_definitions(EXPORTED)
    channel = connect("stage", "shop", "secret").channel()

    assert channel.queue_declare("q1", passive=True).method.queue == "q1"
    with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="configure access to queue 'orders'"):
        channel.queue_declare("orders", durable=True)
    with pytest.raises(pika.exceptions.ProbableAuthenticationError):
        connect("stage", "shop", "wrong")
    assert broker.queue("q1", vhost="stage").type == "quorum"
    assert [binding.routing_key for binding in broker.queue("q1", vhost="stage").bindings] == ["a.#"]


def test_a_queue_has_the_type_of_its_argument_whatever_its_entry_says(broker: Broker) -> None:
    # As RabbitMQ 4.3.6, 4.0.5 and 3.10.8 import it.
    typed = {"vhost": "/", "durable": True, "auto_delete": False, "type": "quorum"}
    queues = [{"name": "orders", **typed}, {"name": "mails", **typed, "arguments": {"x-queue-type": "stream"}}]

    broker.admin.import_definitions({"queues": queues})

    assert {queue.name: queue.type for queue in broker.queues} == {"orders": "classic", "mails": "stream"}


def test_a_virtual_host_has_the_type_of_queues_of_its_metadata_alone(broker: Broker) -> None:
    # As RabbitMQ 4.3.6 and 4.0.5 import it, although 4.0.5 exports it in both places.
    quorum = {"default_queue_type": "quorum"}
    vhosts = [{"name": "beside", **quorum}, {"name": "within", "metadata": quorum}]

    broker.admin.import_definitions({"vhosts": vhosts})

    exported = broker.admin.export_definitions()["vhosts"]
    types = {vhost["name"]: vhost["metadata"]["default_queue_type"] for vhost in exported}
    assert (types["beside"], types["within"]) == ("classic", "quorum")


def test_loading_twice_changes_nothing(broker: Broker) -> None:
    broker.admin.import_definitions(EXPORTED)
    once = broker.admin.export_definitions()

    broker.admin.import_definitions(EXPORTED)

    assert broker.admin.export_definitions() == once


def test_an_export_of_one_virtual_host_can_be_imported_into_another(broker: Broker) -> None:
    # Seen in RabbitMQ 4.3 and 3.10: names with the reserved prefix are exported, and skipped by an import.
    broker.admin.add_vhost("copy")
    exchanges = [{"name": "amq.rabbitmq.log", "type": "topic"}, {"name": "shop", "type": "topic"}]

    broker.admin.import_definitions({"exchanges": exchanges, "queues": [{"name": "amq.mine"}]}, vhost="copy")

    assert broker.exchange("shop", vhost="copy").type == "topic"
    assert broker.queues == []
    with pytest.raises(LookupError):
        broker.exchange("amq.rabbitmq.log", vhost="copy")


def test_a_mistake_in_a_queue_keeps_exchanges_and_other_queues_and_no_bindings(broker: Broker) -> None:
    # Seen in RabbitMQ 4.3.
    definitions = {
        "queues": [{"name": "bad", "arguments": {"x-max-length": -1}}, {"name": "good"}],
        "exchanges": [{"name": "shop", "type": "direct"}],
        "bindings": [{"source": "shop", "destination": "good", "destination_type": "queue", "routing_key": ""}],
    }

    with pytest.raises(BrokerError, match="queue 'bad': PRECONDITION_FAILED"):
        broker.admin.import_definitions(definitions, vhost="/")

    assert [queue.name for queue in broker.queues] == ["good"]
    assert list(broker.exchange("shop").bindings) == []


def test_import_adds_to_existing_definitions(broker: Broker) -> None:
    broker.declare_queue("orders")
    broker.publish("", "orders", b"x")

    broker.admin.import_definitions({"queues": [{"name": "orders", "vhost": "/", "durable": True, "arguments": {}}]})

    assert len(broker.queue("orders").ready) == 1
    assert broker.admin.list_users() == {"guest": ("administrator",)}


def test_an_export_can_be_written_and_loaded(broker: Broker, tmp_path: Path) -> None:
    broker.admin.add_user("shop", "secret", tags=["management"])
    broker.admin.set_permissions("shop", write="^shop")
    broker.declare_queue("orders", arguments={"x-max-length": 3})
    broker.bind_queue("orders", "amq.topic", "order.#")
    broker.admin.export_definitions(tmp_path / "definitions.json")

    with Broker() as other:
        other.admin.import_definitions(str(tmp_path / "definitions.json"))
        with pika.BlockingConnection(pika.URLParameters(other.url_for(user="shop", password="secret"))):
            assert other.admin.export_definitions() == broker.admin.export_definitions()


def test_internal_exchanges_and_their_bindings_are_left_out(broker: Broker) -> None:
    broker.declare_exchange("inner", "fanout", internal=True)
    broker.declare_exchange("orders", "fanout")
    broker.bind_exchange("inner", "orders")

    exported = broker.admin.export_definitions()

    assert [exchange["name"] for exchange in exported["exchanges"]] == ["amq.rabbitmq.log", "orders"]
    assert exported["bindings"] == []


def test_the_definitions_of_one_virtual_host_go_where_they_are_sent(broker: Broker) -> None:
    broker.admin.add_vhost("stage")
    definitions = {
        "rabbitmq_definition_format": "single_virtual_host",
        "queues": [{"name": "orders", "durable": True, "auto_delete": False, "arguments": {}}],
    }

    broker.admin.import_definitions(definitions, vhost="stage")

    assert [queue.vhost for queue in broker.queues] == ["stage"]


@pytest.mark.parametrize(
    ("definitions", "text"),
    [
        ({"users": [{"name": "shop", "tags": 5}]}, "user 'shop': 'tags' must be a list of strings, not 5"),
        ({"users": [{"tags": []}]}, "number 1 of 'users': 'name' is missing"),
        (
            {"users": [{"name": "shop", "password_hash": "abcd", "hashing_algorithm": "sha256", "tags": ""}]},
            "user 'shop': 'hashing_algorithm' is 'sha256'",
        ),
        (
            {"parameters": [{"component": "vhost-limits", "name": "limits", "vhost": "/", "value": {"max-queue": 1}}]},
            "parameter 'vhost-limits' 'limits': 'value' has the unknown limit 'max-queue'",
        ),
        (
            {"permissions": [{"user": "shop", "vhost": "/", "configure": "", "write": "", "read": ""}]},
            "permission of 'shop' '/': 'user' names the unknown user 'shop'",
        ),
        (
            {"queues": [{"name": "orders", "vhost": "stage"}]},
            "queue 'orders': 'vhost' names the unknown virtual host 'stage'",
        ),
        (
            {"queues": [{"name": "orders", "vhost": "/", "durable": "yes"}]},
            "'durable' must be true or false, not 'yes'",
        ),
        (
            {"queues": [{"name": "orders", "vhost": "/", "arguments": {"x-max-length": -1}}]},
            "queue 'orders': PRECONDITION_FAILED - invalid arg 'x-max-length'",
        ),
        ({"exchanges": [{"name": "orders", "vhost": "/", "type": "topik"}]}, "exchange 'orders': "),
        (
            {
                "bindings": [
                    {
                        "source": "amq.topik",
                        "destination": "q",
                        "destination_type": "queue",
                        "vhost": "/",
                        "routing_key": "",
                    }
                ]
            },
            "'source' names the unknown exchange 'amq.topik'; did you mean 'amq.topic'",
        ),
        (
            {"policies": [{"name": "p", "vhost": "/", "pattern": ".*", "definition": {"max": 1}}]},
            "policy 'p': Validation failed",
        ),
        ({"parameters": [{"component": "mqtt", "name": "s", "vhost": "/"}]}, "'component' is 'mqtt'"),
        ({"queues": {}}, "'queues' must be a list, not {}"),
    ],
)
def test_the_error_about_a_mistake_names_object_and_key(broker: Broker, definitions: dict, text: str) -> None:
    with pytest.raises(BrokerError) as refused:
        broker.admin.import_definitions(definitions)

    assert text in str(refused.value)


def test_a_file_that_holds_no_definitions_is_refused(broker: Broker, tmp_path: Path) -> None:
    path = tmp_path / "definitions.json"
    path.write_text("{}")
    with pytest.raises(BrokerError, match=r"definitions\.json holds no definitions"):
        broker.admin.import_definitions(path)
    path.write_text("users: []")
    with pytest.raises(BrokerError, match=r"definitions\.json is not JSON"):
        broker.admin.import_definitions(path)


LONG = "k" * 256
LONE = "a\ud800"
AT = {"vhost": "/"}


@pytest.mark.parametrize(
    ("definitions", "text"),
    [
        ({"queues": [{"name": LONG, **AT}]}, "definitions: queue 'kkk.*kkk': 'name' 'kkk.*' is 256 bytes long"),
        ({"exchanges": [{"name": LONG, "type": "direct", **AT}]}, "exchange 'kkk.*': 'name' 'kkk.*' is 256 bytes long"),
        ({"vhosts": [{"name": LONG}]}, "vhost 'kkk.*': 'name' 'kkk.*' is 256 bytes long"),
        (
            {"queues": [{"name": "q", **AT, "arguments": {LONG: 1}}]},
            "queue 'q': argument name 'kkk.*' is 256 bytes long; AMQP allows 255",
        ),
        (
            {"queues": [{"name": "q", **AT, "arguments": {"x": {LONG: 1}}}]},
            r"queue 'q': arguments\['x'\] has a name of more than 255 bytes",
        ),
        (
            {
                "queues": [{"name": "q", **AT}],
                "bindings": [
                    {
                        "source": "amq.direct",
                        "destination": "q",
                        "destination_type": "queue",
                        "routing_key": LONG,
                        **AT,
                    }
                ],
            },
            "binding of 'amq.direct' 'q' 'kkk.*': 'routing_key' 'kkk.*' is 256 bytes long",
        ),
        ({"users": [{"name": LONE, "password": "x", "tags": ""}]}, "user .*: 'name' has a lone surrogate"),
        ({"queues": [{"name": LONE, **AT}]}, "queue .*: 'name' has a lone surrogate"),
    ],
)
def test_a_name_that_no_client_can_send_is_refused_at_its_row(broker: Broker, definitions: dict, text: str) -> None:
    with pytest.raises(BrokerError, match=text):
        broker.admin.import_definitions(definitions)


def test_a_user_and_a_policy_may_have_long_names_as_on_rabbitmq(broker: Broker) -> None:
    broker.admin.import_definitions(
        {
            "users": [{"name": LONG, "password": "x", "tags": ""}],
            "policies": [{"name": LONG, **AT, "pattern": "^a", "definition": {"max-length": 1}}],
        }
    )

    assert LONG in broker.admin.list_users()


@pytest.mark.parametrize("wrapped", ["%s", '{"queues": %s}'])
def test_a_file_that_is_nested_too_deeply_is_refused(broker: Broker, tmp_path: Path, wrapped: str) -> None:
    path = tmp_path / "definitions.json"
    path.write_text(wrapped % ("[" * 100_000 + "]" * 100_000))

    with pytest.raises(BrokerError, match=r"definitions\.json is nested too deeply to be definitions"):
        broker.admin.import_definitions(path)


def test_arguments_that_are_nested_too_deeply_are_refused_at_their_row(broker: Broker) -> None:
    arguments: dict[str, object] = {}
    for _ in range(100_000):
        arguments = {"x": arguments}

    with pytest.raises(BrokerError, match=r"queue 'q': arguments\['x'\] is nested too deeply; use fewer levels"):
        broker.admin.import_definitions({"queues": [{"name": "q", **AT, "arguments": arguments}]})


def test_a_policy_with_repeats_of_repeats_does_not_hold_the_broker(broker: Broker) -> None:
    broker.admin.import_definitions(
        {
            "queues": [{"name": "a" * 200 + "!", **AT}, {"name": "a" * 200, **AT}],
            "policies": [{"name": "hostile", **AT, "pattern": "^(a+)+$", "definition": {"max-length": 1}}],
        }
    )

    for queue in broker.queues:
        broker.publish("", queue.name, b"1")
        broker.publish("", queue.name, b"2")
    assert [len(queue.ready) for queue in broker.queues] == [2, 1]


@pytest.mark.parametrize(
    ("section", "entry", "place"),
    [
        ("policies", {"name": "p", "vhost": "/", "pattern": "(?1)(a)", "definition": {"expires": 1}}, "policy 'p'"),
        (
            "parameters",
            {
                "component": "operator_policy",
                "name": "o",
                "vhost": "/",
                "value": {"pattern": r"\p{Lu}", "definition": {"expires": 1}, "priority": 0},
            },
            "parameter 'operator_policy' 'o'",
        ),
        (
            "permissions",
            {"user": "guest", "vhost": "/", "configure": "(?|a)", "write": "", "read": ""},
            "permission of 'guest' '/'",
        ),
    ],
)
def test_an_entry_whose_pattern_leveret_cannot_match_is_left_out(
    broker: Broker, section: str, entry: dict, place: str
) -> None:
    definitions = {section: [entry], "queues": [{"name": "q", "vhost": "/"}]}

    with pytest.warns(LeveretWarning, match=re.escape(f"definitions: {place} is left out: leveret cannot match")):
        broker.admin.import_definitions(definitions)

    assert broker.queue("q").name == "q"
    left = broker.admin.export_definitions()
    assert entry not in left[section]  # type: ignore[operator]


QUEUE = {"name": "q", "durable": True, **AT}
TRANSIENT = {"name": "tmp", "durable": False, **AT}
TO_TRANSIENT = {"source": "amq.fanout", "destination": "tmp", "destination_type": "queue", "routing_key": "", **AT}


def test_a_queue_that_rabbitmq_does_not_create_is_left_out_with_a_warning(broker: Broker) -> None:
    with pytest.warns(LeveretWarning, match="definitions: queue 'tmp' is left out: .*transient_nonexcl_queues"):
        broker.admin.import_definitions({"queues": [TRANSIENT, QUEUE]})

    assert [queue.name for queue in broker.queues] == ["q"]


def test_a_broker_starts_without_a_queue_that_rabbitmq_does_not_create() -> None:
    with (
        pytest.warns(LeveretWarning, match="queue 'tmp' is left out"),
        Broker(definitions={"queues": [TRANSIENT, QUEUE]}) as broker,
    ):
        assert [queue.name for queue in broker.queues] == ["q"]


UPSTREAM = {"component": "federation-upstream", "name": "paris", "value": {"uri": "amqp://"}, **AT}
SHOVEL = {"component": "shovel", "name": "nightly", "value": {"src-uri": "amqp://", "dest-uri": "amqp://"}, **AT}
FEDERATED = {"name": "fed", "pattern": ".*", "definition": {"federation-upstream-set": "all"}, **AT}
MIXED = {"name": "both", "pattern": ".*", "definition": {"federation-upstream": "paris", "max-length": 3}, **AT}


@pytest.mark.parametrize(
    ("section", "entry", "text"),
    [
        ("parameters", UPSTREAM, "parameter 'federation-upstream' 'paris' is left out: leveret has no federation"),
        ("parameters", SHOVEL, "parameter 'shovel' 'nightly' is left out: leveret has no shovels"),
        (
            "policies",
            FEDERATED,
            "policy 'fed' is left out: it sets only 'federation-upstream-set', as leveret has no fed",
        ),
        ("policies", MIXED, "of policy 'both', a key is left out: 'federation-upstream', as leveret has no federation"),
    ],
)
def test_what_needs_a_plugin_that_leveret_lacks_is_left_out_with_a_warning(
    section: str, entry: dict, text: str
) -> None:
    definitions = {section: [entry], "queues": [QUEUE]}

    with pytest.warns(LeveretWarning, match=re.escape(f"definitions: {text}")):
        broker = Broker(definitions=definitions)

    with broker:
        assert [queue.name for queue in broker.queues] == ["q"]
        policies = broker.admin.export_definitions()["policies"]
        assert policies == (
            [{**MIXED, "definition": {"max-length": 3}, "apply-to": "all", "priority": 0}] * (entry is MIXED)
        )


def test_what_is_left_out_is_an_error_by_choice() -> None:
    with warnings.catch_warnings():
        warnings.filterwarnings("error", "definitions", LeveretWarning)
        with pytest.raises(LeveretWarning, match="parameter 'shovel' 'nightly' is left out"):
            Broker(definitions={"parameters": [SHOVEL]})


def test_a_binding_to_a_queue_that_was_left_out_is_refused(broker: Broker) -> None:
    with pytest.raises(BrokerError, match="'destination' names the unknown queue 'tmp'"):
        broker.admin.import_definitions({"queues": [TRANSIENT], "bindings": [TO_TRANSIENT]})


def test_an_older_version_creates_transient_queues() -> None:
    with Broker(rabbitmq="4.0", definitions={"queues": [TRANSIENT], "bindings": [TO_TRANSIENT]}) as broker:
        assert not broker.queue("tmp").durable


def test_a_broker_begins_with_global_parameters() -> None:
    parameters = [{"name": "mine", "value": {"a": 1}}, {"name": "cluster_name", "value": "shop"}]

    with Broker(definitions={"global_parameters": parameters}) as broker:
        exported = broker.admin.export_definitions()
        with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
            named = connection._impl.server_properties["cluster_name"]

    assert [each for each in exported["global_parameters"] if each in parameters] == parameters
    assert exported["original_cluster_name"] == "shop"
    assert named == "shop"


def test_a_description_may_be_null(broker: Broker) -> None:
    broker.admin.import_definitions({"vhosts": [{"name": "stage", "metadata": {"description": None, "tags": None}}]})

    exported = broker.admin.export_definitions()["vhosts"]
    assert [each["metadata"]["description"] for each in exported if each["name"] == "stage"] == [None]


def test_an_export_can_be_written_whatever_the_types_of_arguments(broker: Broker, tmp_path: Path) -> None:
    arguments = {"time": datetime(2026, 1, 1, tzinfo=UTC), "price": Decimal("3.14"), "bytes": b"\xff", "none": None}
    broker.declare_queue("q", arguments=arguments)

    broker.admin.export_definitions(tmp_path / "definitions.json")

    (queue,) = json.loads((tmp_path / "definitions.json").read_text())["queues"]
    # RabbitMQ writes the scale of a decimal before the point, and its digits after it.
    expected = {"time": 1767225600, "price": 2.314, "bytes": "Not UTF-8, base64 is: /w==", "none": "undefined"}
    assert {name: queue["arguments"][name] for name in expected} == expected
