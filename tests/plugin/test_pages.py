"""The pages that the plugin writes: which tests get one, where, how many, and what else a run writes."""

from __future__ import annotations

import html
import json
import re
import unittest
from pathlib import Path
from xml.etree import ElementTree

import pytest

from leveret import Broker
from leveret.page.readings.trace_source import read_test
from tests.page.conftest import story_in

FAILING = """
    def test_passed(leveret):
        leveret.declare_queue("q")

    def test_failed(leveret):
        leveret.declare_queue("q")
        leveret.publish("", "q", b"1")
        leveret.assert_acked("q")
"""
MANY = """
    import pytest

    @pytest.mark.parametrize("number", range(6))
    def test_failed(leveret, number):
        assert number < 0
"""


@pytest.fixture(autouse=True)
def no_summary(monkeypatch):
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)


def pages_in(folder: Path):
    return sorted(path for path in folder.glob("*.html") if path.name != "index.html")


def runs_in_cache(pytester):
    return list((pytester.path / ".pytest_cache" / "d" / "leveret-pages").iterdir())


def test_a_failed_test_gets_a_page_and_its_report_ends_with_the_link(run, pytester):
    result = run(FAILING, "--leveret-pages-dir=pages")

    (page,) = pages_in(pytester.path / "pages")
    result.stdout.fnmatch_lines([f"page: {page.as_uri()}"])
    story = story_in(page)
    assert story["test"]["id"].endswith("::test_failed")
    assert (story["test"]["outcome"], story["test"]["phase"]) == ("failed", "call")
    assert "assert_acked('q')" in story["test"]["error"]["text"]
    assert [event["kind"] for event in story["events"]] == ["queue_declare", "published", "enqueued"]


def test_a_run_without_failures_writes_nothing(run, pytester):
    run("def test_passed(leveret): pass", "--leveret-pages-dir=pages")

    assert not (pytester.path / "pages").exists()


def test_all_gives_passing_tests_a_page_too(run, pytester):
    run(FAILING, "--leveret-pages-dir=pages", "--leveret-pages=all")

    outcomes = [story_in(page)["test"]["outcome"] for page in pages_in(pytester.path / "pages")]
    assert sorted(outcomes) == ["failed", "passed"]


def test_off_gives_none(run, pytester):
    result = run(FAILING, "--leveret-pages-dir=pages", "--leveret-pages=off")

    assert not (pytester.path / "pages").exists()
    result.stdout.no_fnmatch_line("page: *")


def test_the_options_are_read_from_ini_file_and_environment(run, pytester, monkeypatch):
    pytester.makeini("[pytest]\nleveret_pages = off\nleveret_pages_dir = from-ini")
    monkeypatch.setenv("LEVERET_PAGES", "failed")

    run(FAILING)

    assert len(pages_in(pytester.path / "from-ini")) == 1


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("--leveret-pages=some", "--leveret-pages: 'some' is unknown; expected failed, all or off"),
        ("--leveret-pages-limit=0", "--leveret-pages-limit: '0' is not 1 or more"),
    ],
)
def test_an_invalid_option_stops_the_run(run, option, message):
    result = run(FAILING, option)

    result.stderr.fnmatch_lines([f"ERROR: {message}"])


def test_pages_go_into_the_cache_of_pytest(suite, pytester):
    suite.makepyfile(FAILING)

    suite.runpytest_inprocess("-p", "pytest_leveret.plugin")

    (folder,) = runs_in_cache(pytester)
    assert len(pages_in(folder)) == 1


def test_the_pages_of_the_run_before_stay_when_one_test_runs_again(suite, pytester):
    suite.makepyfile(MANY)
    suite.runpytest_inprocess("-p", "pytest_leveret.plugin")
    (folder,) = runs_in_cache(pytester)

    suite.runpytest_inprocess("-p", "pytest_leveret.plugin", "-k", "3")

    assert len(pages_in(folder)) == 6
    assert [len(pages_in(run)) for run in runs_in_cache(pytester) if run != folder] == [1]


def test_the_cache_keeps_the_pages_of_three_runs(suite, pytester):
    suite.makepyfile(MANY)
    for number in range(5):
        suite.runpytest_inprocess("-p", "pytest_leveret.plugin", "-k", str(number))

    indexes = [(run / "index.html").read_text(encoding="utf-8") for run in runs_in_cache(pytester)]
    assert sorted(re.findall(r"test_failed\[(\d)\]", "".join(indexes))) == ["2", "3", "4"]


def test_a_given_directory_keeps_every_page(suite, pytester):
    suite.makepyfile(MANY)
    for only in ("", "3", "2", "1", "0"):
        suite.runpytest_inprocess("-p", "pytest_leveret.plugin", "--leveret-pages-dir=pages", "-k", only)

    assert len(pages_in(pytester.path / "pages")) == 6


def test_without_cache_and_directory_the_run_says_why_there_is_no_page(run):
    result = run(FAILING)

    result.stdout.fnmatch_lines(
        ["leveret: no pages, because pytest's cache is off; use --leveret-pages-dir=DIR, or --leveret-pages=off"]
    )


def test_the_limit_ends_the_pages_and_is_said(run, pytester):
    result = run(MANY, "--leveret-pages-dir=pages", "--leveret-pages-limit=2")

    assert len(pages_in(pytester.path / "pages")) == 2
    result.stdout.fnmatch_lines(
        [
            "page: none, because --leveret-pages-limit=2 was reached",
            "leveret: 2 pages: file:///*/pages/index.html",
            "leveret: 4 tests have no page, because --leveret-pages-limit=2 was reached",
        ]
    )


def test_the_index_lists_the_pages(run, pytester):
    run(MANY, "--leveret-pages-dir=pages")

    index = (pytester.path / "pages" / "index.html").read_text(encoding="utf-8")
    links = re.findall(r'<a href="([^"]+)">([^<]+)</a>', index)
    assert [name.rpartition("::")[2] for _, name in links] == [f"test_failed[{number}]" for number in range(6)]
    assert all((pytester.path / "pages" / link).exists() for link, _ in links)


LOSING = """
    from client import connect

    def test_an_order_is_paid(leveret):
        leveret.declare_queue("payments")
        channel = connect(leveret.url, "payment service").channel()
        for number in (7, 8):
            channel.basic_publish("", "payments", b"%d" % number)
        channel.basic_get("payments")
        method, _, _ = channel.basic_get("payments")
        channel.basic_reject(method.delivery_tag, requeue=False)
        leveret.assert_acked("payments", body=b"8")
"""
CAUSE = "payment service rejected #2 in 'payments', which has no dead-letter exchange: the message is gone"


def test_the_cause_is_on_the_page_in_the_index_and_in_junit(run, pytester):
    run(LOSING, "--leveret-pages-dir=pages", "--junitxml=junit.xml")

    (page,) = pages_in(pytester.path / "pages")
    (cause,) = story_in(page)["causes"]
    assert (cause["kind"], cause["sentence"], cause["messages"]) == ("rejected_into_nothing", CAUSE, [2])
    assert html.escape(CAUSE) in (pytester.path / "pages" / "index.html").read_text(encoding="utf-8")
    (found,) = ElementTree.parse(pytester.path / "junit.xml").iterfind(".//property")
    assert (found.get("name"), found.get("value")) == ("leveret_cause", CAUSE)


def test_the_facts_stand_as_json_beside_the_page(run, pytester):
    run(LOSING, "--leveret-pages-dir=pages")

    (page,) = pages_in(pytester.path / "pages")
    facts = json.loads(page.with_suffix(".json").read_text(encoding="utf-8"))
    assert (facts["format"], facts["page"]) == (1, page.name)
    assert facts["test"]["id"].endswith("::test_an_order_is_paid")
    assert [each["kind"] for each in facts["causes"][0]["evidence"]] == ["rejected", "dropped"]
    assert facts["assertion"]["nearest"][0]["message"] == 2
    lost = facts["messages"][1]
    assert lost["outcome"] == "dropped from 'payments' (rejected) by c1/ch1 after 1 delivery"
    assert [each["kind"] for each in lost["life"]] == ["published", "enqueued", "got", "rejected", "dropped"]
    (queue,) = facts["queues"]
    assert (queue["name"], queue["ready"], queue["unacked"]) == ("payments", 0, 1)


def test_messages_that_share_a_cause_are_one_sentence(run, pytester):
    run(
        """
        def test_failed(leveret):
            for body in (b"1", b"2", b"3"):
                leveret.publish("", "nowhere", body)
            assert [] == ["1", "2", "3"]
        """,
        "--leveret-pages-dir=pages",
    )

    (page,) = pages_in(pytester.path / "pages")
    (cause,) = story_in(page)["causes"]
    assert cause["sentence"].startswith("#1, #2 and #3 from the test reached no queue")
    assert cause["messages"] == [1, 2, 3]


def test_a_slash_in_a_parameter_leaves_the_name_of_the_test(suite, pytester):
    suite.makepyfile(
        test_a="""
        import pytest

        @pytest.mark.parametrize("path", ["a/b"])
        def test_failed(leveret, path):
            assert False
        """
    )

    suite.runpytest_inprocess("-p", "pytest_leveret.plugin", "--leveret-pages-dir=pages")

    (page,) = pages_in(pytester.path / "pages")
    assert page.name.startswith("test_a.py-test_failed-a-b-")


def test_the_page_has_the_code_of_the_test_with_the_line_that_failed(run, pytester):
    run(LOSING, "--leveret-pages-dir=pages")

    (page,) = pages_in(pytester.path / "pages")
    code = story_in(page)["code"]
    assert code["lines"][0] == "def test_an_order_is_paid(leveret):"
    assert code["lines"][code["failed"] - code["first"]].strip() == 'leveret.assert_acked("payments", body=b"8")'
    assert [frame["function"] for frame in code["traceback"]] == ["test_an_order_is_paid"]


def test_the_page_says_where_threads_and_tasks_stood_when_the_test_failed(run, pytester):
    run(
        """
        import asyncio
        import threading

        def reserve(is_running, stock):
            is_running.set()
            stock.wait()

        async def refill():
            await asyncio.get_running_loop().create_future()

        def test_stock_is_reserved(leveret):
            leveret.declare_queue("reserved")
            is_running, stock = threading.Event(), threading.Event()
            threading.Thread(target=reserve, args=(is_running, stock), name="stock keeper").start()
            is_running.wait()

            async def scenario():
                task = asyncio.create_task(refill(), name="refill")
                await asyncio.sleep(0)
                leveret.assert_acked("reserved")
            try:
                asyncio.run(scenario())
            finally:
                stock.set()
        """,
        "--leveret-pages-dir=pages",
    )

    (page,) = pages_in(pytester.path / "pages")
    stacks = story_in(page)["code"]["stacks"]
    assert stacks[0]["name"] == "the test"
    own = {stack["name"]: [frame for frame in stack["frames"] if frame["is_yours"]][-1] for stack in stacks}
    assert own["the test"]["code"] == 'leveret.assert_acked("reserved")'
    assert own["thread 'stock keeper'"]["code"] == "stock.wait()"
    assert own["task 'refill'"]["code"] == "await asyncio.get_running_loop().create_future()"


def test_the_own_tasks_of_a_client_are_not_shown(run, pytester):
    run(
        """
        import asyncio

        import aio_pika

        def test_stock_is_reserved(leveret):
            leveret.declare_queue("reserved")

            async def scenario():
                async with await aio_pika.connect_robust(leveret.url) as connection:
                    queue = await (await connection.channel()).get_queue("reserved")
                    await queue.consume(print)
                    assert [] == [1]

            asyncio.run(scenario())
        """,
        "--leveret-pages-dir=pages",
    )

    (page,) = pages_in(pytester.path / "pages")
    stacks = story_in(page)["code"]["stacks"]
    assert [stack["name"] for stack in stacks if not any(frame["is_yours"] for frame in stack["frames"])] == []


def test_what_the_test_logged_stands_among_the_events(run, pytester):
    run(
        """
        import logging

        def test_failed(leveret):
            leveret.publish("", "nowhere", b"1")
            logger = logging.getLogger("stock")
            logger.setLevel("WARNING")
            logger.warning("no stock of %s", "tea")
            leveret.publish("", "nowhere", b"2")
            assert False
        """,
        "--leveret-pages-dir=pages",
    )

    (page,) = pages_in(pytester.path / "pages")
    kinds = [event["kind"] for event in story_in(page)["events"]]
    assert kinds == ["published", "dropped", "log", "published", "dropped"]
    assert story_in(page)["events"][2]["text"] == "WARNING stock: no stock of tea"


def test_what_happens_after_the_failing_line_is_marked_as_clean_up(run, pytester):
    run(
        """
        from contextlib import contextmanager
        from client import connect

        @contextmanager
        def worker(leveret):
            connection = connect(leveret.url)
            channel = connection.channel()
            channel.basic_get("jobs")
            try:
                yield
            finally:
                connection.close()

        def test_failed(leveret):
            leveret.declare_queue("jobs")
            leveret.publish("", "jobs", b"1")
            with worker(leveret):
                assert [1] == [2]
        """,
        "--leveret-pages-dir=pages",
    )

    (page,) = pages_in(pytester.path / "pages")
    late = [event["kind"] for event in story_in(page)["events"] if event.get("late")]
    assert late[0] in ("chan_close", "requeued")
    assert {"requeued", "conn_close"} <= set(late)
    (queue,) = json.loads(page.with_suffix(".json").read_text(encoding="utf-8"))["queues"]
    assert (queue["ready"], queue["unacked"]) == (0, 1)


def test_two_brokers_are_on_one_page(run, pytester):
    run(
        """
        def test_failed(leveret, make_leveret):
            other = make_leveret(rabbitmq="3.13")
            leveret.publish("", "nowhere", b"1")
            other.publish("", "nowhere", b"2")
            assert [] == ["1", "2"]
        """,
        "--leveret-pages-dir=pages",
    )

    (page,) = pages_in(pytester.path / "pages")
    story = story_in(page)
    assert [(broker["id"], broker["rabbitmq"]) for broker in story["brokers"]] == [("b1", "4.3"), ("b2", "3.13")]
    assert [broker["title"] for broker in story["brokers"]] == ["leveret", "other"]
    assert [cause["sentence"].partition(":")[0] for cause in story["causes"]] == ["leveret", "other"]
    assert [message.get("name") for message in story["messages"]] == [None, "#1 of other"]
    assert [event["text"] for event in story["events"]] == [
        "published #1 to queue 'nowhere'",
        "dropped #1 (no route)",
        "published #1 of other to queue 'nowhere'",
        "dropped #1 of other (no route)",
    ]


RELAY = """
    from client import connect

    def relay(source, target):
        got = connect(source, "relay").channel().basic_get("outbox", auto_ack=True)
        connect(target, "relay").channel().basic_publish("", "inbocks", got[2])

    def test_failed(make_leveret):
        {brokers}
        source.declare_queue("outbox")
        source.publish("", "outbox", b"ciao")
        relay(source.url, target.url)
        target.wait_idle()
        assert target.queues == ["inbox"]
"""


def test_brokers_have_the_names_that_the_test_gave_them(run, pytester):
    names = 'source, target = make_leveret(name="paris"), make_leveret(name="rome")'
    result = run(RELAY.replace("{brokers}", names), "--leveret-pages-dir=pages")

    result.stdout.fnmatch_lines(
        ["rome: #1 from relay reached no queue*", "*leveret: state of rome, the broker on port *"]
    )
    (page,) = pages_in(pytester.path / "pages")
    assert [broker["title"] for broker in story_in(page)["brokers"]] == ["paris", "rome"]


def test_brokers_without_names_have_those_of_the_variables_of_the_test(run, pytester):
    result = run(
        RELAY.replace("{brokers}", "source, target = make_leveret(), make_leveret()"), "--leveret-pages-dir=pages"
    )

    result.stdout.fnmatch_lines(["target: #1 from relay*", "*leveret: target: state of the broker on port *"])
    (page,) = pages_in(pytester.path / "pages")
    assert [broker["title"] for broker in story_in(page)["brokers"]] == ["source", "target"]


def test_what_a_client_relays_to_another_broker_is_linked_to_what_it_got(run, pytester):
    run(RELAY.replace("{brokers}", "source, target = make_leveret(), make_leveret()"), "--leveret-pages-dir=pages")

    (page,) = pages_in(pytester.path / "pages")
    first, second = story_in(page)["messages"]
    assert second["caused_by"] == {"message": first["number"], "how": "relayed by relay", "guess": True}


def test_a_name_of_a_broker_that_is_none_is_refused(run):
    result = run("""
        def test_failed(make_leveret):
            make_leveret(name="")
    """)

    result.stdout.fnmatch_lines(["*name='' is no name; expected a text such as 'paris', or leave it out"])


def test_a_broker_of_the_session_shows_this_test_only_and_who_was_connected(run, pytester):
    run(
        """
        import pytest
        from client import connect

        @pytest.fixture(scope="session")
        def channel(leveret_session):
            leveret_session.declare_queue("q")
            with connect(leveret_session.url, "shop") as connection:
                yield connection.channel()

        def test_first(leveret_session, channel):
            channel.basic_publish("", "q", b"1")
            leveret_session.sync()

        def test_second(leveret_session, channel):
            channel.basic_publish("", "q", b"2")
            leveret_session.sync()
            assert False
        """,
        "--leveret-pages-dir=pages",
    )

    (page,) = pages_in(pytester.path / "pages")
    story = story_in(page)
    assert [event["text"] for event in story["events"]] == ["published #2 to queue 'q'", "#2 entered 'q'"]
    assert [lane["label"] for lane in story["lanes"]] == ["c1 shop", "(default exchange)", "q"]
    assert story["queues"][0]["series"][-1][2] == 2


def test_a_test_that_strict_checks_fail_gets_a_page(run, pytester):
    result = run(
        """
        import pytest

        @pytest.mark.leveret(checks="unroutable=error")
        def test_strict(leveret):
            leveret.publish("", "nowhere", b"1")
        """,
        "--leveret-pages-dir=pages",
    )

    result.assert_outcomes(passed=1, errors=1)
    (page,) = pages_in(pytester.path / "pages")
    told = story_in(page)["test"]
    assert (told["outcome"], told["phase"]) == ("error", "teardown")
    assert "unroutable" in told["error"]["text"]


def test_a_test_without_a_broker_gets_none(run, pytester):
    run("def test_failed(): assert False", "--leveret-pages-dir=pages")

    assert not (pytester.path / "pages").exists()


def test_a_page_that_cannot_be_written_does_not_hide_the_failure(run, pytester):
    result = run(
        """
        from pathlib import Path

        def test_failed(leveret):
            Path("pages").write_text("a file", encoding="utf-8")
            leveret.declare_queue("q")
            leveret.assert_acked("q")
        """,
        "--leveret-pages-dir=pages",
    )

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["E   *AssertionError: assert_acked('q')*", "leveret could not write the page: *Error: *"]
    )


def test_a_passing_test_imports_nothing_of_the_page(run_apart, pytester):
    result = run_apart(
        """
        import sys

        def test_passed(leveret):
            leveret.publish("", "nowhere", b"1")

        def test_nothing_was_imported(leveret):
            assert [name for name in sys.modules if name.startswith("leveret.page")] == []
        """
    )

    result.assert_outcomes(passed=2)


def test_a_ci_job_gets_a_summary_with_a_diagram(run, pytester, monkeypatch):
    summary = pytester.path / "summary.md"
    summary.write_text("before\n", encoding="utf-8")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))

    run(FAILING, "--leveret-pages-dir=pages", "--leveret-pages=all")

    text = summary.read_text(encoding="utf-8")
    assert text.startswith("before\n## leveret: failed tests\n")
    assert text.count("<details>") == text.count("```mermaid\nsequenceDiagram\n") == 1
    assert "::test_failed</code> failed</summary>" in text
    assert "published #35;1 to queue 'q'" in text


def test_the_summary_of_a_ci_job_says_the_cause_before_the_error(run, pytester, monkeypatch):
    summary = pytester.path / "summary.md"
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))

    run(LOSING, "--leveret-pages-dir=pages")

    text = summary.read_text(encoding="utf-8")
    assert 0 < text.index(f"    {CAUSE}\n") < text.index("    AssertionError: ")


def test_a_trace_file_says_what_a_test_failed_with(run, pytester):
    run(FAILING, "--leveret-trace-dir=traces", "--leveret-pages=off")

    (trace,) = (pytester.path / "traces").iterdir()
    failed, passed = read_test(trace, "test_failed").test, read_test(trace, "test_passed").test
    assert failed.error is not None
    assert failed.error.startswith("AssertionError: assert_acked('q')")
    assert passed.error is None


def test_plain_unittest_saves_a_page_where_it_fails(tmp_path):
    page = tmp_path / "page.html"

    class ShopTest(unittest.TestCase):
        def setUp(self):
            self.broker = self.enterContext(Broker())
            self.broker.declare_queue("jobs")

        def runTest(self):
            self.broker.publish("", "jobs", b"1")
            self.path = self.broker.save_page(page)
            self.broker.assert_acked("jobs")

    case = ShopTest()
    result = case.run()

    assert len(result.failures) == 1
    assert case.path == str(page)
    assert [message["outcome"] for message in story_in(page)["messages"]] == ["ready in 'jobs'"]
