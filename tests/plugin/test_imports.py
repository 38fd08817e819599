"""The cost of the plugin for a run that uses no broker: it imports nothing of leveret."""

from __future__ import annotations

import sys

import pytest

# Importing other plugins that pytest finds here takes longer than these runs.
NO_STRANGERS = [
    word for name in ("hypothesispytest", "anyio", "asyncio", "xdist", "time_machine") for word in ("-p", f"no:{name}")
]

# What the plugin needs to see that a run does not use leveret. Each further module costs every run in its environment.
SMALL = [
    *("contract", "fixtures", "flaky", "guard"),
    *("options", "options.kinds", "options.markers", "options.table", "plugin", "trials", "use"),
]

LOADED = """
    import sys

    def loaded():
        return [name for name in sys.modules if name.partition(".")[0] == "leveret"]
"""


def test_importing_the_plugin_imports_nothing_of_leveret(pytester):
    path = pytester.makepyfile("""
        import sys
        import pytest_leveret.plugin

        print([name for name in sys.modules if name.partition(".")[0] == "leveret"])
    """)

    result = pytester.runpython(path)

    assert result.outlines == ["[]"]


def test_a_run_without_a_broker_imports_nothing_of_leveret(run_apart):
    result = run_apart(
        LOADED
        + """
    def test_before():
        assert loaded() == []

    def test_that_fails():
        assert False

    def test_after():
        assert loaded() == []
    """
    )

    result.assert_outcomes(passed=2, failed=1)


@pytest.mark.parametrize("options", [(), ("-v", "-k", "passes"), ("--collect-only",)], ids=" ".join)
def test_a_run_that_does_not_use_leveret_imports_only_the_small_modules_of_the_plugin(suite, run_apart, options):
    suite.makeconftest("""
        import sys

        def pytest_unconfigure():
            # After the last line of the summary.
            ours = [name for name in sys.modules if name.partition(".")[0] in ("leveret", "pytest_leveret")]
            print("loaded:", *sorted(ours))
    """)

    result = run_apart(
        """
        import unittest

        def test_that_passes():
            pass

        def test_that_fails():
            assert False

        class TestCase(unittest.TestCase):
            def test_that_passes(self):
                pass
        """,
        *options,
    )

    (line,) = [line for line in result.outlines if line.startswith("loaded:")]
    assert line.split()[1:] == ["pytest_leveret", *(f"pytest_leveret.{name}" for name in SMALL)]


@pytest.mark.parametrize(
    "test",
    [
        "def test_it(request): request.getfixturevalue('leveret').wait_for_consumer('jobs', timeout=0)",
        "def test_it(): Broker().start().wait_for_consumer('jobs', timeout=0)",
    ],
    ids=["a fixture", "a broker of its own"],
)
def test_the_first_test_that_asks_for_a_broker_while_it_runs_gets_its_whole_report(run_apart, test):
    result = run_apart(f"""
        from leveret import Broker

        {test}
    """)

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines("*- leveret: state of the broker on*")


def test_runs_within_a_run_that_does_not_use_leveret_do_not_disturb_each_other(suite, run_apart):
    result = run_apart(
        """
        import pytest

        @pytest.mark.parametrize("number", range(3))
        def test_it(pytester, number):
            pytester.makepyfile("def test_it(leveret): assert leveret.queue('jobs')")
            pytester.runpytest_inprocess().assert_outcomes(failed=1)
        """,
        beside=("pytester",),
    )

    result.assert_outcomes(passed=3)


# pytest imports pdb.
@pytest.mark.skipif(sys.version_info >= (3, 14), reason="from 3.14 on, pdb imports asyncio and ssl")
def test_starting_a_broker_does_not_import_modules_that_are_needed_later(run_apart):
    result = run_apart("""
        import sys

        def test_it(leveret):
            leveret.declare_queue("orders")
            assert {"asyncio", "ssl"} & set(sys.modules) == set()
    """)

    result.assert_outcomes(passed=1)


def test_pytest_finds_the_plugin_and_exactly_its_fixtures(pytester):
    result = pytester.runpytest_subprocess("--fixtures", "-v", "-p", "no:cacheprovider", *NO_STRANGERS)

    ours = [line.split()[0] for line in result.outlines if "pytest_leveret" in line and " -- " in line]
    assert sorted(ours) == ["_leveret_rabbitmq", "leveret", "leveret_session", "make_leveret"]


def test_the_asserts_of_an_installed_broker_are_not_rewritten(pytester, monkeypatch):
    # A distribution as an installer writes it: pytest rewrites all files in the RECORD of a distribution with a plugin.
    info = pytester.mkdir("leveret-99.dist-info")
    info.joinpath("METADATA").write_text("Name: leveret\nVersion: 99\n")
    info.joinpath("entry_points.txt").write_text("[pytest11]\nleveret = pytest_leveret.plugin\n")
    info.joinpath("RECORD").write_text("leveret/__init__.py,,\npytest_leveret/__init__.py,,\n")
    monkeypatch.syspath_prepend(pytester.path)
    pytester.makepyfile("""
        def test_it(leveret, pytestconfig):
            import leveret.broker
            import pytest_leveret.plugin

            hook = type(pytestconfig.pluginmanager.rewrite_hook)
            assert isinstance(pytest_leveret.plugin.__loader__, hook)
            assert not isinstance(leveret.broker.__loader__, hook)
    """)

    result = pytester.runpytest_subprocess("-p", "no:cacheprovider", *NO_STRANGERS)

    result.assert_outcomes(passed=1)
