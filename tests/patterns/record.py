"""Ask RabbitMQ servers which names each pattern of `recorded.json` matches, and write their answers there.

    python -m tests.patterns.record 4.3=http://guest:guest@127.0.0.1:15672 4.0=...

Each pattern becomes a policy, and RabbitMQ shows which exchanges have it. Queues go by the same patterns, but show
their policies only with the next statistics.
"""

from __future__ import annotations

import json
import sys
from base64 import b64encode
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import quote, urlsplit

RECORDED = Path(__file__).with_name("recorded.json")
INVALID = "invalid"
VHOST = "leveret-patterns"


class Server:
    """The management API of a server."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._connection = HTTPConnection(parts.hostname or "", parts.port)
        user = f"{parts.username}:{parts.password}".encode()
        self._headers = {"authorization": f"Basic {b64encode(user).decode()}", "content-type": "application/json"}

    def ask(self, method: str, path: str, body: object = None) -> tuple[int, str]:
        content = None if body is None else json.dumps(body)
        self._connection.request(method, f"/api/{path}", content, self._headers)
        answer = self._connection.getresponse()
        return answer.status, answer.read().decode()

    def declare(self, names: list[str]) -> None:
        self.ask("DELETE", f"vhosts/{VHOST}")
        self.ask("PUT", f"vhosts/{VHOST}")
        self.ask("PUT", f"permissions/{VHOST}/guest", {"configure": ".*", "write": ".*", "read": ".*"})
        for name in names:
            status, text = self.ask("PUT", f"exchanges/{VHOST}/{quote(name, safe='')}", {"type": "direct"})
            assert status in (201, 204), (name, text)

    def choice(self, pattern: str, names: list[str]) -> str:
        """Return which of the names a policy with the pattern chooses, as bits in hexadecimal, or `INVALID`."""
        policy = {"pattern": pattern, "definition": {"alternate-exchange": "x"}, "apply-to": "exchanges"}
        status, _ = self.ask("PUT", f"policies/{VHOST}/p", policy)
        if status == 400:
            return INVALID
        _, text = self.ask("GET", f"exchanges/{VHOST}?columns=name,policy")
        self.ask("DELETE", f"policies/{VHOST}/p")
        chosen = {item["name"] for item in json.loads(text) if item.get("policy") == "p"}
        return bits([name in chosen for name in names])


def bits(found: list[bool]) -> str:
    """Return answers as bits in hexadecimal, the first as the highest."""
    return f"{int(''.join(map(str, map(int, found))), 2):x}"


def main(servers: list[str]) -> None:
    recorded = json.loads(RECORDED.read_text())
    for version, url in (server.split("=", 1) for server in servers):
        server = Server(url)
        server.declare(recorded["names"])
        for kind in ("real", "generated"):
            for pattern, answers in recorded[kind].items():
                answers[version] = server.choice(pattern, recorded["names"])
        server.ask("DELETE", f"vhosts/{VHOST}")
    write(recorded)


def write(recorded: dict[str, object]) -> None:
    """Write what was recorded, a pattern a line."""
    sections = []
    for section, content in recorded.items():
        if isinstance(content, dict):
            lines = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in content.items()]
            sections.append(f'"{section}": {{\n' + ",\n".join(lines) + "\n}")
        else:
            sections.append(f'"{section}": {json.dumps(content)}')
    RECORDED.write_text("{\n" + ",\n".join(sections) + "\n}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
