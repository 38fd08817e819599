"""Lists and objects in answers: chosen columns, order and pages (rabbit_mgmt_util)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from leveret.core.model.operators.patterns import name_pattern, octets
from leveret.core.model.operators.pcre import UnsupportedError
from leveret.http.management.calls import ManagementCall, bad_request, refused

Described = dict[str, object]

_INVALID: Final = "Pagination parameters are invalid"
_PAGE_SIZE: Final = 100
_PAGE_SIZE_MAX: Final = 500
# Erlang's order of terms: numbers, atoms, objects, lists, texts.
_NUMBER, _ATOM, _OBJECT, _LIST, _TEXT = range(5)


def listed(
    call: ManagementCall, items: Iterable[Described], by: Sequence[str] = ("vhost", "name"), *, paged: bool = True
) -> object:
    """Return a list as the query asks for it. `by` names the keys it is sorted by without a query."""
    ordered = sorted(items, key=lambda item: [_rank(_value(item, key)) for key in by])
    wanted = call.parameters.get("sort")
    if wanted:
        ordered.sort(key=lambda item: _rank(_value(item, wanted)))
    if call.parameters.get("sort_reverse", "true") not in ("true", "false") and not call.compat.takes_any_query:
        raise bad_request("sort_reverse must be true or false")
    if call.flag("sort_reverse"):
        ordered.reverse()
    if not paged or "page" not in call.parameters:
        return [chosen(call, item) for item in ordered]
    return _page(call, ordered)


def chosen(call: ManagementCall, item: Described) -> object:
    """Return the columns of an object that the query asks for."""
    columns = call.parameters.get("columns")
    if columns is None:
        return item
    # RabbitMQ writes an object without any key as an empty list.
    return _chosen(item, [column.split(".") for column in columns.split(",")]) or []


def _chosen(item: Mapping[str, object], columns: list[list[str]]) -> Described:
    kept: Described = {}
    for name, value in item.items():
        inner = [column[1:] for column in columns if column[0] == name]
        if not inner:
            continue
        if isinstance(value, dict) and all(inner) and name not in _OPAQUE:
            value = _chosen(value, inner)
        elif isinstance(value, list) and all(inner):
            value = [_chosen(each, inner) if isinstance(each, dict) else each for each in value]
        kept[name] = value
    return kept


# Objects whose keys are the user's own; RabbitMQ shows them as a whole.
_OPAQUE: Final = ("arguments", "metadata", "definition", "client_properties")


def page_of(call: ManagementCall) -> tuple[int, int]:
    """Return which page the query asks for, and its size. Raises Refusal, also where RabbitMQ would fail."""
    page, size = _number(call, "page", 1), _number(call, "page_size", _PAGE_SIZE)
    if page < 1 or not ("page" not in call.parameters or 1 <= size <= _PAGE_SIZE_MAX):
        reason = f"Invalid pagination parameters: page number {page}, page size {size}"
        raise refused(400, "invalid_pagination_parameters", reason)
    return page, size


def _page(call: ManagementCall, items: list[Described]) -> Described:
    page, size = page_of(call)
    filtered = _filtered(call, items)
    count = -(-len(filtered) // size)
    if page > max(count, 1):
        reason = f"Page out of range, page: {page} page size: {size}, len: {len(filtered)}"
        raise refused(400, "page_out_of_range", reason)
    shown = filtered[(page - 1) * size : page * size]
    return {
        "total_count": len(items),
        "item_count": len(shown),
        "filtered_count": len(filtered),
        "page": page,
        "page_size": size,
        "page_count": count,
        "items": [chosen(call, item) for item in shown],
    }


def _number(call: ManagementCall, name: str, default: int) -> int:
    try:
        return int(call.parameters.get(name, default))
    except ValueError:
        raise bad_request(_INVALID) from None


def _filtered(call: ManagementCall, items: list[Described]) -> list[Described]:
    name = call.parameters.get("name", "")
    if not name:
        return items
    if not call.flag("use_regex"):
        return [item for item in items if name.lower() in str(item.get("name", "")).lower()]
    try:
        pattern = name_pattern(name, "i", is_pcre2=call.compat.has_pcre2)
    except re.error as error:
        if isinstance(error, UnsupportedError):
            raise bad_request(f"name={name!r}: {error}") from None
        if call.compat.takes_any_query:
            return []
        raise bad_request(_INVALID) from None
    return [item for item in items if pattern.search(octets(str(item.get("name", ""))))]


def _value(item: Mapping[str, object], path: str) -> object:
    value: object = item
    *inner, last = [part for part in path.split(".") if part] or [""]
    for part in (*inner, last):
        if not isinstance(value, Mapping | list):
            raise bad_request(f"sort={path}: what stands before {part!r} is no object")
        # What is missing sorts as 0.
        missing: object = 0 if part is last else []
        value = value.get(part, missing) if isinstance(value, Mapping) else missing
    return value


def _rank(value: object) -> tuple[int, object]:
    if isinstance(value, bool) or value is None:
        return _ATOM, str(value)
    if isinstance(value, int | float):
        return _NUMBER, value
    if isinstance(value, str):
        return _TEXT, value.encode("utf-8", "surrogateescape")
    if isinstance(value, list):
        return _LIST, [_rank(each) for each in value]
    assert isinstance(value, Mapping)
    # The number of keys counts first, then the keys.
    names = sorted(value)
    return _OBJECT, (len(names), names, [_rank(value[name]) for name in names])
