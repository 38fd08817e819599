"""The command that records what the commands of a real server print::

    python -m tests.rabbitmqctl.record --run "docker exec rabbit" --port 5672 [--only GROUP] [--commands]

`--run` is what runs a command beside the server, which must be of its own: it is reset before each group. Its name and
ports become those of leveret. With `--commands`, it writes what the tools say of their commands, and records no line.
"""

from __future__ import annotations

import argparse
import json
import shlex
import subprocess
from importlib.resources import files
from pathlib import Path
from typing import Any

from leveret.http import rabbitmqctl
from leveret.http.rabbitmqctl.running import TOOLS

from .lines import GROUPS, RECORDED, Answer, clients_of, masked, recorded, words_of


def _run(prefix: list[str], line: str, port: int = 0) -> tuple[int, str, str]:
    done = subprocess.run([*prefix, *words_of(line, port)], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    return done.returncode, done.stdout, done.stderr


def main() -> None:
    """Record the groups, and write them to the file."""
    parser = argparse.ArgumentParser(description="record what the commands of a real server print")
    parser.add_argument("--run", required=True, help="what runs a command beside the server")
    parser.add_argument("--port", type=int, required=True, help="the server's port for AMQP")
    parser.add_argument("--only", action="append", choices=[*GROUPS])
    parser.add_argument("--commands", action="store_true", help="write commands.json of the package")
    options = parser.parse_args()
    prefix = shlex.split(options.run)
    if options.commands:
        _write_commands(prefix)
        return
    for group in options.only or GROUPS:
        for line in ("stop_app", "reset", "start_app"):
            code, *output = _run(prefix, line)
            assert code == 0, (line, output)
        _, node, _ = _run(prefix, "eval 'node().'")
        with clients_of(group, lambda line: _run(prefix, line), options.port):
            answers = [
                (line, *(masked(it, node.strip().strip("'"), options.port) for it in _run(prefix, line, options.port)))
                for line in GROUPS[group]
            ]
        _save({**recorded(), group: answers})


def _write_commands(prefix: list[str]) -> None:
    program = (RECORDED.parent / "commands.exs").read_text(encoding="utf-8")
    done = subprocess.run([*prefix, "rabbitmqctl", "exec", program], capture_output=True, text=True, check=True)
    rows: dict[str, dict[str, Any]] = json.loads(done.stdout.splitlines()[0])
    for row in rows.values():
        row["tools"] = [scope for scope in row.pop("scopes") if scope in TOOLS.values()]
        names = {name: f"--{name.replace('_', '-')}" for name in row["switches"]}
        row["aliases"] = {f"-{letter}": names[name] for letter, name in row["aliases"].items() if name in names}
        row["switches"] = {names[name]: kind for name, kind in row["switches"].items()}
    lines = (
        f"{json.dumps(name)}: {json.dumps({k: v for k, v in row.items() if v})}" for name, row in sorted(rows.items())
    )
    path = files(rabbitmqctl).joinpath("commands.json")
    Path(str(path)).write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


def _save(answers: dict[str, list[Answer]]) -> None:
    groups = (
        f'"{group}": [\n' + ",\n".join(map(json.dumps, answers[group])) + "\n]" for group in GROUPS if group in answers
    )
    RECORDED.write_text("{\n" + ",\n".join(groups) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
