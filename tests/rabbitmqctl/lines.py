"""Command lines of rabbitmqctl and rabbitmq-diagnostics, and what RabbitMQ 4.3.6 answered to them.

`lines.txt` has the lines, in groups; each group begins on a fresh node. The group "clients" has the clients of
`clients.py`. `record.py` writes `recorded.json`: for each line the exit code, and what went to stdout and stderr.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, TypeVar

from pika.exceptions import AMQPError

from leveret.core.model.operators.node_settings import NODE_NAME
from tests.rabbitmqctl.clients import connect

_FOLDER: Final = Path(__file__).parent
RECORDED: Final = _FOLDER / "recorded.json"
Answer = tuple[str, int, str, str]
_PORT: Final = 5672
T = TypeVar("T")


def _groups() -> dict[str, list[str]]:
    groups: dict[str, list[str]] = {}
    for line in (_FOLDER / "lines.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            groups[line.strip("[]")] = []
        elif line and not line.startswith("#"):
            groups[next(reversed(groups))].append(line)
    return groups


GROUPS: Final = _groups()


def recorded() -> dict[str, list[Answer]]:
    """Return what the server answered, by group."""
    text = RECORDED.read_text(encoding="utf-8") if RECORDED.exists() else "{}"
    return {
        group: [(line, code, out, err) for line, code, out, err in lines] for group, lines in json.loads(text).items()
    }


def words_of(line: str, port: int) -> list[str]:
    """Return the words of a line for a node on this port, with the tool in front."""
    words = [str(port) if word == str(_PORT) else word for word in shlex.split(line)]
    return words if words[0].startswith("rabbitmq-") else ["rabbitmqctl", *words]


@contextmanager
def clients_of(group: str, run: Callable[[str], object], port: int) -> Iterator[None]:
    """Connect the clients of a group."""
    if group != "clients":
        yield
        return
    for line in (
        "add_vhost shop",
        "set_permissions -p shop guest .* .* .*",
        "set_policy -p shop short ^orders '{\"max-length\": 3}'",
    ):
        run(line)
    connection = connect("127.0.0.1", port)
    try:
        yield
    finally:
        # The lines may have closed it.
        with suppress(AMQPError):
            connection.close()


def masked(value: T, node: str, port: int) -> T:
    """Return what a server printed with leveret's node name, usual ports, and marks for what differs in each run."""
    if not isinstance(value, str):
        return value
    text = value.partition("\nAvailable commands:\n")[0].replace(node, NODE_NAME)
    for own, usual in ((port + 10000, 15672), (port + 20000, 25672), (port, _PORT)):
        text = re.sub(rf"\b{own}\b", str(usual), text)
    text = re.sub(r"127\.0\.0\.1:(?!5672\b)\d+", "127.0.0.1:PORT", text)
    return re.sub(rf"<{NODE_NAME}\.\d+\.\d+\.\d+>", f"<{NODE_NAME}.1.2.3>", text)  # type: ignore[return-value]
