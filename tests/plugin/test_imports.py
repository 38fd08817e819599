"""The cost of the plugin for a run that uses no broker: it imports nothing of leveret."""

from __future__ import annotations

import sys

import pytest

# Importing other plugins that pytest finds here takes longer than these runs.
NO_STRANGERS = [
    word for name in ("hypothesispytest", "anyio", "asyncio", "xdist", "time_machine") for word in ("-p", f"no:{name}")
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
