"""What leveret does for a report never ends a run: it becomes a line, and the test keeps its own outcome."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.plugin.conftest import Run
from tests.plugin.hostile import WAYS, lost_tests, suite_of

TIMEOUT = ("-p", "pytest_timeout")
# A file that blocks when it is opened for writing: the spans, or the page, of the test that is running.
BLOCKED = """
    import os
    import pytest

    from pytest_leveret.reports.pages import file_name

    @pytest.fixture
    def blocked(request):
        def block(folder, suffix, end=""):
            folder.mkdir()
            os.mkfifo(folder / (file_name(request.config, request.node.nodeid, suffix) + end))

        return block
"""


def test_a_time_out_while_leveret_writes_the_page_leaves_the_failure_its_own(run: Run) -> None:
    result = run(
        BLOCKED
        + """
    from pathlib import Path

    @pytest.mark.timeout(6, method="signal")
    def test_fails(leveret, blocked):
        leveret.declare_queue("q")
        blocked(Path("pages"), ".html", f".{os.getpid()}.tmp")
        assert 1 == 2

    def test_next():
        pass
""",
        *TIMEOUT,
        "--leveret-pages-dir=pages",
    )

    result.assert_outcomes(failed=1, passed=1)
    result.stdout.fnmatch_lines(
        ["E   *assert 1 == 2*", "leveret could not write the page: Failed: Timeout (>6.0s) from pytest-timeout."]
    )


def test_a_passing_test_that_times_out_while_leveret_writes_is_reported_as_timed_out(run: Run) -> None:
    result = run(
        BLOCKED
        + """
    from pathlib import Path

    @pytest.mark.timeout(6, method="signal")
    def test_passes(leveret, blocked):
        blocked(Path("spans"), ".json")
        leveret.publish("", "nowhere", b"")

    def test_next():
        pass
""",
        *TIMEOUT,
        "--leveret-otlp=spans",
        "--leveret-checks=unroutable=off",
    )

    result.assert_outcomes(errors=1, passed=2)
    result.stdout.fnmatch_lines(
        ["Timeout (>6.0s) from pytest-timeout.", "leveret could not write the spans: Failed: Timeout (>6.0s) *"]
    )


def test_ctrl_c_while_leveret_works_ends_the_run(run_apart: Run) -> None:
    result = run_apart(
        """
        class Stop(Exception):
            @property
            def __notes__(self):
                raise KeyboardInterrupt

        def test_fails(leveret):
            raise Stop

        def test_next():
            pass
        """
    )

    assert result.ret == 2
    result.stdout.fnmatch_lines(["*! KeyboardInterrupt !*"])


@pytest.mark.parametrize("workers", [(), ("-p", "xdist", "-n", "1")])
def test_what_could_not_be_done_for_a_test_that_passed_stands_at_the_end(
    run_apart: Run, workers: tuple[str, ...]
) -> None:
    result = run_apart(
        """
        from pathlib import Path

        def test_passes(leveret):
            Path("spans").write_text("a file")
            leveret.declare_queue("q")
            leveret.publish("", "q", b"")
        """,
        "--leveret-otlp=spans",
        *workers,
    )

    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*::test_passes: leveret could not write the spans: FileExistsError:*"])


@pytest.mark.parametrize("option", ["--leveret-otlp", "--leveret-pages-dir"])
def test_a_folder_that_cannot_be_is_refused_at_the_start(run: Run, option: str) -> None:
    Path("file").write_text("", encoding="utf-8")

    result = run("def test_it(leveret): pass", f"{option}=file/x")

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: {option}: cannot write a file to '*file/x': Not a directory"])


@pytest.mark.parametrize("option", ["--leveret-otlp", "--leveret-pages-dir", "--leveret-trace-dir"])
def test_an_address_in_place_of_a_folder_is_refused_at_the_start(run: Run, option: str) -> None:
    address = "http://127.0.0.1:4318/v1/traces"

    result = run("def test_it(leveret): pass", f"{option}={address}")

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    why = "is an address; give the path of a folder to write files to"
    result.stderr.fnmatch_lines([f"ERROR: {option}: {address!r} {why}"])


def test_an_address_in_place_of_a_folder_in_an_ini_file_is_refused_at_the_start(
    run: Run, suite: pytest.Pytester
) -> None:
    suite.makeini("[pytest]\nleveret_otlp = http://127.0.0.1:4318/v1/traces\n")

    result = run("def test_it(leveret): pass")

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        ["ERROR: ini option leveret_otlp: *v1/traces' is an address; give the path of a folder *"]
    )


def test_an_error_of_the_users_is_not_asked_for_what_errors_of_pytest_have(run: Run) -> None:
    result = run(
        """
        ASKED = []

        class Odd(Exception):
            msg = argname = property(lambda self: ASKED.append(self))

        def test_fails(leveret):
            raise Odd

        def test_next():
            assert ASKED == []
        """
    )

    result.assert_outcomes(failed=1, passed=1)


def test_an_error_with_an_odd_message_fails_its_test_only(run: Run) -> None:
    result = run(
        """
        class Odd(Exception):
            msg = 5

        def test_fails(leveret):
            raise Odd("as ever")
        """
    )

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["E   *Odd: as ever"])


def test_a_record_that_does_not_fit_stands_on_the_page_as_it_was_logged(run: Run, suite: pytest.Pytester) -> None:
    result = run(
        """
        import logging
        import pytest

        def test_fails(leveret):
            leveret.declare_queue("q")
            with pytest.raises(TypeError):
                logging.getLogger("client").warning("lost %s after %s", "c1")
            assert 1 == 2
        """,
        "--leveret-pages-dir=pages",
    )

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["page: file:*"])


def test_a_signal_that_interrupts_a_call_fails_the_test_at_once(run_apart: Run) -> None:
    result = run_apart(
        """
        import pytest

        @pytest.mark.timeout(2, method="signal")
        @pytest.mark.parametrize("number", range(4))
        def test_endless(leveret, number):
            while True:
                leveret.publish("", "nowhere", b"")
        """,
        beside=("pytest_timeout",),
    )

    result.assert_outcomes(failed=4)


@pytest.mark.parametrize("way", ["all_that_is_written", "workers"])
def test_no_test_of_a_hostile_suite_is_lost(tmp_path: Path, way: str) -> None:
    kinds = ("class_raises", "error_hangs_when_asked", "log_argument_raises", "log_record_hangs", "times_out_in_a_call")

    assert lost_tests(tmp_path, suite_of(5, 3.0, kinds), WAYS[way]) == ""
