"""The names of clients in the steps of a trial: they mean the same client in the next trial."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from leveret.core.protocol.connection import Connection


class ClientNames:
    """The names of the clients of one trial, with " (2)" for the second of a name.

    Unlike a number, a name does not depend on which client connects first.
    """

    def __init__(self) -> None:
        self._names: Final[dict[Connection, str]] = {}
        self._counts: Final[Counter[str]] = Counter()

    def get(self, connection: Connection) -> str | None:
        """Return the name of a client; None if it has none yet."""
        return self._names.get(connection)

    def name_of(self, connection: Connection, given: str, *, is_final: bool = True) -> str:
        """Return the name of a client that gives itself this one, and keep it for the client if that `is_final`."""
        count = self._counts[given] + 1
        name = given if count == 1 else f"{given} ({count})"
        if is_final:
            self._counts[given], self._names[connection] = count, name
        return name
