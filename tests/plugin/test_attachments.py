"""The page of a failed test is in the reports of other plugins, and GitHub marks the lines of leveret's warnings."""

from __future__ import annotations

import json

import pytest

from tests.plugin.conftest import Run

FAILING = """
def test_an_order(leveret):
    leveret.declare_queue("orders")
    leveret.publish("", "orders", b"7")
    leveret.assert_acked("orders")
"""
MISSING = """
def test_a_typo_in_a_key(leveret):
    leveret.declare_exchange("shop", type="topic")
    leveret.declare_queue("orders")
    leveret.bind_queue("orders", "shop", "order.*")
    leveret.publish("shop", "orders.new", b"seven")
    assert [message.text for message in leveret.queue("orders").ready] == ["seven"]
"""
LOSING = """
from client import connect

def test_a_typo(leveret):
    with connect(leveret.url) as connection:
        connection.channel().basic_publish("", "oders", b"7")
"""


def test_pytest_html_links_to_the_page(run: Run, suite: pytest.Pytester) -> None:
    pages = suite.path / "pages"

    run(
        FAILING,
        "-p",
        "pytest_html.plugin",
        "-p",
        "pytest_metadata.plugin",
        "--html=all.html",
        f"--leveret-pages-dir={pages}",
    )

    (page,) = (path for path in pages.glob("*.html") if path.name != "index.html")
    assert page.name in (suite.path / "all.html").read_text(encoding="utf-8")


def test_allure_gets_the_page(run: Run, suite: pytest.Pytester) -> None:
    pages = suite.path / "pages"

    run(FAILING, "-p", "allure_pytest.plugin", "--alluredir=allure", f"--leveret-pages-dir={pages}")

    (result,) = (
        (json.loads(path.read_text(encoding="utf-8"))) for path in (suite.path / "allure").glob("*-result.json")
    )
    (attached,) = (it for it in result["attachments"] if it["name"] == "leveret: what happened")
    assert "test_an_order" in (suite.path / "allure" / attached["source"]).read_text(encoding="utf-8")


def test_the_details_of_allure_have_the_error_and_then_its_cause(run: Run, suite: pytest.Pytester) -> None:
    run(MISSING, "-p", "allure_pytest.plugin", "--alluredir=allure")

    (path,) = (suite.path / "allure").glob("*-result.json")
    error, *_, cause = json.loads(path.read_text(encoding="utf-8"))["statusDetails"]["message"].splitlines()
    assert error.startswith("AssertionError: ")
    assert cause.startswith("#1 from the test reached no queue: 'orders.new' matches no binding of 'shop'")


def test_github_marks_the_test_that_lost_a_message(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.delenv("GITHUB_WORKSPACE", raising=False)

    result = run(LOSING)

    result.stdout.fnmatch_lines(["::warning file=test_*.py,line=*,title=leveret::unroutable: 1 message lost*%0A*"])


def test_nothing_is_marked_elsewhere(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)

    run(LOSING).stdout.no_fnmatch_line("::warning*")
