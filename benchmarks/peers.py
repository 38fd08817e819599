"""What a test costs on leveret and on what else there is: a real RabbitMQ, kombu's memory transport, FastStream's
TestRabbitBroker, amqp-mock.

Each pair runs the same test, with the same client, on the peer and on leveret: publish an order, consume it, and
acknowledge it. The tests are in `peer_tests`. All sides run in turns, so that a busy machine slows all of them. The
cost of a test is the median of set-up, call and teardown, as pytest reports them, without the first test of a run,
which pays for imports. On a busy machine, compare the time of the processor; it leaves out what RabbitMQ does.

    pip install 'leveret[pytest]' 'faststream[rabbit]' amqp-mock pytest-rabbitmq kombu aio-pika
    python benchmarks/peers.py --rabbitmq-server /usr/sbin/rabbitmq-server --rabbitmqctl /usr/sbin/rabbitmqctl

Without these two options, the rows of RabbitMQ are left out. testcontainers needs Docker, so it is not measured. It
starts a container and then the same server, so the start of RabbitMQ is the least that it takes.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent
TESTS = HERE / "peer_tests"
PHASES = ("setup", "call", "teardown")


class Pair(NamedTuple):
    """A peer, the file with its test, and the function of `start.py` that starts it, if it runs in this process."""

    peer: str
    client: str
    file: str
    start: str | None


RABBITMQ = Pair("pytest-rabbitmq", "pika", "test_pika.py", None)
TIDY_RABBITMQ = Pair("pytest-rabbitmq, own clean-up", "pika", "test_pika.py", None)
PAIRS = (
    Pair("kombu memory", "kombu", "test_kombu.py", "kombu_memory"),
    Pair("TestRabbitBroker", "faststream", "test_faststream.py", "faststream"),
    Pair("amqp-mock", "aio-pika", "test_aio_pika.py", "amqp_mock"),
    RABBITMQ,
    TIDY_RABBITMQ,
)


def main() -> None:
    options = arguments()
    pairs = [pair for pair in PAIRS if pair.start or options.rabbitmq_server]
    starts: dict[str, list[float]] = {}
    costs: dict[tuple[str, str], list[dict[str, float]]] = {}
    for _ in range(options.rounds):
        starts.setdefault("leveret", []).append(start_of("leveret"))
        for pair in pairs:
            for peer in (pair.peer, "leveret"):
                setup, tests = run_tests(pair, peer, options)
                costs.setdefault((pair.client, peer), []).extend(tests)
                if peer == pair.peer:
                    starts.setdefault(peer, []).append(start_of(pair.start) if pair.start else setup)
    print_versions(pairs)
    print("\nstart of a broker to the first connection, milliseconds: median (least to most)")
    for peer, seconds in starts.items():
        print(f"  {peer:30} {in_ms(seconds)}")
    print("\none test, milliseconds: median (least to most)")
    for (client, peer), tests in costs.items():
        print(f"  {client:12} {peer:30} {in_ms([sum(test[phase] for phase in PHASES) for test in tests])}")
    print("\none test, milliseconds of the processor in the process of the test: median (least to most)")
    for (client, peer), tests in costs.items():
        print(f"  {client:12} {peer:30} {in_ms([test['cpu'] for test in tests])}")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--rabbitmq-server", metavar="PATH", help="the program rabbitmq-server")
    parser.add_argument("--rabbitmqctl", metavar="PATH", help="the program rabbitmqctl")
    return parser.parse_args()


def start_of(name: str) -> float:
    command = [sys.executable, str(TESTS / "start.py"), name]
    return float(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, timeout=120).stdout)


def run_tests(pair: Pair, peer: str, options: argparse.Namespace) -> tuple[float, list[dict[str, float]]]:
    """Return the seconds of the first set-up, and the phases of each further test."""
    plugins = ["pytest_leveret.plugin"] if peer == "leveret" else [] if pair.start else ["pytest_rabbitmq.plugin"]
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "--rootdir",
        str(TESTS),
        "-c",
        os.devnull,
        str(TESTS / pair.file),
    ]
    command += [part for plugin in plugins for part in ("-p", plugin)]
    if "pytest_rabbitmq.plugin" in plugins:
        command += ["--rabbitmq-server", options.rabbitmq_server, "--rabbitmq-ctl", options.rabbitmqctl]
    with tempfile.TemporaryDirectory() as folder:
        durations = Path(folder) / "durations.json"
        environment = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PEER": peer, "DURATIONS": str(durations)}
        if peer == RABBITMQ.peer:
            # Its tests take seconds each.
            environment["COUNT"] = "4"
        ran = subprocess.run(command, env=os.environ | environment, capture_output=True, text=True, timeout=600)
        if ran.returncode:
            sys.exit(f"{peer} with {pair.client} failed:\n{ran.stdout}{ran.stderr}")
        tests = json.loads(durations.read_text(encoding="utf-8"))
    return tests[0]["setup"], tests[1:]


def print_versions(pairs: list[Pair]) -> None:
    names = ["leveret", "pytest", "pika", "aio-pika", "kombu", "faststream", "amqp-mock"]
    names += ["pytest-rabbitmq"] if RABBITMQ in pairs else []
    print(f"CPython {sys.version.split()[0]}, " + ", ".join(f"{name} {version(name)}" for name in names))


def in_ms(seconds: list[float]) -> str:
    middle, least, most = statistics.median(seconds) * 1000, min(seconds) * 1000, max(seconds) * 1000
    return f"{middle:8.1f}  ({least:.1f} to {most:.1f}; {len(seconds)} times)"


if __name__ == "__main__":
    main()
