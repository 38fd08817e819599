"""The lanes of a sequence: the test, each client, exchange and queue, with the name under which events refer to it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from leveret.core.model.reply_to import NAME as DIRECT_REPLY
from leveret.trace.caller import Caller

Lane = dict[str, Any]

_KINDS: Final = ("test", "client", "exchange", "queue")


class Lanes:
    """The lanes of one broker, made when an event names them first."""

    def __init__(self, broker: str) -> None:
        self._broker = broker
        self._lanes: dict[str, Lane] = {}
        # The lanes of exchanges and queues, by what they are, their virtual host and their name.
        self._places: dict[tuple[str, str, str], str] = {}
        # Those that an event leads from or to.
        self._drawn: dict[str, None] = {}

    def test(self) -> str:
        """Return the lane of the test itself."""
        return self._add("t", "test", "test")

    def client(self, number: int | None, name: str = "", detail: str = "", line: Caller | None = None) -> str:
        """Return the lane of a client's connection; None is the test itself."""
        if number is None:
            return self.test()
        lane = self._add(f"c{number}", "client", f"c{number} {name}".rstrip())
        if detail:
            self._lanes[lane] |= {"label": f"c{number} {name}".rstrip(), "detail": detail}
        if line is not None:
            self._lanes[lane]["line"] = line.text(has_functions=False)
        return lane

    def join(self, numbers: list[int]) -> dict[str, str]:
        """Let connections share the lane of the first, and return that of each other."""
        lanes = [f"{self._broker}/c{number}" for number in numbers]
        first = self._lanes.get(lanes[0])
        if first is not None:
            among = ", " if len(numbers) == 2 else " … "
            first["label"] = first["label"].replace(f"c{numbers[0]}", f"c{numbers[0]}{among}c{numbers[-1]}", 1)
        return dict.fromkeys(lanes[1:], lanes[0]) if first is not None else {}

    def place(self, kind: str, vhost: str, name: str) -> str:
        """Return the lane of an exchange or a queue, which `kind` says."""
        lane = self._places.get((kind, vhost, name))
        if lane is None:
            label = _label(vhost, name or ("(default exchange)" if kind == "exchange" else ""))
            lane = self._places[kind, vhost, name] = self._add(place_id(kind, vhost, name), kind, label)
        return lane

    def id_of(self, kind: str, vhost: str, name: str) -> str:
        """Return the name of an exchange or a queue, which need not have a lane."""
        return f"{self._broker}/{place_id(kind, vhost, name)}"

    def draw(self, lanes: Iterable[str]) -> None:
        """Note that lanes are drawn."""
        self._drawn |= dict.fromkeys(lanes)

    def in_order(self) -> list[Lane]:
        """Return the lanes that are drawn, in that order."""
        drawn = [self._lanes[name] for name in self._lanes if name in self._drawn]
        return sorted(drawn, key=lambda lane: _KINDS.index(lane["kind"]))

    def _add(self, name: str, kind: str, label: str) -> str:
        lane = f"{self._broker}/{name}"
        if lane not in self._lanes:
            self._lanes[lane] = {"id": lane, "broker": self._broker, "kind": kind, "label": label}
        return lane


def place_id(kind: str, vhost: str, name: str) -> str:
    """Return the name of an exchange or a queue within its broker."""
    letter = "x" if kind == "exchange" else "q"
    return f"{letter}/{name}" if vhost == "/" else f"{letter}@{vhost}/{name}"


def shown_name(name: str | None) -> str:
    """Return the name of a queue, without what is generated in the name of a direct reply."""
    return DIRECT_REPLY if name is not None and name.startswith(f"{DIRECT_REPLY}.") else name or ""


def _label(vhost: str, name: str) -> str:
    return shown_name(name) if vhost == "/" else f"{shown_name(name)} (vhost {vhost})"
