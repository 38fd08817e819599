"""A client of the control API that checks every answer against the OpenAPI document.

The tests use nothing else, so each of them is also a test of the document.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any
from urllib.parse import quote

from jsonschema import Draft202012Validator

from leveret import Broker
from leveret.http.control.openapi import document
from tests.http.client import GUEST, Answer, ask

ROOT = "/leveret/v1"


@cache
def described() -> dict[str, Any]:
    return document()


def _operation(method: str, path: str) -> dict[str, Any]:
    for template, operations in described()["paths"].items():
        pattern = re.sub(r"\\\{\w+\\\}", "[^/]+", re.escape(template))
        if re.fullmatch(pattern, path) and method.lower() in operations and "{" not in path:
            return operations[method.lower()]
    raise AssertionError(f"{method} {path} is not in the OpenAPI document")


def check(method: str, path: str, answer: Answer) -> None:
    """Assert that an answer is one that the document promises."""
    responses = _operation(method, path)["responses"]
    assert str(answer.status) in responses, f"{answer.status} is not promised: {answer.body!r}"
    promised = responses[str(answer.status)]
    if "$ref" in promised:
        promised = described()["components"]["responses"][promised["$ref"].rpartition("/")[2]]
    content = promised.get("content", {})
    if not content:
        assert answer.body == b""
        return
    (media,) = content
    assert answer.headers["content-type"].split(";")[0] == media
    schema = content[media].get("schema")
    if schema is not None:
        root = {**schema, "components": described()["components"]}
        Draft202012Validator(root).validate(answer.json)


class Control:
    """A virtual host of a broker, driven over HTTP only."""

    def __init__(self, broker: Broker, vhost: str = "/") -> None:
        self.broker = broker
        self.vhost = vhost

    def ask(self, method: str, path: str, value: object = None, **options: Any) -> Answer:
        """Send a request to a path below /leveret/v1."""
        route, _, query = path.partition("?")
        answer = ask(self.broker, method, f"{ROOT}{path}", value, authorization=GUEST, **options)
        check(method, f"{ROOT}{route}", answer)
        del query
        return answer

    def inside(self, method: str, path: str, value: object = None) -> Answer:
        """Send a request to a path below the virtual host."""
        return self.ask(method, f"/vhosts/{quote(self.vhost, safe='')}{path}", value)

    def post(self, path: str, **body: object) -> Any:
        """Post to a path below the virtual host, and return the answer's JSON. Fails unless it succeeds."""
        answer = self.inside("POST", path, body)
        assert answer.status < 300, answer.body.decode()
        return answer.json if answer.body else None
