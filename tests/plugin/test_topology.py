"""Production's definitions in a user's test suite: what they must match, and what no test has used."""

from __future__ import annotations

import json

import pytest

DEFINITIONS = {
    "vhosts": [{"name": "/"}],
    "exchanges": [
        {"name": "shop", "vhost": "/", "type": "topic", "arguments": {"alternate-exchange": "lost"}},
        {"name": "mails", "vhost": "/", "type": "direct"},
        {"name": "lost", "vhost": "/", "type": "fanout"},
        {"name": "dead", "vhost": "/", "type": "fanout"},
        {"name": "unused", "vhost": "/", "type": "fanout"},
    ],
    "queues": [
        {"name": "orders", "vhost": "/", "arguments": {"x-dead-letter-exchange": "dead"}},
        *({"name": name, "vhost": "/"} for name in ("welcome", "lost", "dead", "idle")),
    ],
    "bindings": [
        {"source": source, "vhost": "/", "destination": name, "destination_type": kind, "routing_key": key}
        for source, name, kind, key in (
            ("shop", "orders", "queue", "order.created"),
            ("shop", "orders", "queue", "order.cancelled"),
            ("shop", "mails", "exchange", "#.created"),
            ("mails", "welcome", "queue", "user.created"),
            ("lost", "lost", "queue", ""),
            ("dead", "dead", "queue", ""),
            ("unused", "idle", "queue", ""),
        )
    ],
}
INI = "[pytest]\nleveret_definitions = production.json\nleveret_declare = must_match\n"
LINE = "leveret: of the definitions, no test used *"


@pytest.fixture
def suite(suite):
    """The user's suite, with definitions that it must match."""
    suite.makefile(".json", production=json.dumps(DEFINITIONS))
    suite.makeini(INI)
    return suite


def unused(result: pytest.RunResult) -> str:
    lines = [line for line in result.outlines if line.startswith("leveret: of the definitions")]
    return lines[0].removeprefix("leveret: of the definitions, no test used ") if lines else ""


def test_a_refused_declaration_is_an_error_at_its_line(run):
    result = run("""
        import pika
        from contextlib import suppress
        from client import connect

        def test_it(leveret):
            with suppress(pika.exceptions.ChannelClosedByBroker):
                connect(leveret.url).channel().queue_declare("orders", durable=True)
    """)

    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(["*redeclared_differently: 1 declaration refused*", "*, at *.py:7 in test_it*"])


def test_what_the_definitions_lack_is_an_error_of_the_test_that_declares_it(run):
    result = run("""
        from client import connect

        def test_good(leveret):
            connect(leveret.url).channel().queue_declare("idle", durable=True)

        def test_bad(leveret):
            connect(leveret.url).channel().queue_declare("idel", durable=True)
    """)

    result.assert_outcomes(passed=2, errors=1)
    result.stdout.fnmatch_lines(["*ERROR at teardown of test_bad*", "*queue 'idel', from worker: did you mean 'idle'?"])


def test_a_marker_makes_one_test_match(run, suite):
    suite.makeini("[pytest]\nleveret_definitions = production.json\n")
    result = run("""
        import pytest
        from client import connect

        def test_free(leveret):
            connect(leveret.url).channel().queue_declare("new", durable=True)

        @pytest.mark.leveret(declare="must_match")
        def test_bound(leveret):
            connect(leveret.url).channel().queue_declare("new", durable=True)
    """)

    result.assert_outcomes(passed=2, errors=1)
    result.stdout.fnmatch_lines(["*ERROR at teardown of test_bound*"])


def test_the_run_names_what_no_test_used(run):
    result = run("""
        from client import connect

        def test_consume(leveret):
            connect(leveret.url).channel().basic_consume("orders", lambda *_: None)

        def test_publish(leveret):
            connect(leveret.url).channel().basic_publish("shop", "user.created", b"")
            leveret.assert_ready("welcome")
    """)

    result.assert_outcomes(passed=2)
    assert unused(result) == (
        "exchange 'dead', exchange 'lost', exchange 'unused', queue 'dead', queue 'idle', queue 'lost', "
        "binding of 'shop' to queue 'orders' with key 'order.cancelled', "
        "binding of 'shop' to queue 'orders' with key 'order.created'"
    )


def test_dead_letters_and_alternate_exchanges_use_what_they_go_through(run):
    result = run("""
        from client import connect

        def test_it(leveret):
            channel = connect(leveret.url).channel()
            channel.basic_publish("shop", "no.such.key", b"")
            channel.basic_publish("shop", "order.cancelled", b"")
            leveret.assert_ready("orders")
            method, _, _ = channel.basic_get("orders")
            channel.basic_reject(method.delivery_tag, requeue=False)
            leveret.assert_ready("dead")
    """)

    result.assert_outcomes(passed=1)
    assert unused(result) == (
        "exchange 'mails', exchange 'unused', queue 'idle', queue 'welcome', "
        "binding of 'shop' to queue 'orders' with key 'order.created'"
    )


def test_a_run_that_uses_all_says_nothing(run):
    result = run("""
        from client import connect

        def test_it(leveret):
            channel = connect(leveret.url).channel()
            for key in ("order.created", "order.cancelled", "user.created", "lost"):
                channel.basic_publish("shop", key, b"")
            for exchange in ("dead", "unused"):
                channel.basic_publish(exchange, "", b"")
            leveret.assert_ready("idle")
    """)

    result.assert_outcomes(passed=1)
    assert unused(result) == ""


def test_a_run_that_declares_freely_says_nothing(run, suite):
    suite.makeini("[pytest]\nleveret_definitions = production.json\n")
    result = run("def test_it(leveret): leveret.sync()")

    assert unused(result) == ""


def test_must_match_without_definitions_is_refused(run, suite):
    suite.makeini("[pytest]\nleveret_declare = must_match\n")
    result = run("def test_it(leveret): pass")

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*ini option leveret_declare: declare='must_match' has nothing to match; give *"])


def test_the_line_says_how_many_tests_could_not_use_anything(run):
    result = run(
        """
        import pytest

        def test_it(leveret):
            leveret.declare_queue("idle")

        @pytest.mark.skip(reason="not now")
        def test_skipped(leveret):
            pass

        def test_left_out(leveret):
            pass
        """,
        "-k",
        "not left_out",
    )

    assert unused(result).endswith(" (2 tests did not run)")
