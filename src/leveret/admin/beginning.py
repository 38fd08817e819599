"""What a broker begins with: users, virtual hosts and definitions. It begins with them again after a reset.

It knows nodes only, so it can act before the broker has a port.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from os import PathLike, fspath
from pathlib import Path

from leveret.core.model.node import Node

_GUEST = "guest"


def beginning(
    users: Mapping[str, str],
    vhosts: Iterable[str],
    definitions: Mapping[str, object] | str | PathLike[str] | None,
    tags: tuple[str, ...] = (),
) -> Callable[[Node], None]:
    """Return what gives a new node its users, with these tags, virtual hosts and definitions, in this order.

    Guest and `users` get every right on "/" and on `vhosts`. On the virtual hosts of `definitions`, they have the
    rights that these grant. Raises BrokerError if the file of definitions cannot be read.
    """
    names = ("/", *vhosts)
    described = None if definitions is None else _read(definitions)

    def begin(node: Node) -> None:
        for name in names:
            node.add_vhost(name)
        for user, password in users.items():
            node.access.set_user(user, password, tags)
        for user in (_GUEST, *users):
            for name in names:
                node.access.set_permission(name, user)
        if described is not None:
            from leveret.admin import definitions_import
            from leveret.observe.checks.not_in_definitions import parts_of

            definitions_import.warn_of(
                definitions_import.load(node, described, definitions_import.default_vhost(described))
            )
            node.defined = frozenset(parts_of(node))

    return begin


def _read(definitions: Mapping[str, object] | str | PathLike[str]) -> Mapping[str, object]:
    from leveret.admin import definitions_import
    from leveret.errors import BrokerError

    if not isinstance(definitions, Mapping | str | PathLike):
        raise TypeError(
            f"Broker(): definitions={definitions!r} must be the path of a definitions.json, or what json.load returns"
        )
    source = definitions if isinstance(definitions, Mapping) else Path(fspath(definitions))
    try:
        return definitions_import.read(source)
    except OSError as error:
        raise BrokerError(f"definitions={str(source)!r} cannot be read: {error.strerror or error}") from None
