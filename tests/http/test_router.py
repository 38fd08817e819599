"""Which route a request takes."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from leveret.http.messages import Request
from leveret.http.router import Router


class Row(NamedTuple):
    method: str
    template: str


ROUTER = Router(
    [
        Row("GET", "/api/queues"),
        Row("GET", "/api/queues/{vhost}/{name}"),
        Row("PUT", "/api/queues/{vhost}/{name}"),
        Row("GET", "/api/queues/{vhost}/all"),
    ]
)


@pytest.mark.parametrize(
    ("path", "values"),
    [
        ("/api/queues/%2F/orders", {"vhost": "/", "name": "orders"}),
        ("/api/queues/%2f/a%2Fb%20c", {"vhost": "/", "name": "a/b c"}),
        ("/api/queues/shop/caf%C3%A9/", {"vhost": "shop", "name": "café"}),
    ],
)
def test_a_path_is_split_before_it_is_decoded(path: str, values: dict[str, str]) -> None:
    found = ROUTER.find(Request("GET", path))

    assert found is not None
    assert found.route.template == "/api/queues/{vhost}/{name}"
    assert found.values == values


def test_a_literal_segment_wins_over_a_name() -> None:
    found = ROUTER.find(Request("GET", "/api/queues/%2F/all"))

    assert found is not None
    assert found.route.template == "/api/queues/{vhost}/all"


@pytest.mark.parametrize("path", ["/", "/api", "/api/queues/a", "/api/queues/a/b/c", "/api//queues"])
def test_an_unknown_path_has_no_route_and_no_methods(path: str) -> None:
    assert ROUTER.find(Request("GET", path)) is None
    assert ROUTER.methods(Request("GET", path)) == []


def test_another_method_has_no_route_and_the_allowed_ones_are_known() -> None:
    request = Request("DELETE", "/api/queues/%2F/orders")

    assert ROUTER.find(request) is None
    assert ROUTER.methods(request) == ["GET", "PUT"]


def test_head_takes_the_route_of_get() -> None:
    assert ROUTER.find(Request("HEAD", "/api/queues")) is not None


def test_the_first_value_of_a_repeated_parameter_counts() -> None:
    assert Request("GET", "/", "name=a&name=b&x=").parameters == {"name": "a", "x": ""}


@pytest.mark.parametrize("header", ["", "Basic", "Basic !", "Basic Z3Vlc3Q=", "Bearer Z3Vlc3Q6Z3Vlc3Q="])
def test_malformed_credentials_are_none(header: str) -> None:
    assert Request("GET", "/", headers={"authorization": header}).credentials is None


def test_a_password_may_hold_a_colon() -> None:
    credentials = Request("GET", "/", headers={"authorization": "basic YTpiOmM="}).credentials

    assert credentials == ("a", "b:c")
