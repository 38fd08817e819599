"""The upgrade report: what would change, where, and what to do about it."""

from __future__ import annotations

import pytest

BOTH = "--leveret-rabbitmq=4.0,4.3"


@pytest.fixture(autouse=True)
def _without_pages(monkeypatch):
    monkeypatch.setenv("LEVERET_PAGES", "off")


DECLARING = """
    from client import connect

    def declare(url):
        with connect(url, name="order worker") as connection:
            connection.channel().queue_declare("orders")

    def test_ordering(leveret):
        declare(leveret.url)

    def test_paying(leveret):
        declare(leveret.url)

    def test_plain():
        pass
"""

DYING = """
    from client import connect

    def test_it(leveret):
        leveret.declare_queue("dead")
        letters = {{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}}
        leveret.declare_queue("orders", arguments=letters)
        leveret.publish("", "orders", b"x")
        with connect(leveret.url) as connection:
            channel = connection.channel()
            method, _, _ = channel.basic_get("orders")
            channel.basic_reject(method.delivery_tag, requeue=False)
            method, _, _ = channel.basic_get("dead", auto_ack=True)
            {claim}
"""


def section(result: pytest.RunResult) -> list[str]:
    """Return the lines of a section of the report."""
    lines = result.outlines
    (start,) = (index for index, line in enumerate(lines) if "leveret: upgrade report" in line)
    (*_, end) = (index for index, line in enumerate(lines) if line.startswith("==="))
    for index in range(start + 1, end):
        if lines[index].startswith("==="):
            end = index
            break
    return lines[start + 1 : end]


def test_a_denied_feature_of_one_line_is_one_entry_with_client_line_ways_out_and_tests(run):
    result = run(DECLARING, BOTH)

    result.assert_outcomes(passed=3, failed=2)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    permit = 'permit={"transient_nonexcl_queues"}'
    module = section(result)[-1].split()[1].partition("::")[0]
    assert section(result) == [
        "2 tests with a broker, on RabbitMQ 4.0, 4.3",
        "",
        "from 4.0 to 4.3:",
        "  order worker is refused: 541 INTERNAL_ERROR - Feature `transient_nonexcl_queues` is deprecated.",
        f"    during the call at {module}:5 in declare",
        "    RabbitMQ denies transient_nonexcl_queues from 4.3 on. Ways out:",
        "      declare the queue with durable=True (or exclusive=True); or",
        f"      permit it: @pytest.mark.leveret({permit}), or leveret_permit = "
        "transient_nonexcl_queues in the ini file",
        f"    fails: {module}::test_ordering",
        f"    fails: {module}::test_paying",
    ]


def test_a_permitted_feature_is_no_entry(run):
    result = run(DECLARING, BOTH, "--leveret-permit=transient_nonexcl_queues")

    assert section(result) == ["2 tests with a broker, on RabbitMQ 4.0, 4.3", "no test would notice an upgrade"]


def test_a_feature_is_not_reported_before_the_version_that_denies_it(run):
    result = run(DECLARING, "--leveret-rabbitmq=3.13,4.0,4.2")

    assert section(result) == ["2 tests with a broker, on RabbitMQ 3.13, 4.0, 4.2", "no test would notice an upgrade"]


def test_a_denied_feature_used_by_the_test_itself_names_its_line_and_both_ways_out(run):
    result = run("def test_it(leveret):\n        leveret.declare_queue('orders', durable=False)", BOTH)

    result.stdout.fnmatch_lines(
        [
            "  the test is refused: *Feature `transient_nonexcl_queues` is deprecated.",
            "    during the call at *.py:2",
            "      declare the queue with durable=True*",
            "    fails: *::test_it",
        ]
    )


def test_the_failure_itself_shows_both_ways_out_of_a_call_that_was_refused(run):
    result = run("def test_it(leveret):\n        leveret.declare_queue('orders', durable=False)")

    result.stdout.fnmatch_lines(["E   *Feature `transient_nonexcl_queues` is*", "E   *Ways out:", "E   *durable=True*"])


def test_a_refusal_is_reported_with_its_code_text_line_and_client(run):
    result = run(
        """
        from client import connect

        def test_it(leveret):
            with connect(leveret.url) as connection:
                connection.channel().queue_declare("orders", durable=True, arguments={"x-queue-version": 1})
        """,
        BOTH,
    )

    result.stdout.fnmatch_lines(
        [
            "  worker is refused: 406 PRECONDITION_FAILED - *",
            "    during the call at *.py:5 in test_it",
            "    fails: *::test_it",
        ]
    )


def test_a_failure_without_a_refusal_is_reported_with_its_line_and_differences(run):
    result = run(DYING.format(claim="assert not method.redelivered"), BOTH)

    result.stdout.fnmatch_lines(
        [
            "from 4.0 to 4.3:",
            "  *assert not True* at *.py:13",
            "    on 4.3 the dead letter in dead is redelivered=True; on 4.0 False",
            "    fails: *::test_it",
        ]
    )


REPUBLISHING = """
    from client import connect
    import pika

    def test_it(leveret):
        leveret.declare_queue("dead")
        letters = {{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}}
        leveret.declare_queue("orders", arguments=letters)
        leveret.publish("", "orders", b"x")
        with connect(leveret.url) as connection:
            channel = connection.channel()
            for _ in range(3):
                method, _, _ = channel.basic_get("orders")
                channel.basic_reject(method.delivery_tag, requeue=False)
                method, properties, body = channel.basic_get("dead", auto_ack=True)
                channel.basic_publish("", "orders", body, pika.BasicProperties(headers=properties.headers))
            {claim}
"""

COUNT_RESTARTS = [
    "From 4.0 on, RabbitMQ restarts the count when a client publishes a message with an x-death header. Up to 3.13, it",
    "continues the count. A way out: let the client count in a header of its own",
]


@pytest.mark.parametrize("versions", ["3.13,4.3", "3.13,4.0,4.3"])
def test_republishing_with_x_death_is_reported_to_restart_the_count(run, versions):
    source = REPUBLISHING.format(claim='assert properties.headers["x-death"][0]["count"] == 3')

    result = run(source, f"--leveret-rabbitmq={versions}")

    newer = versions.split(",")[1]
    assert section(result)[2] == f"from 3.13 to {newer}:"
    assert section(result)[3].startswith("  assert 1L == 3 at ")
    assert section(result)[4:7] == [
        f"    on {newer} the x-deaths in dead of a message that a client published with one are orders (rejected) x1; "
        "on 3.13 1 orders (rejected) x2, 1 orders (rejected) x3",
        *(f"      {line}" for line in COUNT_RESTARTS),
    ]


def test_a_restarted_x_death_count_is_reported_although_the_test_passes(run):
    result = run(REPUBLISHING.format(claim=""), "--leveret-rabbitmq=3.13,4.0")

    result.assert_outcomes(passed=2)
    told = section(result)
    (at,) = (index for index, line in enumerate(told) if "x-deaths in dead" in line)
    assert told[at].startswith("  passes on both, but: on 4.0 ")
    assert told[at + 1 : at + 3] == [f"    {line}" for line in COUNT_RESTARTS]


def test_x_death_of_messages_that_no_client_republished_is_not_a_change(run):
    result = run(DYING.format(claim=""), "--leveret-rabbitmq=3.13,4.0")

    assert section(result)[1:] == ["no test would notice an upgrade"]


def test_a_silent_change_is_reported_although_the_test_passes(run):
    result = run(DYING.format(claim=""), BOTH)

    result.assert_outcomes(passed=2)
    assert result.ret == pytest.ExitCode.OK
    assert section(result)[1:-1] == [
        "",
        "from 4.0 to 4.3:",
        "  passes on both, but: on 4.3 the dead letter in dead is redelivered=True; on 4.0 False",
    ]


def test_a_limit_that_was_shared_is_a_silent_change_with_both_ways_out(run):
    source = """
        from client import connect

        def test_it(leveret):
            with connect(leveret.url) as connection:
                connection.channel().basic_qos(prefetch_count=5, global_qos=True)
        """

    result = run(source, BOTH)

    assert section(result)[3:6] == [
        "  passes on both, but: on 4.3 the prefetch limit that worker sets with global=True is for each consumer; "
        "on 4.0 for the whole channel",
        "    RabbitMQ denies global_qos from 4.3 on. Ways out:",
        "      set a limit for each consumer: basic.qos with global=False; or",
    ]
    assert section(run(source, BOTH, "--leveret-permit=global_qos"))[1:] == ["no test would notice an upgrade"]


def test_a_refusal_that_a_passing_test_ignores_is_a_silent_change(run):
    result = run(
        """
        import pytest
        from client import connect
        from pika.exceptions import AMQPError

        def test_it(leveret):
            try:
                with connect(leveret.url) as connection:
                    connection.channel().queue_declare("orders")
            except AMQPError:
                pass
        """,
        BOTH,
    )

    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(
        [
            "  passes on both, but: worker is refused: 541 *",
            "    during the call at *.py:8 in test_it",
            "    *::test_it",
        ]
    )


SETTLING = """
    from client import connect

    def test_it(leveret):
        leveret.declare_queue("orders")
        for _ in range(3):
            leveret.publish("", "orders", b"x")
        channel = connect(leveret.url).channel()
        for _ in range(2 if "4.3" in repr(leveret) else 1):
            method, _, _ = channel.basic_get("orders")
            channel.basic_ack(method.delivery_tag)
        {more}
"""


def test_a_different_number_of_settled_messages_is_a_silent_change(run):
    result = run(SETTLING.format(more=""), BOTH)

    assert section(result)[3] == "  passes on both, but: on 4.3 2 acked in orders; on 4.0 1"


def test_settled_messages_are_not_compared_while_a_message_is_in_flight(run):
    result = run(SETTLING.format(more="channel.basic_get('orders')"), BOTH)

    assert section(result)[1:] == ["no test would notice an upgrade"]


def test_counts_are_not_compared_if_clients_publish_more(run):
    result = run(
        """
        def test_it(leveret):
            for _ in range(2 if "4.3" in repr(leveret) else 1):
                leveret.publish("amq.fanout", "", b"x")
        """,
        BOTH,
    )

    assert section(result)[1:] == ["no test would notice an upgrade"]


def test_actions_of_a_client_on_only_some_versions_are_no_change(run):
    result = run(
        """
        from client import connect

        def test_it(leveret):
            with connect(leveret.url) as connection:
                connection.channel().basic_qos(prefetch_count=5, global_qos="4.0" in repr(leveret))
        """,
        BOTH,
    )

    assert section(result)[1:] == ["no test would notice an upgrade"]


def test_names_generated_in_each_run_are_not_a_change(run):
    result = run(
        """
        import uuid
        import pytest
        from client import connect
        from pika.exceptions import AMQPError

        def test_it(leveret, request):
            with connect(leveret.url, name=f"worker-{uuid.uuid4()}") as connection:
                channel = connection.channel()
                for name in ("", f"reply-{uuid.uuid4().hex}", request.node.name):
                    queue = channel.queue_declare(name, exclusive=True).method.queue
                    channel.basic_publish("", queue, b"x")
                    channel.basic_get(queue, auto_ack=True)
                with pytest.raises(AMQPError):
                    channel.queue_declare(str(uuid.uuid4()), passive=True)
        """,
        BOTH,
        "--leveret-seed=3",
    )

    assert section(result)[1:] == ["no test would notice an upgrade"]


def test_tests_that_fail_everywhere_or_are_skipped_are_not_findings(run):
    result = run(
        """
        import pytest

        def test_always(leveret):
            assert False

        def test_skipped(leveret):
            if "4.3" in repr(leveret):
                pytest.skip("not there")

        @pytest.mark.xfail
        def test_expected(leveret):
            assert "4.0" in repr(leveret)
        """,
        BOTH,
    )

    assert section(result) == [
        "3 tests with a broker, on RabbitMQ 4.0, 4.3",
        "1 test neither passed nor failed on 4.0",
        "2 tests neither passed nor failed on 4.3",
        "nothing was compared: no test passed on one version, and passed or failed on a newer one",
        "",
        "1 test fails on every version and shows nothing about an upgrade",
    ]


def test_several_tests_that_fail_everywhere_are_reported_in_the_plural(run):
    result = run("def test_one(leveret): assert False\n\ndef test_two(leveret): assert False", BOTH)

    assert section(result)[-1] == "2 tests fail on every version and show nothing about an upgrade"


def test_tests_that_fail_on_the_old_and_pass_on_the_new_version_are_listed(run):
    result = run(
        """
        def test_newest(leveret):
            assert "4.3" in repr(leveret)

        def test_newer(leveret):
            assert "3.13" not in repr(leveret)

        def test_any(leveret):
            pass
        """,
        "--leveret-rabbitmq=3.13,4.0,4.3",
    )

    module = section(result)[-1].strip().partition("::")[0]
    assert section(result) == [
        "3 tests with a broker, on RabbitMQ 3.13, 4.0, 4.3",
        "",
        "passes only on 4.3:",
        f"  {module}::test_newest",
        "",
        "passes only on 4.0, 4.3:",
        f"  {module}::test_newer",
    ]


def test_changes_are_listed_in_the_order_of_versions_failures_first(run):
    result = run(
        """
        from client import connect

        def test_last(leveret):
            assert "4.3" not in repr(leveret)

        def test_middle(leveret):
            assert "4.0" not in repr(leveret)

        def test_limit(leveret):
            with connect(leveret.url) as connection:
                connection.channel().basic_qos(prefetch_count=5, global_qos=True)
        """,
        "--leveret-rabbitmq=4.3,4.0,3.13",
    )

    told = [line.split("::")[-1].strip() for line in section(result) if "::" in line or line.startswith("from")]
    assert told == ["from 3.13 to 4.0:", "test_middle", "from 4.0 to 4.3:", "test_last", "test_limit"]


def test_an_error_at_the_end_of_a_test_is_a_failure_of_it(run):
    result = run(
        """
        import pytest

        @pytest.fixture
        def strict(leveret):
            yield leveret
            assert "4.3" not in repr(leveret)

        def test_it(strict):
            pass
        """,
        BOTH,
    )

    result.stdout.fnmatch_lines(["from 4.0 to 4.3:", "    fails: *::test_it"])


def test_failures_are_reported_without_a_trace(run):
    result = run(DYING.format(claim="assert not method.redelivered"), BOTH, "--leveret-record=off")

    result.stdout.fnmatch_lines(["from 4.0 to 4.3:", "  *assert not True* at *.py:13", "    fails: *::test_it"])


@pytest.mark.parametrize(
    ("condition", "line"),
    [
        ("True", "no trace was recorded on 4.3: only failures are compared with it"),
        ("'test_one' in request.node.name", "no trace was recorded of 1 test on 4.3: only failures are compared"),
    ],
)
def test_tests_without_a_trace_are_reported(run, condition, line):
    result = run(
        f"""
        import pytest

        @pytest.fixture
        def broker(make_leveret, request):
            is_off = "4.3" in request.node.name and {condition}
            return make_leveret(**({{"record": "off"}} if is_off else {{}}))

        def test_one(broker):
            pass

        def test_two(broker):
            pass
        """,
        BOTH,
    )

    assert section(result)[1:] == [line, "no test would notice an upgrade"]


def test_a_version_on_which_every_test_is_skipped_is_reported(run):
    result = run(
        """
        import pytest

        def test_it(leveret):
            if "4.3" in repr(leveret):
                pytest.skip("not there")
        """,
        BOTH,
    )

    assert section(result)[1:] == [
        "4.3 did not run: no test passed or failed there",
        "nothing was compared: no test passed on one version, and passed or failed on a newer one",
    ]


def test_a_test_that_is_skipped_on_one_version_is_not_among_those_that_would_notice_nothing(run):
    result = run(
        """
        import pytest

        def test_one(leveret):
            pass

        def test_two(leveret):
            if "4.3" in repr(leveret):
                pytest.skip("not there")
        """,
        BOTH,
    )

    assert section(result)[1:] == ["1 test neither passed nor failed on 4.3", "no test would notice an upgrade"]


def test_many_tests_of_one_cause_are_counted(run):
    source = DECLARING.replace(
        "def test_ordering(leveret)", "@pytest.mark.parametrize('n', range(12))\n    def test_it(leveret, n)"
    )

    result = run("\n    import pytest" + source, BOTH, "--tb=no")

    result.stdout.fnmatch_lines(["    fails: *::test_it[[]9]", "    ... and 3 more"])


def test_a_rehearsal_without_a_broker_has_no_report(run):
    result = run("def test_it(): pass", BOTH)

    result.stdout.no_fnmatch_line("*upgrade report*")
