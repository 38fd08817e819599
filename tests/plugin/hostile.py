"""Suites whose tests fail beside what no report can show: no run may end early, and no test may be lost.

A test meets one thing: an object whose repr raises, hangs or is huge, a log handler that raises, an error that lies,
twenty thousand lost messages, a time-out while leveret works. `python -m tests.plugin.hostile --count 200` runs a suite
of that many in each way of running.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

# What each test of a kind does before it fails. A test has a time limit of a few seconds, by a signal.
KINDS: Final = {
    "repr_raises": "assert hostile('__repr__', fall) == leveret",
    "repr_is_huge": "assert hostile('__repr__', huge) == leveret",
    # pytest itself would hang if the assert were about it.
    "repr_hangs": "value = hostile('__repr__', hang); assert [] == [1]",
    "eq_raises": "assert hostile('__eq__', fall) == leveret",
    "class_raises": "value = hostile('__class__', property(fall)); assert [] == [1]",
    "compared_with_mapping": "assert type('M', (dict,), {'values': fall, 'items': fall})(a=1) == {'a': 2}",
    "values_are_huge": "assert {'a': 'x' * 50_000_000} == {'a': 'y' * 50_000_000}",
    "number_is_huge": "assert [10 ** 10_000] == [1]",
    "error_has_no_text": "raise type('E', (Exception,), {'__str__': fall})()",
    "error_has_huge_text": "raise type('E', (Exception,), {'__str__': lambda self: 'x' * 1_000_000})()",
    "error_has_hostile_names": "raise type('E', (Exception,), {'msg': 5, 'argname': 5, '__notes__': 5})()",
    "error_raises_when_asked": "raise type('E', (Exception,), {'msg': property(fall)})()",
    "error_hangs_when_asked": "raise type('E', (Exception,), {'msg': property(hang)})()",
    "error_ends_all": "raise type('E', (BaseException,), {})()",
    "log_handler_raises": "log.addHandler(Raising()); log.warning('x')",
    "log_does_not_fit": "log.warning('%s %s', 1)",
    "log_argument_raises": "log.warning('%s', hostile('__str__', fall))",
    "log_argument_hangs": "log.warning('%s', hostile('__str__', hang))",
    "log_record_hangs": "logging.setLogRecordFactory(Slow); log.warning('x')",
    "thread_dies": "thread(lambda: fall(None)); assert False",
    "thread_dies_silently": "thread(lambda: throw(type('E', (Exception,), {'__str__': hang})())); assert False",
    "expected_value_raises": "leveret.declare_queue('q'); leveret.assert_published('', body=hostile('__repr__', fall))",
    "expected_value_hangs": "leveret.declare_queue('q'); leveret.assert_published('', body=hostile('__repr__', hang))",
    "expected_value_lies": "leveret.declare_queue('q'); leveret.assert_published('', body=hostile('__eq__', fall))",
    "body_is_deep": "leveret.publish('', 'lost', b'[' * 100_000 + b']' * 100_000)",
    "body_is_large": "leveret.publish('', 'lost', b'[' + b'1,' * 4_000_000 + b'1]')",
    "headers_are_many": "leveret.publish('', 'lost', b'', headers={str(n): {'password': 'x'} for n in range(2_000)})",
    "many_are_lost": "[leveret.publish('', 'lost', b'%d' % n) for n in range(2_000)]",
    "times_out_in_a_call": "while True: leveret.publish('', 'lost', b'')",
    "times_out_in_a_wait": "leveret.assert_ready('orders', timeout=60)",
    "exits": "raise SystemExit(3)",
    "works": "print('nothing happened')",
}
_SUITE: Final = """
import logging
import sys
import threading

import pytest

log = logging.getLogger("app")


def fall(*_):
    raise RuntimeError("on purpose")


def hang(*_):
    threading.Event().wait()


def huge(*_):
    return "x" * 50_000_000


def throw(error):
    raise error


def hostile(name, act):
    return type("Hostile", (), {name: act, **({"__hash__": None} if name == "__eq__" else {})})()


def thread(act):
    started = threading.Thread(target=act, daemon=True)
    started.start()
    started.join(0.2)


class Raising(logging.Handler):
    def emit(self, record):
        raise RuntimeError("on purpose")


class Slow(logging.LogRecord):
    message = property(hang, lambda self, text: None)


@pytest.fixture(autouse=True)
def undone():
    yield
    log.handlers.clear()
    logging.setLogRecordFactory(logging.LogRecord)
"""
_TEST: Final = """

@pytest.mark.timeout({limit}, method="{method}")
def test_{kind}_{number}(leveret):
    leveret.declare_queue("orders")
    {act}
    assert "this" == "that"
"""
# The ways to run a suite.
WAYS: Final = {
    "plain": (),
    "no_pages": ("--leveret-pages=off", "-p", "no:cacheprovider"),
    "all_that_is_written": (
        *("--leveret-pages=all", "--leveret-pages-dir=pages", "--leveret-otlp=spans", "--leveret-trace-dir=traces"),
        *("--junitxml=junit.xml", "-rA"),
    ),
    "workers": ("-n", "2", "-p", "xdist", "--leveret-otlp=spans", "--junitxml=junit.xml"),
}


# Those that reach their time limit, at which the method "thread" of pytest-timeout ends the process.
HANGING: Final = (
    *("expected_value_hangs", "log_argument_hangs", "log_record_hangs"),
    *("times_out_in_a_call", "times_out_in_a_wait"),
)


def suite_of(count: int, limit: float = 1.0, kinds: tuple[str, ...] = tuple(KINDS), method: str = "signal") -> str:
    """Return a suite of so many tests, which fail, each with a time limit in seconds; and a last one, which passes."""
    tests = [
        _TEST.format(limit=limit, kind=kind, number=number, act=KINDS[kind], method=method)
        for number, kind in _numbered(count, kinds)
    ]
    return _SUITE + "".join(tests) + "\n\ndef test_last():\n    pass\n"


def _numbered(count: int, kinds: tuple[str, ...]) -> list[tuple[int, str]]:
    return [(number, kinds[number % len(kinds)]) for number in range(count)]


def lost_tests(folder: Path, source: str, arguments: tuple[str, ...]) -> str:
    """Run a suite in a folder, and return what is wrong with the run; an empty text if each test has its outcome."""
    (folder / "test_hostile.py").write_text(source, encoding="utf-8")
    (folder / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    names = set(re.findall(r"^def (test_\w+_\d+)", source, re.M))
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_PLUGINS": "pytest_leveret.plugin"}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "pytest_timeout", "--tb=short", *arguments]
    ran = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, errors="replace", timeout=3_600
    )
    said = ran.stdout + ran.stderr
    if "INTERNALERROR" in said:
        return "INTERNALERROR" + said.partition("INTERNALERROR")[2][:3_000]
    told = set(re.findall(r"^(?:FAILED|ERROR) test_hostile\.py::(\w+)", ran.stdout, re.M))
    if ran.returncode != 1 or " 1 passed" not in f" {said[-300:]}" or told != names:
        return f"exit code {ran.returncode}, lost {sorted(names - told)}: {said[-2_000:]}"
    return ""


def main() -> int:
    """Run a suite in each way, and return 1 if one of them lost a test."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--count", type=int, default=200, help="the tests of a suite")
    parser.add_argument("--limit", type=float, default=2.0, help="the time limit of a test in seconds")
    parser.add_argument("--method", choices=("signal", "thread"), default="signal", help="how pytest-timeout stops it")
    parser.add_argument("--way", choices=WAYS, action="append", help="one way to run it (default: all)")
    asked = parser.parse_args()
    kinds = tuple(kind for kind in KINDS if asked.method == "signal" or kind not in HANGING)
    is_lost = False
    for way in asked.way or WAYS:
        with tempfile.TemporaryDirectory() as folder:
            problem = lost_tests(Path(folder), suite_of(asked.count, asked.limit, kinds, asked.method), WAYS[way])
        print(f"{way}: {problem or f'{asked.count} tests, none lost'}", flush=True)
        is_lost = is_lost or bool(problem)
    return int(is_lost)


if __name__ == "__main__":
    sys.exit(main())
