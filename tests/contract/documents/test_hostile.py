"""Documents from outside: each that has no end is refused in one line, or says less, within bounds."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from pytest_leveret.contract.documents.reading import read

from leveret.cli import main


def document(schema: object, **schemas: object) -> dict[str, Any]:
    message = {"m": {"payload": schema}}
    return {
        "asyncapi": "3.0.0",
        "info": {"title": "shop", "version": "1"},
        "channels": {"c": {"address": "k", "messages": message}},
        "components": {"schemas": schemas},
    }


def to(name: str) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{name}"}


def doubled(keyword: str) -> dict[str, Any]:
    """Return a document in which a value is compared with two schemas, each of which is two, forty times over."""
    pairs = {f"B{level}": {keyword: [to(f"B{level + 1}")] * 2} for level in range(40)}
    return document(to("B0"), **pairs, B40={"type": "object"})


DEEP = json.dumps(document("DEEP")).replace('"DEEP"', '{"items":' * 100_000 + "{}" + "}" * 100_000)
LAUGHS = "asyncapi: 3.0.0\nx-a: &a [l,l,l,l,l,l,l,l,l]\n" + "".join(
    f"x-{name}: &{name} [{','.join([f'*{before}'] * 9)}]\n" for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)
MERGES = "x-a: &a {k: l}\n" + "".join(
    f"x-{name}: &{name} {{<<: [{','.join([f'*{before}'] * 9)}]}}\n"
    for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)
REFUSED: dict[str, tuple[str, str | dict[str, Any], str]] = {
    "two that refer to each other": ("json", document(to("A"), A=to("B"), B=to("A")), "leads back to itself"),
    "one that refers to itself": ("json", document(to("A"), A=to("A")), "leads back to itself"),
    "one that refers below itself": (
        "json",
        document({"$ref": "#/components/schemas/A/x"}, A={"$ref": "#/components/schemas/A/x"}),
        "leads back to itself",
    ),
    "a message that is itself": (
        "json",
        {
            "asyncapi": "3.0.0",
            "channels": {"c": {"address": "k", "messages": {"m": {"$ref": "#/channels/c/messages/m"}}}},
        },
        "leads back to itself",
    ),
    "a long chain": (
        "json",
        document(to("B0"), **{f"B{level}": to(f"B{level + 1}") for level in range(3000)}, B3000={}),
        "leads through too many others",
    ),
    "its own alternative": ("json", document(to("A"), A={"anyOf": [to("A"), to("A")]}), "in its own alternatives"),
    "alternatives of alternatives": ("json", doubled("anyOf"), "more than 20,000"),
    "parts of parts": ("json", doubled("allOf"), "more than 20,000"),
    "deep JSON": ("json", DEEP, "nested more than 200 levels deep"),
    "deep YAML": ("yaml", "x: " + "[" * 100_000, "nested more than 200 levels deep"),
    "YAML in itself": ("yaml", "asyncapi: 3.0.0\nchannels: &a {x: *a}\n", "nested more than 200 levels deep"),
    "aliases of aliases": ("yaml", LAUGHS, "more than 2,000,000 values"),
    "merges of merges": ("yaml", MERGES, "more than 2,000,000 values"),
    "many values": ("json", f'{{"x": [{"1," * 2_100_000}1]}}', "more than 2,000,000 values"),
    "large": ("json", " " * 16_000_001, "larger than 16 MB"),
    "a device": ("json", document({"$ref": "/dev/zero"}), "it is no regular file"),
    "a pipe": ("json", document({"$ref": "pipe.json"}), "it is no regular file"),
}


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="files of POSIX")
@pytest.mark.parametrize(("suffix", "text", "reason"), REFUSED.values(), ids=REFUSED)
def test_a_document_without_an_end_is_refused_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], suffix: str, text: str | dict[str, Any], reason: str
) -> None:
    os.mkfifo(tmp_path / "pipe.json")
    path = tmp_path / f"asyncapi.{suffix}"
    path.write_text(text if isinstance(text, str) else json.dumps(text))

    assert main(["contract", "check", str(path)]) == 2

    error = capsys.readouterr().err
    assert reason in error
    assert error.count("\n") == 1


def test_schemas_that_hold_one_another_are_compared_as_far_as_there_is_time(tmp_path: Path) -> None:
    # A shape of six levels with 26 fields each has 300 million fields.
    path = tmp_path / "asyncapi.json"
    fields = {name * 3: to("A") for name in "abcdefghijklmnopqrstuvwxyz"}
    path.write_text(json.dumps(document(to("A"), A={"type": "object", "properties": fields})))

    assert main(["contract", "check", str(path)]) == 0


def test_a_recursive_schema_is_none_without_an_end(tmp_path: Path) -> None:
    path = tmp_path / "asyncapi.json"
    path.write_text(json.dumps(document(to("A"), A={"type": "object", "properties": {"below": to("A")}})))

    assert main(["contract", "check", str(path)]) == 0


@pytest.mark.parametrize(
    ("address", "key", "is_its"),
    [
        ("k{a}{b}", "kxy", True),
        ("k{a}{b}", "kx", False),
        ("{a}-{b}-c", "a-b-c", True),
        ("{a}-{b}-c", "1-c-2-c", True),
        ("{a}-c-{b}", "-c-c-x", True),
        ("k" + "a".join(f"{{p{number}}}" for number in range(60)), "k" + "a" * 250, True),
        ("k" + "a".join(f"{{p{number}}}" for number in range(60)) + "b", "k" + "a" * 250, False),
    ],
)
def test_parameters_of_a_word_are_found_without_trying_all_ways(
    tmp_path: Path, address: str, key: str, is_its: bool
) -> None:
    path = tmp_path / "asyncapi.json"
    path.write_text(json.dumps({"asyncapi": "3.0.0", "channels": {"c": {"address": address, "messages": {}}}}))

    (channel,) = read(path).channels

    assert channel.takes("any", key) == is_its
