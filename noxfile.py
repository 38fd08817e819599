"""What is checked, a session each: `nox -s tests`, `nox -s types` ... and all of it with `nox`.

Sessions install the project with its `dev-all` extra into an environment of their own; `.ci/run` does the same with one
environment for all. The sessions that need something this machine may not have (`oracle`, `two_commands`), much from
the network (`frameworks`), or much time (`without_posix`) are run by name only.
"""

from __future__ import annotations

import nox

nox.options.sessions = ["tests", "examples", "types", "lint", "house", "docs", "instructions"]

PYTHONS = ["3.11", "3.12", "3.13", "3.14"]


@nox.session(python=PYTHONS)
def tests(session: nox.Session) -> None:
    """Run all tests; further arguments go to pytest."""
    session.install("-e", ".[dev-all]")
    session.run("pytest", *session.posargs)


@nox.session
def without_posix(session: nox.Session) -> None:
    """Run all tests with what Windows lacks taken away, and with select."""
    session.install("-e", ".[dev-all]")
    session.run("pytest", "-p", "tests.without_posix", *session.posargs)


@nox.session
def examples(session: nox.Session) -> None:
    """Run the stories of the examples."""
    session.install("-e", ".[examples]")
    session.run("python", "-m", "examples", *session.posargs)


@nox.session
def types(session: nox.Session) -> None:
    """Check the types."""
    session.install("-e", ".[dev-all]")
    session.run("mypy")


@nox.session
def lint(session: nox.Session) -> None:
    """Check the format and the linter's rules."""
    session.install("ruff")
    session.run("ruff", "format", "--check")
    session.run("ruff", "check")


@nox.session
def house(session: nox.Session) -> None:
    """Check the rules of the house alone."""
    session.install("-e", ".[dev-all]")
    session.run("pytest", "tests/house", *session.posargs)


@nox.session
def docs(session: nox.Session) -> None:
    """Build the documentation as a site, in the folder `site`, and check its nav and its links."""
    session.install("-e", ".[docs]")
    session.run("mkdocs", "build", "--strict", *session.posargs, env={"NO_MKDOCS_2_WARNING": "1"})


@nox.session
def instructions(session: nox.Session) -> None:
    """Hold the core to its budget of instructions, where there is valgrind."""
    session.install("-e", ".[dev-all]")
    session.run("python", "benchmarks/instructions.py", *session.posargs)


@nox.session(python=False)
def frameworks(session: nox.Session) -> None:
    """Run the projects of examples/frameworks, or the named ones, with their oldest and newest releases."""
    session.run("python", "-m", "tests.frameworks.versions", *session.posargs)


@nox.session(python=False)
def two_commands(session: nox.Session) -> None:
    """Install with Spark and write a report, in an environment of its own without Java (downloads 600 MB)."""
    session.run("python", "tools/two_commands.py", *session.posargs)


@nox.session
def oracle(session: nox.Session) -> None:
    """Run the semantics on the RabbitMQ servers that LEVERET_ORACLES names (see CONTRIBUTING.md)."""
    session.install("-e", ".[dev-all]")
    session.run("pytest", "tests/semantics", "tests/clients", *session.posargs)


@nox.session(python="3.11")
def lowest(session: nox.Session) -> None:
    """Run the tests of each extra with the oldest releases that it allows."""
    session.install("uv")
    session.run("python", "tools/lowest.py", *session.posargs)
