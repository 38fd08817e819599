"""`leveret why` prints why the tests of the last run failed, from the JSON beside their pages."""

from __future__ import annotations

import json

import pytest
from pytest_leveret.commands.why import SHOWN_MAX

from leveret.cli import main
from tests.plugin.conftest import Run, no_options_of_ours, run, suite

__all__ = ["no_options_of_ours", "run", "suite"]

FAILING = """
    from client import connect

    def test_paid(leveret):
        leveret.declare_queue("payments")
        channel = connect(leveret.url, "payment service").channel()
        channel.basic_publish("", "payments", b"7")
        method, _, _ = channel.basic_get("payments")
        channel.basic_reject(method.delivery_tag, requeue=False)
        leveret.sync()
        assert leveret.queue("payments").ready_count == 1

    def test_lost(leveret):
        leveret.publish("", "nowhere", b"8")
        assert [] == ["8"]

    def test_passed(leveret):
        pass
"""


@pytest.fixture
def failed(run: Run, pytester: pytest.Pytester) -> pytest.Pytester:
    run(FAILING, "--leveret-pages-dir=pages", "--leveret-pages=all")
    return pytester


def test_the_story_of_each_failed_test_begins_with_its_cause(failed, capsys):
    capsys.readouterr()

    assert main(["why", "--pages-dir", "pages"]) == 0

    paid, lost = capsys.readouterr().out.rstrip().split("\n\n")
    assert paid.splitlines()[0].endswith("::test_paid failed")
    assert paid.splitlines()[1] == (
        "cause: payment service rejected #1 in 'payments', which has no dead-letter exchange: the message is gone"
    )
    assert 'in test_paid: assert leveret.queue("payments").ready_count == 1' in paid
    assert "s c1/ch1 rejected #1" in paid
    assert "queue payments: 0 ready, 0 unacked, 0 consumers" in paid
    assert paid.splitlines()[-1].startswith("page: ")
    assert "reached no queue" in lost


def test_what_was_noticed_stands_first_if_no_cause_is_certain(run, pytester, capsys):
    run(
        """
        def test_mailed(leveret):
            leveret.publish("", "mail", b"8")
            assert 2 + 2 == 5
        """,
        "--leveret-pages-dir=pages",
    )
    capsys.readouterr()

    assert main(["why", "--pages-dir", "pages"]) == 0

    printed = capsys.readouterr().out
    assert printed.splitlines()[1].startswith("no cause is certain; noticed: #1 from the test reached no queue: ")
    assert "also noticed" not in printed
    assert "cause: leveret knows none" not in printed


def test_a_failure_in_which_nothing_was_noticed_has_no_known_cause(run, pytester, capsys):
    run("def test_sum(leveret): assert 2 + 2 == 5", "--leveret-pages-dir=pages")
    capsys.readouterr()

    main(["why", "--pages-dir", "pages"])

    assert capsys.readouterr().out.splitlines()[1] == "cause: leveret knows none"


def test_a_cause_takes_the_place_of_the_messages_that_do_not_fit(run, pytester, capsys):
    run(
        """
        def test_mailed(leveret):
            leveret.declare_queue("mails")
            for number in range(3):
                leveret.publish("", "mail", json={"id": number})
            leveret.assert_ready("mails", json={"id": 7})
        """,
        "--leveret-pages-dir=pages",
    )
    capsys.readouterr()

    assert main(["why", "--pages-dir", "pages"]) == 0

    printed = capsys.readouterr().out
    assert "cause: " in printed
    assert "assert_ready('mails', json={'id': 7}): expected at least 1 ready" in printed
    assert "not ready:" not in printed


def test_a_part_of_its_name_chooses_a_test(failed, capsys):
    capsys.readouterr()

    assert main(["why", "test_lost", "--pages-dir", "pages"]) == 0

    printed = capsys.readouterr().out
    assert "::test_lost failed" in printed
    assert "test_paid" not in printed


def test_an_unknown_name_lists_the_tests_that_failed(failed, capsys):
    assert main(["why", "test_passed", "--pages-dir", "pages"]) == 2

    error = capsys.readouterr().err
    assert error.startswith("leveret: NODEID 'test_passed' is no test that failed; these are:\n")
    assert "::test_paid" in error


def test_without_pages_the_error_says_what_to_do(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)

    assert main(["why"]) == 2

    assert "run the test that fails, or name the folder of its run with --pages-dir" in capsys.readouterr().err


def test_a_long_story_keeps_its_cause_and_its_page_in_five_hundred_tokens(failed, capsys):
    (path,) = [path for path in (failed.path / "pages").glob("*.json") if "test_paid" in path.read_text()[:400]]
    facts = json.loads(path.read_text())
    facts["error"] = "AssertionError: " + "x" * 5_000
    facts["queues"] *= 200
    path.write_text(json.dumps(facts))
    capsys.readouterr()

    main(["why", "test_paid", "--pages-dir", "pages"])

    printed = capsys.readouterr().out.rstrip()
    assert len(printed) <= SHOWN_MAX
    assert "cause: payment service rejected #1" in printed
    assert printed.splitlines()[-1].startswith("page: ")


def test_the_last_run_in_pytests_cache_is_read_without_a_folder(suite, pytester, monkeypatch, capsys):
    suite.makepyfile(FAILING)
    suite.runpytest_inprocess("-p", "pytest_leveret.plugin")
    monkeypatch.chdir(pytester.path)
    capsys.readouterr()

    assert main(["why", "test_lost"]) == 0

    assert "::test_lost failed" in capsys.readouterr().out


def test_an_error_within_a_library_is_shown_at_the_lines_of_the_user(run, pytester, capsys):
    run(
        """
        import socket

        def ask(url):
            socket.create_connection("no address at all")

        def test_answered(leveret):
            ask(leveret.url)
        """,
        "--leveret-pages-dir=pages",
    )
    capsys.readouterr()

    main(["why", "--pages-dir", "pages"])

    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("at ")]
    assert [line.rpartition(": ")[2] for line in lines] == [
        "ask(leveret.url)",
        'socket.create_connection("no address at all")',
    ]


def test_a_queue_that_is_gone_is_listed_as_deleted(run, pytester, capsys):
    run(
        """
        from client import connect

        def test_kept(leveret):
            connection = connect(leveret.url, "shop")
            connection.channel().queue_declare("carts", exclusive=True)
            connection.close()
            leveret.declare_queue("orders")
            other = connect(leveret.url, "desk")
            other.channel().queue_declare("till", exclusive=True)
            try:
                assert leveret.queue("orders").ready_count == 1
            finally:
                other.close()
        """,
        "--leveret-pages-dir=pages",
    )
    capsys.readouterr()

    main(["why", "--pages-dir", "pages"])

    printed = capsys.readouterr().out
    assert "queue orders: 0 ready" in printed
    assert "deleted queues: carts\n" in printed
    assert "queue carts:" not in printed
    # Deleted after the failure.
    assert "queue till: 0 ready" in printed


def test_a_queue_that_an_earlier_test_deleted_is_not_listed(run, pytester, capsys):
    run(
        """
        def test_first(leveret_session):
            leveret_session.declare_queue("carts")
            leveret_session.delete_queue("carts")

        def test_second(leveret_session):
            leveret_session.declare_queue("orders")
            assert False
        """,
        "--leveret-pages-dir=pages",
    )
    capsys.readouterr()

    main(["why", "--pages-dir", "pages"])

    printed = capsys.readouterr().out
    assert "queue orders: 0 ready" in printed
    assert "carts" not in printed


def test_a_fault_that_never_fired_is_named_if_the_test_added_it(run, pytester, capsys):
    run(
        """
        def test_first(leveret_session):
            leveret_session.faults.nack_publishes(optional=True).remove()

        def test_second(leveret_session):
            leveret_session.faults.reset_peer(on="basic.ack")
            assert False
        """,
        "--leveret-pages-dir=pages",
    )
    capsys.readouterr()

    main(["why", "--pages-dir", "pages"])

    faults = [line for line in capsys.readouterr().out.splitlines() if line.startswith("fault ")]
    assert faults == ["fault <reset_peer on basic.ack, times=1> never fired"]


def test_a_test_on_another_broker_than_its_application_is_pointed_to_that_one(run, pytester, capsys, monkeypatch):
    monkeypatch.delenv("AMQP_URL", raising=False)
    pytester.makeini("[pytest]\nleveret_url_env = AMQP_URL")
    run(
        """
        import os
        from client import connect

        def test_billed(leveret):
            connect(os.environ["AMQP_URL"]).close()
            assert leveret.url == ""
        """,
        "--leveret-pages-dir=pages",
    )
    capsys.readouterr()

    main(["why", "--pages-dir", "pages"])

    assert "another broker: leveret_session is the broker at AMQP_URL; " in capsys.readouterr().out
    (path,) = (pytester.path / "pages").glob("*.json")
    assert json.loads(path.read_text())["another_broker"].endswith("use leveret_session in this test.")


def test_a_long_sentence_of_what_was_noticed_is_whole(failed, capsys):
    (path,) = [path for path in (failed.path / "pages").glob("*.json") if "test_paid" in path.read_text()[:400]]
    facts = json.loads(path.read_text())
    facts["noticed"] = [{"sentence": "x" * 300}]
    path.write_text(json.dumps(facts))
    capsys.readouterr()

    main(["why", "test_paid", "--pages-dir", "pages"])

    assert f"also noticed: {'x' * 300}\n" in capsys.readouterr().out


def test_what_is_seen_of_a_refusal_names_its_channel_once_and_ends_with_the_failure(run, pytester, capsys):
    run(
        """
        from client import connect

        def test_refused(leveret):
            connect(leveret.url, "shop").channel().queue_declare("nowhere", passive=True)
        """,
        "--leveret-pages-dir=pages",
    )
    capsys.readouterr()

    main(["why", "--pages-dir", "pages"])

    printed = capsys.readouterr().out.splitlines()
    start = printed.index("seen:")
    assert " s c1/ch1 was refused: 404" in printed[start + 1]
    assert printed[start + 2].endswith(" s the test failed")
