"""leveret grants and refuses every request of every login as the real servers did."""

from __future__ import annotations

import pytest

from leveret.http.management.endpoints import ENDPOINTS
from leveret.http.messages import Request
from leveret.http.router import Router

from . import rights, target
from .scenario import ALL_VERSIONS, Run


@pytest.mark.parametrize("version", ALL_VERSIONS)
def test_every_login_is_answered_as_the_server_did(version: str) -> None:
    expected = rights.load(version)

    with target.leveret(version) as (endpoint, asking):
        # The broker asks itself, on the thread that serves clients: no request waits for that thread.
        got = endpoint.broker._engine.ask(lambda: rights.table_of(Run(endpoint, asking)))

    assert list(rights.differences(expected, got)) == []


@pytest.mark.parametrize("version", ALL_VERSIONS)
def test_a_table_has_the_answers_of_every_request(version: str) -> None:
    assert list(rights.load(version)) == [text for text, _ in rights.REQUESTS]


def test_every_endpoint_is_asked() -> None:
    router = Router(ENDPOINTS)
    parts = [text.split(" ") for text, _ in rights.REQUESTS]
    found = [router.find(Request(method, f"/api{path}")) for method, path in parts]
    asked = {(one.route.method, one.route.template) for one in found if one is not None}

    rows = {(row.method, row.template) for row in ENDPOINTS if row.template.startswith("/api")}
    assert {" ".join(row) for row in rows - asked} == set(rights.NOT_ASKED)


def test_a_cell_that_differs_is_named() -> None:
    expected = {"GET /overview": ["200"] * len(rights.LOGINS)}
    got = {"GET /overview": ["401 not_authorised: Not management user", *["200"] * (len(rights.LOGINS) - 1)]}

    assert list(rights.differences(expected, got)) == [
        "GET /overview as administrator: expected 200; got 401 not_authorised: Not management user"
    ]
