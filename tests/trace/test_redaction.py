"""Header values that are left out of a trace."""

from datetime import UTC, datetime
from decimal import Decimal

import pytest

from leveret.trace.redaction import REDACTED, Redaction


@pytest.mark.parametrize(
    "name",
    [
        "Authorization",
        "x-api-key",
        "apiKey",
        "API_KEY",
        "my-access-token",
        "Set-Cookie",
        "db.password",
        "client_secret",
        "pwd",
        "db_pwd",
        "PASS",
        "x-pass",
        "userPass",
        "DB_PASS",
        "token",
    ],
)
def test_values_with_secret_names_are_redacted(name):
    assert Redaction().shown({name: "value"}) == {name: REDACTED}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("headers={'token': 'a', 'n': 1}", "headers={'token': (redacted), 'n': 1}"),
        ("header 'token' 'a b' instead of 'c', then", "header 'token' (redacted) instead of (redacted), then"),
        ("JSON 'pass' 1 instead of 2", "JSON 'pass' (redacted) instead of (redacted)"),
        (r"""{"api_key": "a\"b"}""", """{"api_key": (redacted)}"""),
        ("queue 'tokens' is empty; 'passengers': 3", "queue 'tokens' is empty; 'passengers': 3"),
    ],
)
def test_values_behind_secret_names_are_redacted_in_a_text(text, shown):
    assert Redaction().text(text) == shown


@pytest.mark.parametrize(
    "name", ["customer", "x-retries", "key", "traceparent", "author", "passenger", "compass-id", "byPassed"]
)
def test_other_values_are_shown(name):
    assert Redaction().shown({name: 7}) == {name: 7}


def test_names_can_be_added():
    redaction = Redaction(["X-Customer"])

    assert redaction.shown({"x_customer_id": 7, "token": "t", "n": 1}) == {
        "x_customer_id": REDACTED,
        "token": REDACTED,
        "n": 1,
    }


def test_a_star_hides_every_value_and_no_name():
    assert Redaction(["*"]).shown({"n": 1}) == {"n": REDACTED}


def test_tables_inside_tables_and_lists_are_looked_at():
    table = {"outer": {"password": "p", "n": [{"token": "t"}, 1]}}

    assert Redaction().shown(table) == {"outer": {"password": REDACTED, "n": [{"token": REDACTED}, 1]}}


def test_a_name_without_a_letter_is_refused():
    with pytest.raises(ValueError, match=r"trace_redact=\('--',\) has a name without a letter or digit"):
        Redaction(["--"])


def test_values_become_those_that_json_has():
    table = {
        "text": b"abc",
        "octets": b"\xff",
        "at": datetime(2026, 1, 2, tzinfo=UTC),
        "price": Decimal("1.50"),
        "nan": float("nan"),
        "none": None,
    }

    assert Redaction().shown(table) == {
        "text": "abc",
        "octets": "base64:/w==",
        "at": "2026-01-02T00:00:00+00:00",
        "price": "1.50",
        "nan": "nan",
        "none": None,
    }
