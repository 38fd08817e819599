"""Who may ask: pages from elsewhere and strangers may not."""

from __future__ import annotations

import pytest

from leveret import Broker
from tests.http.client import ask


@pytest.mark.parametrize("name", ["localhost", "LOCALHOST:1", "127.0.0.1:80", "127.1.2.3", "[::1]:15672"])
def test_every_name_of_this_machine_is_served(broker: Broker, name: str) -> None:
    assert ask(broker, "GET", "/api/whoami", headers={"host": name}).status == 200


@pytest.mark.parametrize(
    "name", ["evil.example.com", "example.com:15672", "127.0.0.1.example.com", "10.0.0.1", "[", ""]
)
def test_a_foreign_host_is_refused(broker: Broker, name: str) -> None:
    answer = ask(broker, "GET", "/api/whoami", headers={"host": name})

    assert answer.status == 403
    assert answer.json["reason"].startswith(f"Host {name!r} is not this machine")


@pytest.mark.parametrize("origin", ["http://example.com", "null", "http://localhost:1"])
def test_a_foreign_origin_is_refused(broker: Broker, origin: str) -> None:
    answer = ask(broker, "GET", "/api/whoami", headers={"origin": origin})

    assert answer.status == 403
    assert answer.json["reason"].startswith(f"Origin {origin!r} is another site than {broker.management_url}")


def test_the_own_page_is_no_foreign_origin(broker: Broker) -> None:
    assert ask(broker, "GET", "/api/whoami", headers={"origin": broker.management_url}).status == 200


def test_a_stranger_is_asked_for_a_password(broker: Broker) -> None:
    answer = ask(broker, "GET", "/api/whoami", authorization=None)

    assert answer.status == 401
    assert answer.headers["www-authenticate"].startswith("Basic ")


@pytest.mark.parametrize("authorization", ["Basic Z3Vlc3Q6d3Jvbmc=", "Basic bm9ib2R5Og==", "Bearer x"])
def test_a_wrong_password_is_refused(broker: Broker, authorization: str) -> None:
    assert ask(broker, "GET", "/api/whoami", authorization=authorization).status == 401
