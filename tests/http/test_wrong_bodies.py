"""Every endpoint with every kind of wrong value: it is refused, or does what it says, and is never a bug of ours."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from leveret import Broker
from leveret.http import control
from leveret.http.control.endpoint import ENDPOINTS, ControlEndpoint
from leveret.http.messages import Request
from tests.http.client import GUEST

# None of them lets a call wait.
JUNK = (None, True, -1, 0, 0.5, 2**70, "", "x", "é", "\x00", "y" * 300, [], [1], {}, {"x": None}, {"regex": "a"})


@pytest.fixture(scope="module")
def quiet() -> Iterator[Broker]:
    with Broker(checks="all=off") as broker:
        broker.declare_queue("q")
        yield broker


def bodies(endpoint: ControlEndpoint) -> Iterator[dict[str, object]]:
    """Yield what is required and nothing else, and then each name with each kind of junk."""
    schema = endpoint.body or {"properties": {}, "required": []}
    least: dict[str, object] = {name: "drop" if name == "fault" else "q" for name in schema["required"]}
    if "timeout" in schema["properties"]:
        # No call waits for what never comes.
        least["timeout"] = 0
    yield least
    for name in schema["properties"]:
        # Time that moves by ages, or a wait for ages, is no mistake.
        for value in (
            JUNK if name not in ("timeout", "seconds", "minutes", "hours", "days", "ms", "settle") else JUNK[:3]
        ):
            yield {**least, name: value}


@pytest.mark.parametrize(
    "endpoint", [one for one in ENDPOINTS if one.name not in ("reset", "restart")], ids=lambda one: one.name
)
def test_a_wrong_value_is_refused_in_words(quiet: Broker, endpoint: ControlEndpoint) -> None:
    app = control.Control(quiet._engine)
    path = endpoint.template.replace("{vhost}", "%2F").replace("{queue}", "q").replace("{exchange}", "shop")
    path = path.replace("{fault}", "1")

    for body in bodies(endpoint):
        given = json.dumps(body).encode() if endpoint.body is not None else b""
        response = app.handle(Request(endpoint.method, path, headers={"authorization": GUEST}, body=given))

        assert response.status < 500
        if response.status >= 400:
            assert len(json.loads(response.body)["reason"]) > 10, body
        elif not isinstance(response.body, bytes):
            response.body.closed()
    assert quiet._engine.node.internal_errors == []


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b'{"name": "\\ud800"}', "the body has a lone surrogate, which UTF-8 cannot encode; leave it out"),
        (b'{"name": NaN}', "the body is not JSON: NaN is no number of JSON"),
        (b"\xff", "the body is not UTF-8: byte 0 is 0xff; encode the JSON as UTF-8"),
        (b"[" * 100_000, "the body is not JSON: "),
        (b"[]", "the body must be a JSON object, not []"),
    ],
)
def test_what_is_no_json_is_refused(quiet: Broker, body: bytes, reason: str) -> None:
    app = control.Control(quiet._engine)

    response = app.handle(Request("POST", "/leveret/v1/vhosts", headers={"authorization": GUEST}, body=body))

    assert response.status == 400
    assert json.loads(response.body)["reason"].startswith(reason)


def test_a_number_beyond_all_numbers_is_refused(quiet: Broker) -> None:
    app = control.Control(quiet._engine)
    path = "/leveret/v1/clock/advance"

    response = app.handle(Request("POST", path, headers={"authorization": GUEST}, body=b'{"seconds": 1e999}'))

    assert response.status == 400
    assert json.loads(response.body)["reason"] == "the body is not JSON: 1e999 is too large for a number"
