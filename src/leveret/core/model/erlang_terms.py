"""Field values as Erlang's `~p` prints them, for refusals that quote a value."""

from __future__ import annotations

from collections.abc import Iterable

from leveret.core.wire import erlang
from leveret.core.wire.values import TYPE_NAMES, Field, Table, Value


def term(value: Value) -> str:
    """Return a value as RabbitMQ 4.3 prints it: `5`, `true`, `<<"text">>`, `[{longstr,<<"a">>}]`.

    A void value is `undefined`.
    """
    if value is None:
        return "undefined"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return erlang.float_text(value)
    if isinstance(value, bytes):
        return binary(value)
    if isinstance(value, Table):
        return _list(f"{{{binary(erlang.text(name))},{_tagged(field)}}}" for name, field in value)
    return _sequence(value)


def binary(octets: bytes) -> str:
    """Return bytes as Erlang prints a binary; UTF-8 text beyond ASCII is marked as such."""
    if not octets.isascii():
        try:
            text = octets.decode("utf-8")
        except UnicodeDecodeError:
            return erlang.binary(octets)
        if text.isprintable():
            return f'<<"{text}"/utf8>>'.replace("\\", "\\\\")
    return erlang.binary(octets)


def _sequence(value: tuple[int, int] | tuple[Field, ...]) -> str:
    fields = [item for item in value if isinstance(item, Field)]
    if len(fields) == len(value):
        return _list(f"{{{_tagged(field)}}}" for field in fields)
    scale, unscaled = value
    return f"{{{scale},{unscaled}}}"


def _tagged(field: Field) -> str:
    return f"{TYPE_NAMES[field.tag]},{term(field.value)}"


def _list(items: Iterable[str]) -> str:
    return f"[{','.join(items)}]"
