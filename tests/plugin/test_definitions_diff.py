"""`leveret definitions diff` says in what two definitions differ, each a file or a running server."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from leveret import Broker
from leveret.cli import main

CHECKS = Path(__file__).parents[1] / "checks"
# Exports of RabbitMQ 4.3.6: a virtual host with 40 queues, and a whole broker with three virtual hosts.
SHOP = CHECKS / "definitions-40-queues-4.3.6.json"
WHOLE = CHECKS.parent / "admin/definitions-4.3.6.json"

Described = dict[str, Any]
Diff = Callable[..., tuple[int, list[str]]]


@pytest.fixture
def diff(tmp_path, capsys) -> Diff:
    """Return a function that compares definitions, files or servers, and returns the exit code and the lines."""

    def run(*places: Any, vhost: str | None = None) -> tuple[int, list[str]]:
        names = []
        for number, place in enumerate(places):
            names.append(str(place))
            if isinstance(place, dict):
                names[-1] = str(tmp_path / f"{number}.json")
                Path(names[-1]).write_text(json.dumps(place), encoding="utf-8")
        code = main(["definitions", "diff", *names, *([] if vhost is None else ["--vhost", vhost])])
        return code, capsys.readouterr().out.splitlines()

    return run


@pytest.fixture
def shop() -> Described:
    return json.loads(SHOP.read_text(encoding="utf-8"))


@pytest.fixture
def whole() -> Described:
    return json.loads(WHOLE.read_text(encoding="utf-8"))


def named(definitions: Described, section: str, name: str) -> Described:
    return next(it for it in definitions[section] if it["name"] == name)


def test_twelve_differences_of_forty_queues_are_named_in_order_and_nothing_else(diff, shop):
    changed = copy.deepcopy(shop)
    named(changed, "queues", "orders")["arguments"]["x-queue-type"] = "classic"
    named(changed, "queues", "orders")["type"] = "classic"
    del named(changed, "queues", "billing")["arguments"]["x-dead-letter-routing-key"]
    named(changed, "queues", "audit.retry")["arguments"]["x-message-ttl"] = 60000
    named(changed, "queues", "stock")["arguments"]["x-max-length"] = 100000
    named(changed, "queues", "lazy")["name"] = "lasy"
    named(changed, "exchanges", "news")["type"] = "topic"
    named(changed, "exchanges", "shop")["arguments"] = {}
    named(changed, "policies", "limits")["definition"]["max-length"] = 5
    changed["policies"].remove(named(changed, "policies", "redelivery"))
    changed["bindings"].append({**changed["bindings"][0], "routing_key": "new", "arguments": {"x-match": "any"}})
    del changed["bindings"][0]

    code, lines = diff(SHOP, changed)

    first = shop["bindings"][0]
    binding = f"binding of {first['source']!r} to queue {first['destination']!r} with key"
    assert lines == [
        "~ policy 'limits': max-length 100000 -> 5",
        "- policy 'redelivery'",
        '~ exchange \'news\': type "fanout" -> "topic"',
        "~ exchange 'shop': alternate-exchange \"unrouted\" -> none",
        "~ queue 'audit.retry': x-message-ttl 30000 -> 60000",
        "~ queue 'billing': x-dead-letter-routing-key \"billing\" -> none",
        "+ queue 'lasy'",
        "- queue 'lazy'",
        '~ queue \'orders\': type "quorum" -> "classic"',
        "~ queue 'stock': x-max-length none -> 100000",
        f"- {binding} {first['routing_key']!r}",
        f'+ {binding} \'new\' and {{"x-match": "any"}}',
        "12 differences",
    ]
    assert code == 1


def test_the_order_of_objects_and_the_version_of_the_server_do_not_count(diff, shop):
    other = {name: value[::-1] if isinstance(value, list) else value for name, value in reversed(shop.items())}

    assert diff(SHOP, {**other, "rabbitmq_version": "4.0.5"}) == (0, ["no difference"])


def test_a_queue_without_a_type_has_that_of_its_virtual_host(diff):
    vhosts = [{"name": "a"}, {"name": "b", "metadata": {"default_queue_type": "quorum"}}]
    bare = [{"name": "q", "vhost": "a"}, {"name": "q", "vhost": "b", "durable": True, "arguments": []}]
    typed = [
        {"name": "q", "vhost": "a", "arguments": {"x-queue-type": "classic"}},
        {"name": "q", "vhost": "b", "type": "quorum", "auto_delete": False},
    ]

    assert diff({"vhosts": vhosts, "queues": bare}, {"vhosts": vhosts, "queues": typed})[0] == 0


def test_the_hash_of_a_password_does_not_count_and_tags_of_old_versions_are_one_text(diff, whole):
    other = copy.deepcopy(whole)
    for user in other["users"]:
        user |= {"password_hash": "another", "tags": ",".join(user["tags"])}

    assert diff(whole, other) == (0, ["no difference"])


def test_virtual_hosts_users_and_rights_are_compared(diff, whole):
    other = copy.deepcopy(whole)
    named(other, "users", "shop")["tags"] = ["monitoring"]
    next(it for it in other["permissions"] if it["user"] == "shop")["write"] = ".*"
    named(other, "vhosts", "stage")["limits"]["max-queues"] = 11
    other["vhosts"].append({"name": "new"})

    assert diff(whole, other) == (
        1,
        [
            "+ virtual host 'new'",
            "~ virtual host 'stage': max-queues 10 -> 11",
            '~ user \'shop\': tags ["management", "monitoring"] -> ["monitoring"]',
            "~ permission of 'shop' in 'stage': write \"\" -> \".*\"",
            "4 differences",
        ],
    )


def test_one_virtual_host_is_compared_with_its_part_of_a_whole_broker(diff, shop):
    sections = {
        name: [{**it, "vhost": "shop"} for it in value] for name, value in shop.items() if isinstance(value, list)
    }
    whole = {"vhosts": [{"name": "shop"}, {"name": "/"}], "users": [{"name": "guest"}], **sections}
    whole["queues"].append({"name": "other", "vhost": "/"})

    assert diff(SHOP, whole) == (0, ["no difference"])
    assert diff(whole, {"vhosts": [{"name": "shop"}]}, vhost="/")[1] == [
        "- virtual host '/'",
        "- queue 'other'",
        "2 differences",
    ]


def test_a_running_server_is_compared_with_a_file(diff, shop):
    with Broker(definitions=SHOP, management=True) as broker:
        url = broker.management_url
        assert diff(SHOP, url, vhost="/") == (0, ["no difference"])

        broker.admin.set_policy("ttl", "^mails", {"message-ttl": 5}, vhost="/")
        address = url.replace("http://", "http://guest:guest@")
        assert diff(SHOP, f"{address}/api/definitions/%2F") == (1, ["+ policy 'ttl'", "1 difference"])


def test_a_server_is_compared_by_the_url_of_its_download(diff):
    with Broker(definitions=SHOP, management=True) as broker:
        assert diff(SHOP, f"{broker.management_url}/api/definitions/%2F?download=shop.json") == (0, ["no difference"])


def test_a_password_with_escaped_characters_is_understood(diff):
    with Broker(definitions=SHOP, management=True) as broker:
        broker.admin.add_user("ops", "p@ss/word", tags=["administrator"])
        address = broker.management_url.replace("//", "//ops:p%40ss%2Fword@")

        assert diff(SHOP, address, vhost="/") == (0, ["no difference"])


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        ("[]", "holds no definitions"),
        ("{", "is not JSON"),
        ('{"queues": {}}', "'queues' must be a list of objects"),
    ],
)
def test_a_bad_file_exits_with_2(tmp_path, capsys, content, fault):
    bad = tmp_path / "bad.json"
    bad.write_text(content)

    assert main(["definitions", "diff", str(SHOP), str(bad)]) == 2
    assert fault in capsys.readouterr().err


def test_a_file_that_is_missing_exits_with_2(capsys):
    assert main(["definitions", "diff", str(SHOP), "no-such.json"]) == 2
    assert "no-such.json" in capsys.readouterr().err


def test_a_wrong_password_exits_with_2_and_says_where_to_put_it(capsys):
    with Broker(management=True) as broker:
        url = broker.management_url.replace("http://", "http://guest:wrong@")

        assert main(["definitions", "diff", str(SHOP), url]) == 2

    error = capsys.readouterr().err
    assert "answers 401; put the name and the password of an administrator into the URL" in error
    assert "wrong" not in error


def test_a_truth_value_is_no_number(diff: Diff) -> None:
    one, other = ({"queues": [{"name": "jobs", "vhost": "/", "arguments": {"x-own": value}}]} for value in (True, 1))

    assert diff(one, other) == (1, ["~ queue 'jobs': x-own true -> 1", "1 difference"])
