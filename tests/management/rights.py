"""Who may ask what: every kind of login sends every request, and the table holds the status and reason of each answer.

The command records the table of a real server::

    python -m tests.management.rights --oracle 4.3=amqp://guest:guest@127.0.0.1:5672

A table is a text: a letter for each answer, then a line for each request with one letter for each login. What a request
has changed is put right before the next one, so each cell stands alone.
"""

from __future__ import annotations

import argparse
import string
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from . import target
from .scenario import Run

# What an answer shows in place of the token in the names of a run.
MASKED_TOKEN = "scenario"
FAILED = "500"
FOLDER = Path(__file__).parent / "rights"
_ALL, _NONE, _OWN = (".*",) * 3, ("^$",) * 3, ("^own-",) * 3


class Login(NamedTuple):
    """A user with its tags and its permission in the first virtual host; without tags, one that the server refuses."""

    name: str
    tags: str | None = None
    permission: tuple[str, ...] | None = None
    password: str | None = None


LOGINS = (
    Login("administrator", "administrator", _ALL),
    Login("administrator.none", "administrator", _NONE),
    Login("administrator.away", "administrator"),
    Login("monitoring", "monitoring", _ALL),
    Login("monitoring.own", "monitoring", _OWN),
    Login("monitoring.away", "monitoring"),
    Login("policymaker", "policymaker", _ALL),
    Login("policymaker.own", "policymaker", _OWN),
    Login("policymaker.away", "policymaker"),
    Login("management", "management", _ALL),
    Login("management.none", "management", _NONE),
    Login("management.own", "management", _OWN),
    Login("management.away", "management"),
    Login("several", "monitoring,policymaker,impersonator", _OWN),
    Login("impersonator", "impersonator", _ALL),
    Login("untagged", "", _ALL),
    Login("wrong", "administrator", _ALL, "a wrong password"),
    Login("unknown"),
    Login("anonymous"),
)

_POLICY = {"pattern": "^nothing$", "definition": {"max-length": 1}}
_GET = {"count": 1, "ackmode": "ack_requeue_true", "encoding": "auto"}
_PUBLISH = {"properties": {}, "routing_key": "nowhere", "payload": "x", "payload_encoding": "string"}
_RIGHTS = {"configure": "^$", "write": "^$", "read": "^$"}
_TOPIC = {"exchange": "amq.topic", "write": "^$", "read": "^$"}
_NEW = {"durable": True}

# The requests, with `{vhost}` for three virtual hosts: one of the login, one of others, and none.
_IN_VHOST: tuple[tuple[str, object], ...] = (
    ("GET /vhosts/{vhost}", None),
    ("PUT /vhosts/{vhost}", {"description": "x"}),
    ("DELETE /vhosts/{vhost}", None),
    ("GET /vhosts/{vhost}/permissions", None),
    ("GET /vhosts/{vhost}/topic-permissions", None),
    ("GET /vhosts/{vhost}/connections", None),
    ("GET /vhosts/{vhost}/channels", None),
    ("POST /vhosts/{vhost}/start/nothing", None),
    ("POST /vhosts/{vhost}/start/{node}", None),
    ("GET /vhosts/{vhost}/deletion/protection", None),
    ("POST /vhosts/{vhost}/deletion/protection", None),
    ("DELETE /vhosts/{vhost}/deletion/protection", None),
    ("GET /vhost-limits/{vhost}", None),
    ("PUT /vhost-limits/{vhost}/max-queues", {"value": 100}),
    ("DELETE /vhost-limits/{vhost}/max-queues", None),
    ("GET /definitions/{vhost}", None),
    ("POST /definitions/{vhost}", {}),
    ("GET /permissions/{vhost}/guest", None),
    ("GET /permissions/{vhost}/{me}", None),
    ("PUT /permissions/{vhost}/{other}", _RIGHTS),
    ("PUT /permissions/{vhost}/nothing", _RIGHTS),
    ("DELETE /permissions/{vhost}/{other}", None),
    ("GET /topic-permissions/{vhost}/{other}", None),
    ("PUT /topic-permissions/{vhost}/{other}", _TOPIC),
    ("DELETE /topic-permissions/{vhost}/{other}", None),
    ("GET /topic-permissions/{vhost}/{other}/amq.topic", None),
    ("PUT /topic-permissions/{vhost}/{other}/amq.topic", _TOPIC),
    ("DELETE /topic-permissions/{vhost}/{other}/amq.topic", None),
    ("GET /policies/{vhost}", None),
    ("GET /policies/{vhost}/p", None),
    ("GET /policies/{vhost}/nothing", None),
    ("PUT /policies/{vhost}/p", _POLICY),
    ("DELETE /policies/{vhost}/p", None),
    ("GET /operator-policies/{vhost}", None),
    ("GET /operator-policies/{vhost}/p", None),
    ("GET /operator-policies/{vhost}/nothing", None),
    ("PUT /operator-policies/{vhost}/p", _POLICY),
    ("DELETE /operator-policies/{vhost}/p", None),
    ("GET /parameters/vhost-limits/{vhost}", None),
    ("GET /parameters/nothing/{vhost}", None),
    ("GET /parameters/vhost-limits/{vhost}/limits", None),
    ("PUT /parameters/vhost-limits/{vhost}/limits", {"value": {"max-queues": 100}}),
    ("PUT /parameters/nothing/{vhost}/x", {"value": 1}),
    ("DELETE /parameters/vhost-limits/{vhost}/limits", None),
    ("GET /exchanges/{vhost}", None),
    ("GET /exchanges/{vhost}/own-x", None),
    ("GET /exchanges/{vhost}/amq.default", None),
    ("GET /exchanges/{vhost}/nothing", None),
    ("PUT /exchanges/{vhost}/own-new", _NEW),
    ("PUT /exchanges/{vhost}/new", _NEW),
    ("DELETE /exchanges/{vhost}/own-x", None),
    ("DELETE /exchanges/{vhost}/x", None),
    ("DELETE /exchanges/{vhost}/nothing", None),
    ("POST /exchanges/{vhost}/own-x/publish", _PUBLISH),
    ("POST /exchanges/{vhost}/x/publish", _PUBLISH),
    ("POST /exchanges/{vhost}/amq.default/publish", _PUBLISH),
    ("GET /exchanges/{vhost}/x/bindings/source", None),
    ("GET /exchanges/{vhost}/x/bindings/destination", None),
    ("GET /queues/{vhost}", None),
    ("GET /queues/{vhost}/own-q", None),
    ("GET /queues/{vhost}/q", None),
    ("GET /queues/{vhost}/nothing", None),
    ("PUT /queues/{vhost}/own-new", _NEW),
    ("PUT /queues/{vhost}/new", _NEW),
    ("DELETE /queues/{vhost}/own-q", None),
    ("DELETE /queues/{vhost}/q", None),
    ("DELETE /queues/{vhost}/nothing", None),
    ("DELETE /queues/{vhost}/own-q/contents", None),
    ("DELETE /queues/{vhost}/q/contents", None),
    ("POST /queues/{vhost}/own-q/actions", {"action": "nothing"}),
    ("POST /queues/{vhost}/own-q/get", _GET),
    ("POST /queues/{vhost}/q/get", _GET),
    ("GET /queues/{vhost}/q/bindings", None),
    ("GET /bindings/{vhost}", None),
    ("GET /bindings/{vhost}/e/own-x/q/own-q", None),
    ("POST /bindings/{vhost}/e/own-x/q/own-q", {"routing_key": "new"}),
    ("POST /bindings/{vhost}/e/own-x/q/q", {"routing_key": "new"}),
    ("POST /bindings/{vhost}/e/x/q/own-q", {"routing_key": "new"}),
    ("POST /bindings/{vhost}/e/x/e/own-x", {"routing_key": "new"}),
    ("GET /bindings/{vhost}/e/own-x/q/own-q/k", None),
    ("DELETE /bindings/{vhost}/e/own-x/q/own-q/k", None),
    ("DELETE /bindings/{vhost}/e/x/q/own-q/k", None),
    ("GET /consumers/{vhost}", None),
    ("GET /aliveness-test/{vhost}", None),
    ("GET /health/checks/quorum-queues-without-elected-leaders/vhost/{vhost}", None),
    ("GET /health/checks/quorum-queues-without-elected-leaders/vhost/{vhost}/pattern/x", None),
)
_ELSEWHERE: tuple[tuple[str, object], ...] = (
    ("GET /overview", None),
    ("GET /cluster-name", None),
    ("PUT /cluster-name", {}),
    ("GET /nodes", None),
    ("GET /nodes/{node}", None),
    ("GET /nodes/nothing", None),
    ("GET /extensions", None),
    ("GET /version", None),
    ("GET /whoami", None),
    ("GET /auth", None),
    ("GET /auth/hash_password/x", None),
    ("GET /auth/attempts/{node}", None),
    ("DELETE /auth/attempts/{node}", None),
    ("GET /feature-flags", None),
    ("PUT /feature-flags/nothing/enable", {"name": "nothing"}),
    ("GET /deprecated-features", None),
    ("GET /deprecated-features/used", None),
    ("POST /rebalance/queues", None),
    ("GET /definitions", None),
    ("POST /definitions", {}),
    ("GET /vhosts", None),
    ("PUT /vhosts/{name}.new", {}),
    ("GET /vhost-limits", None),
    ("GET /users", None),
    ("GET /users/without-permissions", None),
    ("POST /users/bulk-delete", {"users": []}),
    ("GET /users/{me}", None),
    ("GET /users/{other}", None),
    ("GET /users/nothing", None),
    ("PUT /users/{other}", {"password": "x", "tags": ""}),
    ("PUT /users/{other}.new", {"password": "x", "tags": ""}),
    ("DELETE /users/{other}", None),
    ("DELETE /users/nothing", None),
    ("GET /users/{me}/permissions", None),
    ("GET /users/{other}/permissions", None),
    ("GET /users/{other}/topic-permissions", None),
    ("GET /user-limits", None),
    ("GET /user-limits/{me}", None),
    ("GET /user-limits/{other}", None),
    ("GET /user-limits/nothing", None),
    ("PUT /user-limits/{me}/max-channels", {"value": 100}),
    ("PUT /user-limits/{other}/max-channels", {"value": 100}),
    ("DELETE /user-limits/{other}/max-channels", None),
    ("GET /permissions", None),
    ("GET /topic-permissions", None),
    ("GET /policies", None),
    ("GET /operator-policies", None),
    ("GET /parameters", None),
    ("GET /parameters/vhost-limits", None),
    ("GET /parameters/nothing", None),
    ("GET /global-parameters", None),
    ("GET /global-parameters/{name}", None),
    ("GET /global-parameters/nothing", None),
    ("PUT /global-parameters/{name}", {"value": 1}),
    ("DELETE /global-parameters/{name}", None),
    ("GET /exchanges", None),
    ("GET /queues", None),
    ("GET /queues/detailed", None),
    ("GET /bindings", None),
    ("GET /connections", None),
    ("GET /connections/nothing", None),
    ("DELETE /connections/nothing", None),
    ("GET /connections/nothing/channels", None),
    ("GET /connections/username/{me}", None),
    ("GET /connections/username/{other}", None),
    ("GET /connections/username/nothing", None),
    ("DELETE /connections/username/{me}", None),
    ("DELETE /connections/username/{other}", None),
    ("DELETE /connections/username/nothing", None),
    ("GET /channels", None),
    ("GET /channels/nothing", None),
    ("GET /consumers", None),
    ("GET /healthchecks/node", None),
    ("GET /healthchecks/node/{node}", None),
    ("GET /healthchecks/node/nothing", None),
    ("DELETE /reset/nothing", None),
    ("GET /health/checks/alarms", None),
    ("GET /health/checks/local-alarms", None),
    ("GET /health/checks/virtual-hosts", None),
    ("GET /health/checks/node-is-quorum-critical", None),
    ("GET /health/checks/node-is-mirror-sync-critical", None),
    ("GET /health/checks/port-listener/1", None),
    ("GET /health/checks/protocol-listener/nothing", None),
    ("GET /health/checks/certificate-expiration/1/days", None),
    ("GET /health/checks/ready-to-serve-clients", None),
    ("GET /health/checks/is-in-service", None),
    ("GET /health/checks/below-node-connection-limit", None),
    ("GET /health/checks/metadata-store/initialized", None),
    ("GET /health/checks/reached-target-cluster-size", None),
    ("GET /health/checks/metadata-store/initialized/with-data", None),
    ("GET /health/checks/quorum-queues-without-elected-leaders/all-vhosts", None),
    ("GET /health/checks/quorum-queues-without-elected-leaders/all-vhosts/pattern/x", None),
    ("GET /nothing", None),
)
VHOSTS = ("mine", "theirs", "missing")
REQUESTS: tuple[tuple[str, object], ...] = (
    *_ELSEWHERE,
    *((text.replace("{vhost}", f"{{{vhost}}}"), body) for text, body in _IN_VHOST for vhost in VHOSTS),
)

# What stands in both virtual hosts before every request, and what does not.
_THINGS: dict[str, tuple[tuple[str, object], ...]] = {
    "vhosts": (
        ("PUT /vhosts/{vhost}", {}),
        ("DELETE /vhosts/{vhost}/deletion/protection", None),
        ("PUT /permissions/{vhost}/guest", {"configure": ".*", "write": ".*", "read": ".*"}),
    ),
    "permissions": (("PUT /permissions/{vhost}/{other}", _RIGHTS),),
    "topic-permissions": (("PUT /topic-permissions/{vhost}/{other}", _TOPIC),),
    "vhost-limits": (("PUT /vhost-limits/{vhost}/max-queues", {"value": 100}),),
    "policies": (("PUT /policies/{vhost}/p", _POLICY),),
    "operator-policies": (("PUT /operator-policies/{vhost}/p", _POLICY),),
    "exchanges": (
        ("DELETE /exchanges/{vhost}/own-new", None),
        ("DELETE /exchanges/{vhost}/new", None),
        ("PUT /exchanges/{vhost}/own-x", _NEW),
        ("PUT /exchanges/{vhost}/x", _NEW),
    ),
    "queues": (
        ("DELETE /queues/{vhost}/own-new", None),
        ("DELETE /queues/{vhost}/new", None),
        ("PUT /queues/{vhost}/own-q", _NEW),
        ("PUT /queues/{vhost}/q", _NEW),
    ),
    "bindings": (
        ("DELETE /bindings/{vhost}/e/own-x/q/own-q/new", None),
        ("DELETE /bindings/{vhost}/e/own-x/q/q/new", None),
        ("DELETE /bindings/{vhost}/e/x/q/own-q/new", None),
        ("DELETE /bindings/{vhost}/e/x/e/own-x/new", None),
        ("POST /bindings/{vhost}/e/own-x/q/own-q", {"routing_key": "k"}),
        ("POST /bindings/{vhost}/e/x/q/own-q", {"routing_key": "k"}),
    ),
}
_OTHER_THINGS: dict[str, tuple[tuple[str, object], ...]] = {
    "vhosts": (("DELETE /vhosts/{missing}", None), ("DELETE /vhosts/{name}.new", None)),
    "users": (("PUT /users/{other}", {"password": "x", "tags": ""}), ("DELETE /users/{other}.new", None)),
    "user-limits": (("PUT /user-limits/{other}/max-channels", {"value": 100}),),
    "global-parameters": (("PUT /global-parameters/{name}", {"value": 1}),),
}
# Whatever goes with a thing.
_WITH = {
    "parameters": ("vhost-limits",),
    "users": ("users", "permissions", "topic-permissions", "user-limits"),
    "exchanges": ("exchanges", "bindings"),
    "queues": ("queues", "bindings"),
    "vhosts": tuple(dict.fromkeys((*_THINGS, *_OTHER_THINGS))),
}

# It would forget the statistics of everything else that a server does.
NOT_ASKED = ("DELETE /api/reset",)

# The status and the reason of an answer, for each login and request.
Table = dict[str, list[str]]


class World:
    """The virtual hosts, users and things that the logins of a table ask for."""

    def __init__(self, run: Run) -> None:
        self._run = run
        theirs = run.further_vhost("theirs")
        self._names = {
            "mine": run.v,
            "theirs": theirs,
            "missing": f"{theirs}.missing",
            "name": run.v,
            "other": run.user("other"),
            "node": run.get("/nodes", hidden=True)[0]["name"],  # type: ignore[index]
        }
        for login in LOGINS:
            if login.tags is not None:
                run.add_user(login.name, login.tags, vhost=False)
        self._repair(("users",))
        self._repair(("vhosts",))

    def _repair(self, sections: tuple[str, ...]) -> None:
        for section in dict.fromkeys(each for one in sections for each in _WITH.get(one, (one,))):
            for text, body in _OTHER_THINGS.get(section, ()):
                self._ask("guest", text, body)
            for vhost in VHOSTS[:2]:
                for text, body in _THINGS.get(section, ()):
                    self._ask("guest", text.replace("{vhost}", f"{{{vhost}}}"), body)
        if "vhosts" in sections:
            for login in LOGINS:
                if login.permission is not None:
                    rights = dict(zip(("configure", "write", "read"), login.permission, strict=True))
                    self._ask("guest", f"PUT /permissions/{{mine}}/{self._run.user(login.name)}", rights)

    def _ask(self, user: str | None, text: str, body: object, password: str | None = None) -> tuple[int, object]:
        method, path = text.split(" ")
        me = self._run.user(user or "anonymous")
        self._run.ask(method, path.format(me=me, **self._names), body, user=user, password=password)
        _, status, _, parsed = self._run.answers.pop()
        assert isinstance(status, int)
        return status, parsed

    def answer(self, login: Login, text: str, body: object) -> str:
        """Return the status and the reason of what a login is answered, and put right what it changed."""
        user = None if login.name == "anonymous" else login.name
        status, parsed = self._ask(user, text, body, login.password)
        if status < 300 and not text.startswith("GET"):
            self._repair((text.split("/")[1],))
        if status < 400 or not isinstance(parsed, dict):
            return str(status)
        reason = " ".join(str(parsed.get("reason", "")).split()).replace(f"{login.name}.{MASKED_TOKEN}", "<me>")
        return f"{status} {parsed.get('error')}: {reason}"

    def clean_up(self) -> None:
        """Remove what the server does not remove with the run."""
        self._ask("guest", "DELETE /users/{other}", None)
        self._ask("guest", "DELETE /global-parameters/{name}", None)


def table_of(run: Run) -> Table:
    """Return what a server answers."""
    world = World(run)
    try:
        return {text: [world.answer(login, text, body) for login in LOGINS] for text, body in REQUESTS}
    finally:
        world.clean_up()


def path_of(version: str) -> Path:
    return FOLDER / f"{version}.txt"


def load(version: str) -> Table:
    """Return the recorded table of a version."""
    lines = path_of(version).read_text(encoding="utf-8").splitlines()
    answers = dict(line.split(" ", 1) for line in lines if line[1:2] == " ")
    rows = (line.split(" ", 1) for line in lines if line and line[1:2] != " " and not line.startswith("#"))
    return {text: [answers[letter] for letter in letters] for letters, text in rows}


def save(version: str, table: Table) -> None:
    """Write the table of a version."""
    used = list(dict.fromkeys(answer for row in table.values() for answer in row))
    letters = dict(zip(used, string.ascii_letters + string.digits + "!$%&*+,-./:;<=>?@^_~", strict=False))
    assert len(letters) == len(used), "the table has too many different answers"
    lines = [f"# {' '.join(login.name for login in LOGINS)}", ""]
    lines += [f"{letter} {answer}" for answer, letter in letters.items()]
    lines += ["", *(f"{''.join(letters[answer] for answer in row)} {text}" for text, row in table.items())]
    FOLDER.mkdir(exist_ok=True)
    path_of(version).write_text("\n".join(lines) + "\n", encoding="utf-8")


def merged(tables: list[Table]) -> Table:
    """Return one table of several recordings.

    A server fails now and then, or reports the trouble of a queue of others. All other answers must be the same.
    """
    found: Table = {}
    for text in tables[0]:
        cells = [set(cell) for cell in zip(*(table[text] for table in tables), strict=True)]
        answers = [[it for it in cell if not it.startswith("50")] or sorted(cell)[:1] for cell in cells]
        assert all(len(cell) == 1 for cell in answers), f"{text} is answered in several ways: {answers}"
        found[text] = [cell[0] for cell in answers]
    return found


def differences(expected: Table, got: Table) -> Iterator[str]:
    """Yield a line for each cell that differs. Where RabbitMQ fails with 500, leveret may answer as it likes."""
    assert list(expected) == list(got), "the requests have changed; record the table anew"
    for text, row in expected.items():
        for login, wanted, given in zip(LOGINS, row, got[text], strict=True):
            if wanted not in (FAILED, given):
                yield f"{text} as {login.name}: expected {wanted}; got {given}"


def main() -> None:
    """Record the tables of servers."""
    parser = argparse.ArgumentParser(description="record who may ask what of the management API of real servers")
    parser.add_argument("--oracle", action="append", required=True, metavar="VERSION=URL")
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args()
    for pair in options.oracle:
        version, url = pair.split("=", 1)
        table = merged([_recorded(version, url) for _ in range(options.repeat)])
        save(version, table)
        failed = sum(row.count(FAILED) for row in table.values())
        cells = len(table) * len(LOGINS)
        print(f"{version}: {len(table)} requests of {len(LOGINS)} logins, {cells} cells; the server failed in {failed}")


def _recorded(version: str, url: str) -> Table:
    with target.oracle(url, version) as (endpoint, asking):
        run = Run(endpoint, asking)
        try:
            return table_of(run)
        finally:
            run.clean_up()


if __name__ == "__main__":
    main()
