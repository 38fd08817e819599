"""A comparison of leveret with RabbitMQ, and with a broker that costs almost nothing: one table, measured in pairs.

    python benchmarks/compare.py                                      all rows that need no RabbitMQ
    python benchmarks/compare.py --rabbitmq amqp://localhost:5672/    everything
    python benchmarks/compare.py pika start/import --pairs 15         some rows, or groups of them

Both sides of a pair run one after the other, and the order alternates, so that a drifting machine affects both. Each
row shows the median of the pairs' ratios, their quartiles, and the goal. If a row cannot be measured, it names the
reason.

raw: prebuilt frames in C against `leveret serve`; RabbitMQ's time divided by leveret's. wait: leveret's median time for
one operation there, divided by RabbitMQ's. pika, aio-pika: clients.py with the broker in the client's process, as in
tests, compared with the ceiling in another process, all on one processor; the ceiling's time divided by leveret's.
state: the time for a virtual host of RabbitMQ, divided by the time for leveret's fresh state. start: absolute times.
recording: the share of throughput that is left when leveret records.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from urllib.parse import urlsplit

from servers import HERE, NoCompiler, Server, ceiling, executable, leveret

RAW_COUNTS = {"publish": 50_000, "confirmw": 30_000, "consume": 50_000, "consume_ack": 30_000, "thru_ack": 30_000}
WAIT_COUNTS = {"connect": 100, "declare": 100, "test": 60}
QUICK_COUNTS = {"connect": 50, "declare": 100, "test": 30}
PIKA_COUNTS = {"publish": 10_000, "confirm": 2_000, "consume": 15_000, "consume_ack": 8_000, "get": 2_000, "rpc": 1_000}
AIO_PIKA_COUNTS = {
    "publish": 5_000,
    "confirm": 1_000,
    "confirmw": 3_000,
    "consume": 5_000,
    "consume_ack": 3_000,
    "get": 1_000,
    "rpc": 600,
}
RAW_GOALS = {"publish": 4, "confirmw": 5, "consume": 8, "consume_ack": 6, "thru_ack": 5}
WAIT_GOALS = {"connect": 0.1, "declare": 0.02, "test": 0.03}
# If client and broker wait for each other, a broker in the same process must not be slower than one in another.
QUICK = ("get", "rpc", "connect", "declare", "test")


class Skipped(Exception):
    """A row cannot be measured here."""


@dataclass(frozen=True)
class Setting:
    """The tools and settings of a measurement."""

    rabbitmq: Server | None
    management: str
    pairs: int
    # The fraction of a workload's usual number of messages.
    fraction: float
    # The processor for Python clients and the brokers they use; None leaves the choice to the system.
    processor: int | None

    def the_rabbitmq(self) -> Server:
        if self.rabbitmq is None:
            raise Skipped("no --rabbitmq was given")
        return self.rabbitmq


@dataclass(frozen=True)
class Row:
    """One row of the table."""

    name: str
    measure: Callable[[Setting], list[float]]
    goal: float
    unit: str = ""
    # Whether the goal is an upper limit; otherwise it is a lower one.
    is_limit: bool = False

    def told(self, figures: list[float]) -> str:
        median = statistics.median(figures)
        low, _, high = statistics.quantiles(figures, n=4, method="inclusive") if len(figures) > 1 else (median,) * 3
        is_reached = median <= self.goal if self.is_limit else median >= self.goal
        goal = f"{'at most' if self.is_limit else 'at least'} {self.goal:g}{self.unit}"
        span = f"{low:.3g} to {high:.3g}"
        return f"{self.name:22} {median:8.3g}{self.unit:14} {span:18} {goal:16} {'yes' if is_reached else 'NO'}"


def pairs(setting: Setting, ours: Callable[[float], float], theirs: Callable[[float], float]) -> list[float]:
    """Return their figure divided by ours, pair by pair; each side gets the fraction of the usual messages."""
    for side in (ours, theirs):
        side(setting.fraction / 10)
    ratios = []
    for number in range(setting.pairs):
        if number % 2:
            other, own = theirs(setting.fraction), ours(setting.fraction)
        else:
            own, other = ours(setting.fraction), theirs(setting.fraction)
        ratios.append(other / own)
    return ratios


def generated(workload: str, usual: int, server: Server, *, is_p50: bool, fraction: float) -> float:
    """Return the seconds of a workload of the generator, or the median time of its operations."""
    count = max(round(usual * fraction), 5)
    command = [executable("generator"), server.host, str(server.port), server.vhost, workload, str(count)]
    took, p50 = output_of(command).split()
    return float(p50 if is_p50 else took)


def raw(workload: str, setting: Setting) -> list[float]:
    rabbitmq, usual = setting.the_rabbitmq(), RAW_COUNTS[workload]
    with leveret() as server:
        run = partial(generated, workload, usual, is_p50=False)
        return pairs(setting, lambda part: run(server, fraction=part), lambda part: run(rabbitmq, fraction=part))


def wait(workload: str, setting: Setting) -> list[float]:
    rabbitmq, usual = setting.the_rabbitmq(), WAIT_COUNTS[workload]
    with leveret() as server:
        run = partial(generated, workload, usual, is_p50=True)
        return pairs(setting, lambda part: run(rabbitmq, fraction=part), lambda part: run(server, fraction=part))


def in_process(client: str, workload: str, usual: int, setting: Setting) -> list[float]:
    if importlib.util.find_spec(client.replace("-", "_")) is None:
        raise Skipped(f"{client} is not installed")

    def run(part: float, *url: str) -> float:
        # The workload with a window needs complete windows.
        count = max(round(usual * part), 100 if workload == "confirmw" else 5)
        return float(output_of([sys.executable, str(HERE / "clients.py"), client, workload, str(count), *url]))

    # Client and broker take up to twice as long if the system wakes one of them on another processor.
    with one_processor(setting.processor), ceiling() as server:
        return pairs(setting, run, lambda part: run(part, server.url))


def first_open(setting: Setting) -> list[float]:
    """Milliseconds."""
    command = [sys.executable, str(HERE / "opening.py")]
    return [float(output_of(command)) * 1000 for _ in range(3 * setting.pairs)]


def importing(setting: Setting) -> list[float]:
    """Return the CPU milliseconds above those of the bare interpreter, after Python has compiled the modules."""
    code = "from leveret import Broker"
    with tempfile.TemporaryDirectory() as folder:
        cpu_ms(code, folder)
        return [cpu_ms(code, folder) - cpu_ms("", folder) for _ in range(3 * setting.pairs)]


def cpu_ms(code: str, compiled: str) -> float:
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": compiled, "PYTHONDONTWRITEBYTECODE": ""}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", code], env=environment, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) * 1000


def fresh_state(way: str, setting: Setting) -> list[float]:
    import isolation

    rabbitmq = setting.the_rabbitmq()
    ours = {"reset": isolation.reset_seconds, "broker": isolation.broker_seconds}[way]
    return pairs(setting, lambda _: ours(), lambda _: isolation.vhost_seconds(rabbitmq.url, setting.management))


def recorded(level: str, setting: Setting) -> list[float]:
    import recording

    return recording.ratios(setting.pairs, confirms=False).throughput[level]


def rows() -> Iterator[Row]:
    """Return all rows, in the order of the table."""
    for name, goal in RAW_GOALS.items():
        yield Row(f"raw/{name}", partial(raw, name), goal, "x")
    for name, goal in WAIT_GOALS.items():
        yield Row(f"wait/{name}", partial(wait, name), goal, " of RabbitMQ's", is_limit=True)
    for client, counts in (("pika", PIKA_COUNTS), ("aio-pika", AIO_PIKA_COUNTS)):
        for name, usual in {**counts, **QUICK_COUNTS}.items():
            goal = 1 if client == "pika" and name in QUICK else 0.9
            yield Row(f"{client}/{name}", partial(in_process, client, name, usual), goal, "x")
    yield Row("start/first-open", first_open, 1, " ms", is_limit=True)
    yield Row("start/import", importing, 25, " ms", is_limit=True)
    yield Row("state/reset", partial(fresh_state, "reset"), 300, "x")
    yield Row("state/broker", partial(fresh_state, "broker"), 30, "x")
    yield Row("recording/recent", partial(recorded, "recent"), 0.95, "x")
    yield Row("recording/full", partial(recorded, "full"), 0.75, "x")


def output_of(command: list[str]) -> str:
    """Run a program and return its output. If it fails, exit with its error text."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed: {done.stderr[-2000:]}")
    return done.stdout


@contextmanager
def one_processor(number: int | None) -> Iterator[None]:
    """Restrict processes that are started in the block to one processor."""
    if number is None:
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {number})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def wanted(names: list[str]) -> list[Row]:
    """Return the selected rows, by name or group."""
    every = list(rows())
    known = {row.name for row in every} | {row.name.split("/")[0] for row in every}
    unknown = [name for name in names if name not in known]
    if unknown:
        raise SystemExit(f"there is no row {', '.join(unknown)}; there are {', '.join(row.name for row in every)}")
    return [row for row in every if not names or row.name in names or row.name.split("/")[0] in names]


def options() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", nargs="*", help="rows or groups of them, as in the table (default: all)")
    parser.add_argument("--rabbitmq", metavar="URL", help="a RabbitMQ 4.3 that holds nothing of value")
    parser.add_argument("--management", metavar="URL", help="its management API (default: its port + 10000)")
    parser.add_argument("--pairs", type=int, default=7, help="(default: 7)")
    parser.add_argument(
        "--fraction", type=float, default=1, help="fraction of the usual messages, for a short run (default: 1)"
    )
    parser.add_argument("--free", action="store_true", help="let the system choose the processor of Python clients")
    return parser.parse_args()


def main() -> None:
    """Print the table."""
    chosen = options()
    rabbitmq = Server(chosen.rabbitmq) if chosen.rabbitmq else None
    management = chosen.management
    if management is None and rabbitmq is not None:
        address = urlsplit(rabbitmq.url)
        login = f"{address.username or 'guest'}:{address.password or 'guest'}"
        management = f"http://{login}@{rabbitmq.host}:{rabbitmq.port + 10000}"
    has_affinity = hasattr(os, "sched_getaffinity")
    processor = min(os.sched_getaffinity(0)) if has_affinity and not chosen.free else None
    setting = Setting(rabbitmq, management or "", chosen.pairs, chosen.fraction, processor)
    load = f"the load average is {os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else ""
    print(f"{chosen.pairs} pairs a row: seven on a quiet machine say something, fewer or a busy one little; {load}")
    for row in wanted(chosen.rows):
        try:
            print(row.told(row.measure(setting)), flush=True)
        except (Skipped, NoCompiler) as reason:
            print(f"{row.name:22} skipped: {reason}", flush=True)


if __name__ == "__main__":
    main()
