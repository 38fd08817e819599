"""A run that records: what its trace file says about the tests, and where the file is."""

from __future__ import annotations

import json
import sys

import pytest

from leveret.trace.jsonl import TraceReader
from leveret.trace.rows import body_hash

TWO_TESTS = """
    def test_first(leveret):
        leveret.declare_queue("q")

    def test_second(leveret, make_leveret):
        make_leveret().declare_queue("q")
"""
OUTCOMES = """
    import pytest

    @pytest.fixture
    def broken(leveret):
        raise RuntimeError("no")

    @pytest.fixture
    def broken_at_the_end(leveret):
        yield
        raise RuntimeError("no")

    def test_passed(leveret): pass

    def test_failed(leveret):
        assert False

    def test_error(broken): pass

    def test_error_at_the_end(broken_at_the_end): pass

    def test_skipped(leveret):
        pytest.skip("not today")

    @pytest.mark.xfail
    def test_xfailed(leveret):
        assert False

    @pytest.mark.xfail(strict=False)
    def test_xpassed(leveret): pass

    @pytest.mark.leveret(checks="unroutable=error")
    def test_strict(leveret):
        leveret.publish("", "nowhere", b"1")
"""


def rows_of(folder):
    (path,) = folder.iterdir()
    return list(TraceReader(path))


def ends_of(rows):
    ends = [row for row in rows if row["kind"] == "test_end"]
    return {row["test"].partition("::")[2]: json.loads(row["attrs"]) for row in ends}


def test_a_run_writes_one_file_and_names_it(run, pytester):
    result = run(TWO_TESTS, "--leveret-trace-dir=traces")

    result.assert_outcomes(passed=2)
    (path,) = (pytester.path / "traces").iterdir()
    assert path.name.endswith(".jsonl.gz")
    result.stdout.fnmatch_lines([f"leveret: this run's trace is in {path}"])


def test_events_of_a_test_stand_between_its_start_and_end_and_name_it(run, pytester):
    run(TWO_TESTS, "--leveret-trace-dir=traces")

    rows = rows_of(pytester.path / "traces")
    tests = [(row["kind"], row["test"].partition("::")[2]) for row in rows if row["kind"] != "called"]
    assert tests == [
        ("test_start", "test_first"),
        ("queue_declare", "test_first"),
        ("test_end", "test_first"),
        ("test_start", "test_second"),
        ("queue_declare", "test_second"),
        ("test_end", "test_second"),
    ]


def test_the_end_of_a_test_records_its_outcome(run, pytester):
    run(OUTCOMES, "--leveret-trace-dir=traces")

    ends = ends_of(rows_of(pytester.path / "traces"))
    assert {name: (end["outcome"], end["phase"]) for name, end in ends.items()} == {
        "test_passed": ("passed", "call"),
        "test_failed": ("failed", "call"),
        "test_error": ("error", "setup"),
        "test_error_at_the_end": ("error", "teardown"),
        "test_skipped": ("skipped", "call"),
        "test_xfailed": ("xfailed", "call"),
        "test_xpassed": ("xpassed", "call"),
        "test_strict": ("error", "teardown"),
    }
    assert all(end["duration"] >= 0 for end in ends.values())


def test_an_error_of_the_teardown_is_the_outcome_of_a_test_that_was_expected_to_fail(run, pytester):
    test = """
        import pytest

        @pytest.fixture
        def broken_at_the_end(leveret):
            yield
            raise RuntimeError("no")

        @pytest.mark.xfail(raises=ValueError)
        def test_passes(broken_at_the_end): pass
    """

    run(test, "--leveret-trace-dir=traces")

    (end,) = ends_of(rows_of(pytester.path / "traces")).values()
    assert (end["outcome"], end["phase"]) == ("error", "teardown")


def test_a_test_without_a_broker_is_not_written(run, pytester):
    run(TWO_TESTS + "\n    def test_alone(): pass\n", "--leveret-trace-dir=traces")

    assert list(ends_of(rows_of(pytester.path / "traces"))) == ["test_first", "test_second"]


def test_a_run_without_a_broker_writes_nothing(run, pytester):
    run("def test_alone(): pass", "--leveret-trace-dir=traces").assert_outcomes(passed=1)

    assert not (pytester.path / "traces").exists()


def test_tests_with_the_session_broker_are_recorded_as_well(run, pytester):
    run(
        """
        def test_first(leveret_session):
            leveret_session.declare_queue("a")

        def test_other(leveret): pass

        def test_second(leveret_session):
            leveret_session.declare_queue("b")
        """,
        "--leveret-trace-dir=traces",
    )

    rows = rows_of(pytester.path / "traces")
    declared = {row["queue"]: row["test"].partition("::")[2] for row in rows if row["kind"] == "queue_declare"}
    assert list(ends_of(rows)) == ["test_first", "test_other", "test_second"]
    assert declared == {"a": "test_first", "b": "test_second"}


def test_a_test_that_runs_again_is_recorded_again(run, pytester):
    # Plugins that rerun failed tests do the same.
    pytester.makeconftest("""
        from _pytest.runner import runtestprotocol

        def pytest_runtest_protocol(item, nextitem):
            for _ in range(2):
                reports = runtestprotocol(item, nextitem=nextitem, log=False)
                item._initrequest()
            for report in reports:
                item.ihook.pytest_runtest_logreport(report=report)
            return True
    """)
    run(
        """
        tried = []

        def test_flaky(leveret):
            tried.append(1)
            assert len(tried) > 1
        """,
        "--leveret-trace-dir=traces",
    ).assert_outcomes(passed=1)

    rows = [row for row in rows_of(pytester.path / "traces") if row["kind"] in ("test_start", "test_end")]
    assert [row["kind"] for row in rows] == ["test_start", "test_end"] * 2
    assert [json.loads(row["attrs"])["outcome"] for row in rows[1::2]] == ["failed", "passed"]


def test_the_end_of_a_failed_test_names_its_page_and_its_error(run, pytester):
    run(OUTCOMES, "--leveret-trace-dir=traces", "--leveret-pages-dir=pages")

    ends = ends_of(rows_of(pytester.path / "traces"))
    with_page = {name: attrs for name, attrs in ends.items() if "page" in attrs}
    assert set(with_page) == {"test_failed", "test_error", "test_error_at_the_end", "test_strict"}
    for attrs in with_page.values():
        page = pytester.path / "traces" / attrs["page"]
        assert page.resolve().parent == pytester.path / "pages"
        assert attrs["page_hash"] == body_hash(page.read_bytes())
    assert ends["test_failed"]["error"] == "AssertionError: assert False"
    assert ends["test_error"]["error"] == "RuntimeError: no"


@pytest.mark.parametrize("place", ["command line", "environment", "ini", "marker"])
def test_the_directory_can_be_set_like_every_option(run, pytester, monkeypatch, place):
    flags = ["--leveret-trace-dir=traces"] if place == "command line" else []
    if place == "environment":
        monkeypatch.setenv("LEVERET_TRACE_DIR", "traces")
    if place == "ini":
        pytester.makeini("[pytest]\nleveret_trace_dir = traces")
    marker = "@pytest.mark.leveret(trace_dir='traces')" if place == "marker" else ""

    run(f"import pytest\n\n{marker}\ndef test_it(leveret): leveret.declare_queue('q')", *flags)

    assert "queue_declare" in [row["kind"] for row in rows_of(pytester.path / "traces")]


def test_a_directory_in_the_ini_file_is_relative_to_it(run, pytester, monkeypatch):
    pytester.makeini("[pytest]\nleveret_trace_dir = traces")
    (pytester.path / "elsewhere").mkdir()
    run(
        """
        import os

        def test_it(leveret, make_leveret, monkeypatch):
            monkeypatch.chdir("elsewhere")
            make_leveret()
        """
    ).assert_outcomes(passed=1)

    assert len(list((pytester.path / "traces").iterdir())) == 1


def test_bodies_and_headers_are_options_too(run, pytester):
    pytester.makeini("[pytest]\nleveret_trace_bodies = yes\nleveret_trace_redact = customer")
    run(
        """
        import pytest

        @pytest.mark.leveret(trace_redact="street", checks="unroutable=off")
        def test_it(leveret):
            leveret.publish("", "q", b"body", headers={"customer": "c", "street": "s", "n": 1})
        """,
        "--leveret-trace-dir=traces",
    )

    (row,) = (row for row in rows_of(pytester.path / "traces") if row["kind"] == "published")
    attrs = json.loads(row["attrs"])
    assert attrs["body"] == "body"
    assert attrs["properties"]["headers"] == {"customer": "(redacted)", "street": "(redacted)", "n": 1}


def test_an_empty_directory_on_the_command_line_switches_the_trace_off(run, pytester):
    pytester.makeini("[pytest]\nleveret_trace_dir = traces")

    run("def test_it(leveret): pass", "--leveret-trace-dir=").assert_outcomes(passed=1)

    assert not list(pytester.path.rglob("*.jsonl*"))


def test_a_switch_that_is_neither_yes_nor_no_is_refused(run):
    result = run("def test_it(): pass", "--leveret-trace-bodies=perhaps")

    result.stderr.fnmatch_lines(["*--leveret-trace-bodies: 'perhaps' is unknown; expected yes or no"])


def test_a_file_as_trace_dir_is_refused_before_the_first_test(run, pytester):
    pytester.path.joinpath("traces").write_text("")

    result = run("def test_it(leveret): pass", "--leveret-trace-dir=traces")

    said = "is a file; it must be a directory, which is created if it does not exist"
    result.stderr.fnmatch_lines([f"*--leveret-trace-dir: trace_dir='*traces' {said}"])


@pytest.mark.parametrize("fixture", ["leveret", "leveret_session"])
def test_the_end_of_a_test_does_not_requeue_its_unacked_messages(run, pytester, fixture):
    run(
        f"""
        import pika

        # A consumer that lives on: a client that Python collects closes its socket, which gives back what it held.
        left_open = []

        def test_that_forgets({fixture}):
            {fixture}.declare_queue("jobs")
            {fixture}.publish("", "jobs", b"1")
            left_open.append(pika.BlockingConnection(pika.URLParameters({fixture}.url)))
            left_open[0].channel().basic_get("jobs")
        """,
        "--leveret-trace-dir=traces",
        "-W",
        "ignore",
    ).assert_outcomes(passed=1)

    told = [row["kind"] for row in rows_of(pytester.path / "traces") if row.get("copy") or row["kind"] == "conn_close"]
    assert told == ["enqueued", "got", "conn_close"]


FILLS_THE_DISK = """
    import resource, signal, sys
    import pytest

    # The limit would cut what an import caches, too.
    sys.dont_write_bytecode = True
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (3000, 3000))

    @pytest.mark.parametrize("number", range(20))
    def test_queue(leveret, number):
        leveret.declare_queue("q")
"""


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no limit for the size of a file")
def test_a_full_disk_cuts_the_trace_and_all_tests_run(run_apart, pytester):
    result = run_apart(FILLS_THE_DISK, "--leveret-trace-dir=traces")

    result.assert_outcomes(passed=20, warnings=1)
    (path,) = (pytester.path / "traces").iterdir()
    result.stdout.fnmatch_lines([f"leveret: this run's trace is in {path}, cut: File too large"])


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no limit for the size of a file")
def test_a_full_disk_fails_a_single_test_if_warnings_are_errors(run_apart):
    result = run_apart(FILLS_THE_DISK, "--leveret-trace-dir=traces", "-W", "error::leveret.LeveretWarning")

    result.assert_outcomes(passed=20, errors=1)
    result.stdout.fnmatch_lines(["*: the trace is cut, because the rest cannot be written: File too large; *"])
