"""The report: its numbers and names are those of the traces."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from functools import partial
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from leveret.cli import main
from leveret.errors import NoSuchRunError
from leveret.pipeline.incremental import ingest, update
from leveret.pipeline.reading import Read
from leveret.pipeline.report import report
from leveret.pipeline.report.subject import choose
from leveret.pipeline.warehouse.state import FileState
from leveret.pipeline.warehouse.tables import read_table
from leveret.pipeline.warehouse.warehouse import Warehouse
from leveret.spark.bundle import write_bundle
from leveret.trace.rows import body_hash
from tests.pipeline.in_memory import reader_of_files, runs_of
from tests.pipeline.recorded_runs import record
from tests.pipeline.traces import Line, header, lives, write


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report") / "traces"
    record(folder)
    return folder


@pytest.fixture(scope="module")
def stored(traces: Path) -> tuple[Read, Mapping[str, FileState]]:
    return reader_of_files(traces)


@pytest.fixture(scope="module")
def page(stored: tuple[Read, Mapping[str, FileState]]) -> str:
    return report(*stored)


class _Reader(HTMLParser):
    """A parser that collects the text of each section, and the names of all elements."""

    def __init__(self) -> None:
        super().__init__()
        self.sections: dict[str, list[str]] = {}
        self.elements: set[str] = set()
        self.scripts: list[str | None] = []
        self.open: list[str] = []
        self.depth = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.add(tag)
        if tag == "script":
            self.scripts.append(dict(attrs).get("id"))
        if tag == "section":
            self.open.append(str(dict(attrs)["id"]))
        self.depth += tag not in ("meta", "br", "wbr")

    def handle_endtag(self, tag: str) -> None:
        self.depth -= 1
        if tag == "section":
            self.open.pop()

    def handle_data(self, data: str) -> None:
        for name in self.open:
            self.sections.setdefault(name, []).append(data)


def _sections(page: str) -> dict[str, str]:
    reader = _Reader()
    reader.feed(page)
    assert reader.depth == 0
    assert not reader.elements & {"img", "link", "iframe", "b>"}
    # The data of the picture, if there is one, and the script that the policy allows by its hash.
    assert reader.scripts in ([None], ["flow-data", None])
    return {name: " ".join("".join(texts).split()) for name, texts in reader.sections.items()}


def test_names_are_never_markup(page: str) -> None:
    sections = _sections(page)

    assert "<script>alert" not in page
    assert "<script>alert('q')</script>\\u202e&\"'" in sections["queues"]
    assert "tests/test_a.py::test_<b>" in sections["flaky"]


def test_page_loads_no_other_file(page: str) -> None:
    without_scripts = re.sub(r"<script.*?</script>", "", page, flags=re.DOTALL)
    assert re.findall(r"\b(?:src|srcset|action|data)=|url\(|@import|http://|https://", without_scripts) == []
    assert {target[0] for target in re.findall(r'href="([^"]*)"', page)} == {"#"}
    assert "default-src &#39;none&#39;" in page
    assert "unsafe-inline" not in page
    assert len(page.encode()) < 300_000


def test_newest_run_is_reported_and_compared_with_the_one_before(page: str) -> None:
    sections = _sections(page)

    assert "Run second" in page.replace("<code>", "").replace("</code>", "")
    assert "leveret 1, as RabbitMQ 4.3" in sections["run"]
    assert "1 passed (50 %)" in sections["run"]
    assert "1 failed (50 %)" in sections["run"]
    assert "Before: run first. Now: run second." in sections["comparison"]
    assert "queue steady, copies: 2 | 3" in sections["comparison"]


def test_dropped_messages_are_listed_with_exchange_routing_key_and_reason(page: str) -> None:
    text = _sections(page)["run"]

    assert "eventsmisspeltit had no queue to go to1" in text
    assert "the default exchangeworknacked to its publisher: a fault that the test injected dropped it1" in text


def test_violation_is_listed_with_its_test_and_its_life_in_order(page: str) -> None:
    text = _sections(page)["violations"]

    assert "A message was acknowledged twice" in text
    life = ["the test published it", "it entered", "delivered it from", "c1/ch1 acked it"]
    places = [text.index(step) for step in life]
    assert places == sorted(places)
    assert "tests/test_a.py::test_it" in text


def test_flaky_test_is_listed_with_the_queue_in_which_it_differs(page: str) -> None:
    text = _sections(page)["flaky"]

    assert "tests/test_a.py::test_<b>" in text
    assert "tests/test_a.py::test_it" not in text
    assert "1 run: 2 acknowledged, 1 dead-lettered" in text
    assert "1 run: 2 acknowledged" in text


@pytest.fixture
def failures(tmp_path: Path) -> Path:
    """Return the folder of a run in which 60 tests failed, each with a long error; one has a page."""
    content = b"<p>what happened in test_7</p>"
    (tmp_path / "pages").mkdir()
    (tmp_path / "pages" / "test 7#1.html").write_bytes(content)
    events: list[Line] = []
    for number in range(60):
        attrs: dict[str, Any] = {"outcome": "failed", "duration": 0.1}
        attrs["error"] = f"AssertionError: <b>{number}</b>\n  the second line {'x' * 5000}"
        if number == 7:
            attrs |= {"page": "../pages/test 7#1.html", "page_hash": body_hash(content)}
        events += [{"kind": "test_start"}, {"kind": "test_end", "attrs": json.dumps(attrs)}]
    told = [{**event, "seq": seq, "test": f"test_{(seq - 1) // 2}"} for seq, event in enumerate(events, start=1)]
    write(tmp_path / "traces" / "run.jsonl", [header("run"), *told])
    return tmp_path


def test_every_failed_test_is_listed_with_its_error(failures: Path) -> None:
    text = _sections(report(*reader_of_files(failures / "traces")))["run"]

    for number in range(60):
        assert f"test_{number}AssertionError: <b>{number}</b>" in text
    assert "the second line" in text
    assert "more test" not in text


@pytest.mark.parametrize(("folder", "link"), [(".", "pages/test%207%231.html"), ("out", "../pages/test%207%231.html")])
def test_failed_test_is_linked_with_its_page(failures: Path, folder: str, link: str) -> None:
    found = report(*reader_of_files(failures / "traces"), folder=failures / folder)

    assert re.findall(r'<a href="([^#"][^"]*)"', found) == [link]


@pytest.mark.parametrize("change", ["another page", "no page"])
def test_page_of_another_run_is_not_linked(failures: Path, change: str) -> None:
    page = failures / "pages" / "test 7#1.html"
    page.unlink()
    if change == "another page":
        page.write_text("<p>test_7, one run later</p>")

    found = report(*reader_of_files(failures / "traces"), folder=failures)

    assert re.findall(r'<a href="([^#"][^"]*)"', found) == []


def test_dead_letters_are_listed_with_their_reason(page: str) -> None:
    assert re.search("work ?later ?● rejected ?1 ?1", _sections(page)["flow"])


def test_tests_that_left_something_over_are_named(page: str) -> None:
    text = _sections(page)["queues"].partition("Left over by")[2]

    assert "tests/test_a.py::test_" in text
    assert "left_ready" in text


def test_unused_bindings_are_named(page: str) -> None:
    text = _sections(page)["coverage"]

    assert "events -> " in text
    assert "(never.used)" in text


def test_copies_left_over_are_counted_once_and_named_as_such(page: str) -> None:
    text = " ".join(re.sub(r"<[^>]*>", " ", page).split())

    # A message in one queue and a message with a copy left in another are different things to count.
    assert "1 copy left over in queues, when 1 test ended" in text
    assert "1 with a copy left over" in text
    assert "Each test has queues of its own; a row adds up those with the same name." in text


def test_times_are_short(page: str) -> None:
    text = _sections(page)["run"]

    assert re.search(r"started1 May( 2026)? 11:00commit", text)
    assert "123456" not in text


def test_commit_stands_for_all_its_runs(stored: tuple[Read, Mapping[str, FileState]]) -> None:
    sections = _sections(report(*stored, "c0ffee"))

    assert "2 tests, run 4 times, in" in sections["run"]
    assert "1 of 2 tests failed." in sections["summary"]
    # A test is listed once, with its last run.
    assert sections["run"].count("tests/test_a.py::test_it") == 1
    assert "tests/test_a.py::test_it last in run secondfailed, in 2 of 2 runs" in sections["run"]
    assert "There is no earlier run" in sections["comparison"]


def test_beginning_of_a_commit_stands_for_it(stored: tuple[Read, Mapping[str, FileState]]) -> None:
    runs = stored[0]("runs")

    assert choose(runs, "c0ff") == choose(runs, "c0ffee")
    assert choose(runs, "c0ff").name == "c0ffee"
    with pytest.raises(NoSuchRunError, match="'c0' matches no run and no commit"):
        choose(runs, "c0")


def test_beginning_of_a_run_stands_for_it() -> None:
    runs = runs_of({"run": name, "started": "2026-01-05T00:00:00Z"} for name in ("night-1", "night-2", "noon-1"))

    assert choose(runs, "noon").name == "noon-1"
    with pytest.raises(NoSuchRunError, match="'night' matches several runs: night-1, night-2; give more characters"):
        choose(runs, "night")


def test_beginning_of_several_commits_names_them() -> None:
    runs = runs_of({"run": name, "commit": f"abcd{name}"} for name in ("one", "two"))

    with pytest.raises(NoSuchRunError, match="'abcd' matches several commits: abcdone, abcdtwo; give more characters"):
        choose(runs, "abcd")


def test_newest_run_is_the_one_that_began_last_wherever_its_clock_stands() -> None:
    runs = runs_of(
        [
            {"run": "unknown", "started": "yesterday"},
            {"run": "late", "started": "2026-01-05T00:30:00+02:00"},
            {"run": "later", "started": "2026-01-04T23:00:00Z"},
        ]
    )

    assert choose(runs, None).name == "later"


def test_name_that_is_neither_run_nor_commit_is_refused(stored: tuple[Read, Mapping[str, FileState]]) -> None:
    text = (
        "'nightly' matches no run and no commit; give a name or at least its first 4 characters; the newest runs are "
        "second"
    )
    with pytest.raises(NoSuchRunError, match=text):
        report(*stored, "nightly")


@pytest.fixture(scope="module")
def warehouse(traces: Path) -> Warehouse:
    whole = Warehouse(traces.parent / "warehouse")
    ingest(whole, [traces])
    update(whole)
    return whole


@pytest.mark.parametrize("name", ["second", "c0ffee"])
def test_page_of_a_warehouse_is_the_page_of_its_traces(
    warehouse: Warehouse, stored: tuple[Read, Mapping[str, FileState]], name: str
) -> None:
    state = warehouse.state()

    assert report(partial(read_table, warehouse, state=state), state.files, name) == report(*stored, name)


def test_command_writes_the_page_and_prints_its_path(
    warehouse: Warehouse, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = tmp_path / "page.html"

    code = main(["pipeline", "report", "-w", warehouse.url, "--run", "first", "-o", str(place)])

    assert code == 0
    assert capsys.readouterr().out.startswith(f"{place}: ")
    assert "There is no earlier run" in _sections(place.read_text(encoding="utf-8"))["comparison"]


def test_report_without_jinja_says_what_to_install(
    traces: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "jinja2", None)

    assert main(["pipeline", "report", str(traces)]) == 2
    assert capsys.readouterr().err == "leveret: the report needs Jinja2: pip install 'leveret[pipeline]'\n"


def test_leveret_from_a_zip_file_writes_the_page(traces: Path, tmp_path: Path) -> None:
    write_bundle(tmp_path / "leveret.zip")
    program = (
        "import sys, leveret.cli\n"
        "assert 'leveret.zip' in leveret.cli.__file__\n"
        f"sys.exit(leveret.cli.main(['pipeline', 'report', {str(traces)!r}, '--processes', '1']))\n"
    )
    environ = {**os.environ, "PYTHONPATH": str(tmp_path / "leveret.zip")}

    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=tmp_path, env=environ)

    assert ran.returncode == 0, ran.stderr
    assert "placeBoxes" in (tmp_path / "report.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("word", ["--run", "--against"])
def test_unknown_name_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str], word: str) -> None:
    write(tmp_path / "traces" / "first.jsonl", [header("first"), *lives(1, queue="q")])

    code = main(["pipeline", "report", str(tmp_path / "traces"), "-w", str(tmp_path / "warehouse"), word, "nope"])

    assert code == 2
    text = (
        "'nope' matches no run and no commit; give a name or at least its first 4 characters; the newest runs are first"
    )
    assert text in capsys.readouterr().err


def test_report_about_nothing_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pipeline", "report"]) == 2
    assert capsys.readouterr().err == (
        "leveret: report needs traces or a warehouse: name a folder of traces, or give --warehouse\n"
    )


@pytest.fixture
def killed(tmp_path: Path) -> tuple[Read, Mapping[str, FileState]]:
    """Return three runs of a commit: a whole one, one that was killed in its second test, and a whole one."""
    both = [*lives(2, test="test_first"), *lives(2, test="test_second", queue="others")]
    events = [{**event, "seq": seq} for seq, event in enumerate(both, start=1)]
    for hour, (name, lines) in enumerate({"first": events, "killed": events[:-2], "last": events}.items()):
        about = header(name, commit="c0ffee") | {"started": f"2026-05-01T1{hour}:00:00Z"}
        write(tmp_path / f"{name}.jsonl", [about, *lines])
    return reader_of_files(tmp_path)


def test_killed_run_has_a_test_without_an_end_and_no_success(killed: tuple[Read, Mapping[str, FileState]]) -> None:
    page = report(*killed, "killed")

    assert "1 of 2 tests never ended; none failed." in _sections(page)["summary"]
    assert '<li class="good"><a href="#run">' not in page
    assert "1 flaky" not in page


def test_killed_run_is_not_the_one_to_compare_with(killed: tuple[Read, Mapping[str, FileState]]) -> None:
    assert "Before: run first. Now: run last." in _sections(report(*killed))["comparison"]


def test_comparison_says_that_a_run_was_cut(killed: tuple[Read, Mapping[str, FileState]]) -> None:
    text = _sections(report(*killed, "last", against="killed"))["comparison"]

    assert "Before: run killed; it was cut, so tests and messages are missing. Now: run last." in text


def test_flaky_test_of_two_commits_is_counted_once(tmp_path: Path) -> None:
    for number in range(4):
        about = header(f"run-{number}", commit=f"commit-{number // 2}")
        write(tmp_path / f"{number}.jsonl", [about, *lives(1 + number % 2)])

    text = _sections(report(*reader_of_files(tmp_path)))["summary"]

    assert "1 flaky test: its messages differ between runs of one commit." in text
