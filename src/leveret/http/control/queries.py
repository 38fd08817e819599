"""The query of a request, checked against the parameters of its endpoint before anything happens.

A name that is misspelt must not be ignored: `DELETE /faults?vhots=test-13` would remove the faults of every test.
"""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import parse_qsl

from leveret.errors import did_you_mean, expected
from leveret.http.control.endpoint import Parameter


def checked(query: str, known: Mapping[str, Parameter]) -> dict[str, str]:
    """Return the decoded parameters of a query. Raises ValueError for a name or value that the endpoint lacks."""
    found: dict[str, str] = {}
    for name, value in parse_qsl(query, keep_blank_values=True, errors="surrogateescape"):
        if name not in known:
            hint = expected(name, known) if known else "; this takes no parameters, so leave it out"
            raise ValueError(f"unknown parameter {name!r}{hint}")
        if name in found:
            raise ValueError(f"the parameter {name!r} is given twice; give it once")
        _check_value(name, value, known[name])
        found[name] = value
    return found


def _check_value(name: str, value: str, parameter: Parameter) -> None:
    words = parameter.schema.get("enum")
    if words is not None and value not in words:
        hint = did_you_mean(value, words)
        raise ValueError(f"{name}={value!r} must be {' or '.join(map(repr, words))}{hint or '; or leave it out'}")
    if parameter.schema.get("type") == "integer" and not (value.isascii() and value.isdecimal()):
        raise ValueError(f"{name}={value!r} must be a whole number, as in {name}=100")
    if not value:
        raise ValueError(f"{name} is empty; give it a value, or leave it out")
