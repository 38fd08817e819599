"""The language of scenarios: ``s`` asks the management API, and ``s.amqp`` is a client of the same virtual host.

``get``, ``put``, ``post`` and ``delete`` record what they asked and what was answered. Each returns the parsed body, so
that a scenario can use a value of it. RabbitMQ collects its statistics every five seconds; ``until=`` repeats a request
on a real server until the answer holds these values, while leveret must answer so at once.
"""

from __future__ import annotations

import base64
import json
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol
from urllib.parse import quote

from tests.recording import ALL_VERSIONS, Scenario, Scenarios, Transcript, Transcripts
from tests.semantics import scenario as amqp
from tests.semantics.render import Names
from tests.semantics.target import Endpoint

from . import masking

PASSWORD = "pw"
_HEADERS = ("allow", "content-type", "location", "www-authenticate")
_PATIENCE_S = 30

Answer = tuple[int, Mapping[str, str], bytes]


class Asking(Protocol):
    """A way to ask a server: method, path with query, headers, body."""

    def __call__(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> Answer: ...


def _text_of(kept: Mapping[str, Transcript]) -> str:
    """Return the text of a file of transcripts, with an answer on each line."""
    entries = [f"{json.dumps(name)}: {_lines_of(answers)}" for name, answers in kept.items()]
    return "{\n" + ",\n".join(entries) + "\n}\n"


def _lines_of(answers: Transcript) -> str:
    if isinstance(answers, str):
        return json.dumps(answers)
    return "[\n" + ",\n".join(" " + json.dumps(it, ensure_ascii=False, sort_keys=True) for it in answers) + "\n]"


transcripts = Transcripts(Path(__file__).parent / "transcripts", _text_of)
SCENARIOS = Scenarios()
scenario = SCENARIOS.scenario


class Run:
    """One run of a scenario against one server (``s`` in scenarios)."""

    def __init__(self, endpoint: Endpoint, asking: Asking) -> None:
        self.version = endpoint.version
        self.vhost = endpoint.vhost
        # The virtual host as a segment of a path.
        self.v = quote(endpoint.vhost, safe="")
        self.answers: Transcript = []
        self._endpoint = endpoint
        self._asking = asking
        self._names = Names(endpoint.token)
        self._amqp: amqp.Run | None = None
        self._further: list[str] = []

    @property
    def amqp(self) -> amqp.Run:
        """The AMQP side: ``s.amqp.channel()`` opens a channel in the scenario's virtual host."""
        if self._amqp is None:
            self._amqp = amqp.Run(self._endpoint)
        return self._amqp

    def user(self, name: str) -> str:
        """Return the real name of a user of this run."""
        return self._endpoint.user(name)

    def add_user(self, name: str, tags: str = "", *, vhost: bool = True) -> str:
        """Add a user with the password PASSWORD, and with every permission in the virtual host; return its name."""
        self._endpoint.operator.add_user(name, PASSWORD, tags)
        if vhost:
            self._endpoint.operator.set_permissions(name, self.vhost)
        return self.user(name)

    def further_vhost(self, name: str) -> str:
        """Add another virtual host, and return its name, which is also its segment of a path."""
        made = f"{self.vhost}.{name}"
        self._further.append(made)
        self._endpoint.operator.add_vhost(made)
        self._endpoint.operator.set_permissions("guest", made)
        return made

    def clean_up(self) -> None:
        """End the AMQP side and remove further virtual hosts."""
        if self._amqp is not None:
            self._amqp.finish()
        # On leveret the broker ends with the run.
        for vhost in self._further if self._endpoint.real_time else ():
            self._endpoint.operator.delete_vhost(vhost)

    def get(self, path: str, **options: object) -> object:
        """Ask with GET. `path` follows ``/api``."""
        return self.ask("GET", path, **options)  # type: ignore[arg-type]

    def put(self, path: str, body: object = None, **options: object) -> object:
        """Ask with PUT and a body: text as it is, anything else as JSON."""
        return self.ask("PUT", path, body, **options)  # type: ignore[arg-type]

    def post(self, path: str, body: object = None, **options: object) -> object:
        """Ask with POST and a body."""
        return self.ask("POST", path, body, **options)  # type: ignore[arg-type]

    def delete(self, path: str, body: object = None, **options: object) -> object:
        """Ask with DELETE."""
        return self.ask("DELETE", path, body, **options)  # type: ignore[arg-type]

    def ask(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        user: str | None = "guest",
        password: str | None = None,
        headers: Mapping[str, str] | None = None,
        mine: bool = False,
        without: tuple[str, ...] = (),
        until: Mapping[str, object] | Callable[[object], bool] | None = None,
        unordered: bool = False,
        hidden: bool = False,
    ) -> object:
        """Ask, record, and return the parsed body.

        `user` None sends no credentials. With `mine`, only those items of a list are kept that name the virtual host or
        a user of this run. `without` names keys that are not compared here. With `unordered`,
        lists of objects are sorted, because the server's order varies. With `hidden`, nothing is recorded.
        """
        sent = {} if body is None else {"content-type": "application/json"}
        sent.update(headers or {})
        if user is not None:
            secret = password if password is not None else "guest" if user == "guest" else PASSWORD
            sent["authorization"] = "Basic " + base64.b64encode(f"{self.user(user)}:{secret}".encode()).decode()
        octets = body.encode() if isinstance(body, str) else b"" if body is None else json.dumps(body).encode()
        status, answered, text = self._await(method, f"/api{path}", sent, octets, until)
        parsed = _parsed(text)
        if not hidden:
            shown = _left(parsed, without)
            shown = _sorted(shown) if unordered else shown
            self._record(method, path, body, user, status, answered, shown, mine=mine)
        return parsed

    def _await(
        self,
        method: str,
        target: str,
        headers: Mapping[str, str],
        body: bytes,
        until: Mapping[str, object] | Callable[[object], bool] | None,
    ) -> Answer:
        deadline = time.monotonic() + _PATIENCE_S * self._endpoint.real_time
        while True:
            answer = self._asking(method, target, headers, body)
            if until is None or _holds(_parsed(answer[2]), until):
                return answer
            if time.monotonic() >= deadline:
                print(
                    f"{method} {target}: never answered as the scenario waits for: {answer[2].decode()}",
                    file=sys.stderr,
                )
                return answer
            time.sleep(0.2)

    def _record(
        self,
        method: str,
        path: str,
        body: object,
        user: str | None,
        status: int,
        headers: Mapping[str, str],
        parsed: object,
        *,
        mine: bool,
    ) -> None:
        asked = f"{method} {path}" + ("" if user == "guest" else f" as {user or 'no one'}")
        if body is not None:
            asked += f" {body if isinstance(body, str) else json.dumps(body)}"
        shown = {name: headers[name] for name in _HEADERS if name in headers}
        if mine and isinstance(parsed, list):
            parsed = [each for each in parsed if self._endpoint.token in json.dumps(each)]
        entry = [asked, status, shown, masking.mask(parsed)]
        port = f"port-listener/{self._endpoint.address[1]}"
        text = json.dumps(entry, ensure_ascii=False).replace(port, "port-listener/<port>")
        self.answers.append(json.loads(masking.without_addresses(self._names.clean(text))))


def _parsed(text: bytes) -> object:
    try:
        return json.loads(text) if text else None
    except ValueError:
        return text.decode(errors="replace")


def _sorted(value: object) -> object:
    if isinstance(value, list):
        return sorted(map(_sorted, value), key=json.dumps)
    if isinstance(value, dict):
        return {key: _sorted(each) for key, each in sorted(value.items())}
    return value


def _left(value: object, without: tuple[str, ...]) -> object:
    if isinstance(value, list):
        return [_left(each, without) for each in value]
    if isinstance(value, dict):
        return {key: _left(each, without) for key, each in value.items() if key not in without}
    return value


def _holds(value: object, wanted: object) -> bool:
    """Return whether an answer holds the wanted values; of a list, one item must hold them."""
    if callable(wanted):
        return bool(wanted(value))
    if isinstance(wanted, Mapping):
        if isinstance(value, list):
            return any(_holds(each, wanted) for each in value)
        return isinstance(value, dict) and all(_holds(value.get(key), each) for key, each in wanted.items())
    return value == wanted


def run(scenario: Scenario, endpoint: Endpoint, asking: Asking) -> Transcript:
    """Return the transcript of a scenario on a server."""
    current = Run(endpoint, asking)
    try:
        scenario.function(current)
    finally:
        current.clean_up()
    return current.answers


__all__ = ["ALL_VERSIONS", "SCENARIOS", "Run", "Scenario", "run", "scenario", "transcripts"]
