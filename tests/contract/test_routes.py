"""What reaches whom by the locks of two services, and what `leveret contract check` makes of it; `routes` has many."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from leveret.cli import main
from tests.contract.routes import judged, pair_of

SHOP = """
version = 2

[[message]]
exchange = "{exchange}"
routing_key = "{key}"
{headers}
publishers = ["shop"]

[message.body]
"$" = "object"
id = "integer"

[message.headers]
kind = "word"

{declared}
"""
CONSUMER = """
version = 2

[[message]]
exchange = "{exchange}"
routing_key = "{key}"
{headers}
publishers = []

[message.body]
"$" = "object"
id = "uuid"

[[message.consumer]]
queue = "books"
client = "reader"
settled = ["acked"]

[[queue]]
name = "books"

{declared}
"""
TYPED = '[[exchange]]\nname = "{}"\ntype = "{}"\n'
BREAK = "`id` is integer, and was uuid; reader has received `id` as uuid"
PAY, BOOK = 'headers_sent = { kind = "pay" }', 'headers_sent = { kind = "book" }'

Check = Callable[[str, str], tuple[int, str]]


@pytest.fixture
def check(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Check:
    """Check the lock of a shop with that of a consumer; return the exit code and the output."""

    def run(shop: str, consumer: str) -> tuple[int, str]:
        for name, text in (("shop.lock", shop), ("consumer.lock", consumer)):
            (tmp_path / name).write_text(text)
        code = main(["contract", "check", str(tmp_path / "shop.lock"), str(tmp_path / "consumer.lock")])
        return code, capsys.readouterr().out.replace(f"{tmp_path}/", "")

    return run


def shop(declared: str, exchange: str = "orders", key: str = "order.created", headers: str = "") -> str:
    return SHOP.format(exchange=exchange, key=key, headers=headers, declared=declared)


def consumer(declared: str, exchange: str = "", key: str = "books", headers: str = "") -> str:
    return CONSUMER.format(exchange=exchange, key=key, headers=headers, declared=declared)


def bound(exchange: str, key: str = "", arguments: str = "", to: str = "queue", target: str = "books") -> str:
    lines = ["[[binding]]", f'exchange = "{exchange}"', f'to_{to} = "{target}"', f'routing_key = "{key}"']
    return "\n".join([*lines, *([f"arguments = {{ {arguments} }}"] if arguments else []), ""])


def test_verdicts_are_what_a_broker_does(tmp_path: Path) -> None:
    words: Counter[str] = Counter()
    for number in range(25):
        word, why = judged(pair_of(random.Random(f"1 {number}")), tmp_path)
        assert not word.startswith("WRONG"), f"pair {number}: {word}\n{why}"
        words[word] += 1

    assert words["break"] > 5 < words["fit"]


def test_a_break_behind_an_alternate_exchange_is_found(check: Check) -> None:
    declared = TYPED.format("orders", "topic") + 'arguments = { alternate-exchange = "lost" }\n'

    code, output = check(shop(declared), consumer(TYPED.format("lost", "fanout") + bound("lost")))

    assert (code, BREAK in output) == (1, True)


def test_what_an_exchange_binds_itself_does_not_come_to_its_alternate(check: Check) -> None:
    declared = TYPED.format("orders", "topic") + 'arguments = { alternate-exchange = "lost" }\n'
    taken = '[[queue]]\nname = "shops"\n' + bound("orders", "order.*", target="shops")

    code, output = check(shop(declared + taken), consumer(TYPED.format("lost", "fanout") + bound("lost")))

    assert (code, "fit together" in output) == (0, True)


@pytest.mark.parametrize(("sent", "code"), [(PAY, 0), (BOOK, 1)])
def test_a_headers_exchange_asks_for_the_headers_that_the_tests_sent(check: Check, sent: str, code: int) -> None:
    declared, binding = TYPED.format("h", "headers"), bound("h", "", 'kind = "book", x-match = "all"')

    found, output = check(shop(declared, "h", "", sent), consumer(declared + binding))

    assert (found, BREAK in output) == (code, code == 1)


def test_a_message_with_other_headers_is_not_what_the_consumer_has_received(check: Check) -> None:
    declared, binding = TYPED.format("h", "headers"), bound("h", "", 'kind = "book"')

    code, output = check(shop(declared, "h", "", PAY), consumer(declared + binding, "h", "", BOOK))

    assert (code, BREAK in output) == (0, False)


@pytest.mark.parametrize(
    ("headers", "way"),
    [
        ('headers_sent = { kind = "(redacted)" }', TYPED.format("h", "headers")),
        # More sets of headers than a lock keeps.
        ("", TYPED.format("h", "headers")),
        ('headers_sent = { kind = "pay" }', TYPED.format("h", "x-random") + bound("h", target="others")),
    ],
    ids=["a value is redacted", "too many sets", "an exchange chooses at random"],
)
def test_what_the_locks_do_not_show_may_be_and_is_no_break(check: Check, headers: str, way: str) -> None:
    binding = bound("h", "", 'kind = "book", x-match = "all"')

    code, output = check(shop(way, "h", "", headers), consumer(way + binding))

    assert code == 0
    assert "may reach a consumer that it would break:\n  h ''" in output
    assert f" of shop may reach 'books': {BREAK}\n" in output
    assert output.endswith("leveret: nothing breaks for certain\n")


def test_what_fits_is_not_mentioned_although_it_may_go_elsewhere(check: Check) -> None:
    declared, binding = TYPED.format("h", "headers"), bound("h", "", 'kind = "book"')
    fits = consumer(declared + binding).replace("uuid", "integer")

    code, output = check(shop(declared, "h", ""), fits)

    assert (code, output) == (0, "leveret: the locks fit together\n")


def test_a_header_that_no_message_had_is_not_there(check: Check) -> None:
    declared, binding = TYPED.format("h", "headers"), bound("h", "", 'region = "(any)"')

    code, output = check(shop(declared, "h", ""), consumer(declared + binding))

    assert (code, "may reach" in output) == (0, False)


def test_a_key_in_cc_leads_to_a_queue_too(check: Check) -> None:
    declared = TYPED.format("orders", "direct")

    code, output = check(
        shop(declared, headers='headers_sent = { CC = ["copy"] }'), consumer(declared + bound("orders", "copy"))
    )

    assert (code, BREAK in output) == (1, True)


def test_a_binding_of_which_no_lock_has_the_exchange_may_be_one_of_a_topic(check: Check) -> None:
    code, output = check(shop(""), consumer(bound("orders", "order.*")))

    assert (code, "may reach 'books'" in output) == (0, True)


def test_a_way_that_no_lock_has_is_the_same_for_the_same_key(check: Check) -> None:
    # The tests of the consumer have bound its queue themselves.
    code, output = check(shop(TYPED.format("orders", "topic")), consumer("", "orders", "order.created"))

    assert (code, BREAK in output) == (1, True)


ANY_OF_TWO = 'kind = "pay", region = "eu", x-match = "any"'


@pytest.mark.parametrize(
    ("declared", "exchange", "headers", "received"),
    [
        (TYPED.format("orders", "fanout") + bound("orders"), "orders", "", ("orders", "other", "")),
        (TYPED.format("orders", "topic") + bound("orders", "order.*"), "orders", "", ("orders", "order.paid", "")),
        (
            TYPED.format("orders", "topic")
            + 'arguments = { alternate-exchange = "lost" }\n'
            + TYPED.format("lost", "fanout")
            + bound("lost"),
            "orders",
            "",
            ("lost", "order.created", ""),
        ),
        (
            TYPED.format("h", "headers") + bound("h", "", ANY_OF_TWO),
            "h",
            PAY,
            ("h", "order.created", 'headers_sent = { region = "eu" }'),
        ),
    ],
    ids=["fanout", "topic", "alternate exchange", "headers"],
)
def test_what_reaches_a_queue_meets_what_was_received_in_it_by_another_way(
    check: Check, declared: str, exchange: str, headers: str, received: tuple[str, str, str]
) -> None:
    code, output = check(shop(declared, exchange, headers=headers), consumer(declared, *received))

    assert (code, BREAK in output) == (1, True)
    assert "no consumer reads it" not in output
    assert "no publisher sends it" not in output


SECOND = """
[[message]]
exchange = "orders"
routing_key = "order.late"
publishers = []

[message.body]
"$" = "object"
id = "{}"

[[message.consumer]]
queue = "books"
client = "reader"
settled = ["acked"]

"""


@pytest.mark.parametrize(("id_sent", "kind"), [("integer", "integer"), ("integer | uuid", "integer")])
def test_what_fits_some_of_what_was_received_in_a_queue_may_break(check: Check, id_sent: str, kind: str) -> None:
    declared = TYPED.format("orders", "topic") + bound("orders", "#")
    sent = shop(declared).replace('id = "integer"', f'id = "{id_sent}"')

    code, output = check(sent, consumer(SECOND.format(kind) + declared, "orders", "order.paid"))

    assert (code, output.endswith("leveret: nothing breaks for certain\n")) == (0, True)
    assert "may break a consumer that has received several kinds of messages:\n  orders 'order.created'" in output
    assert "of shop may break 'books': `id` is integer, and was uuid; reader has received `id` as uuid\n" in output


def test_what_was_received_by_the_same_key_decides(check: Check) -> None:
    declared = TYPED.format("orders", "topic") + bound("orders", "#")

    code, output = check(shop(declared), consumer(SECOND.format("integer") + declared, "orders", "order.created"))

    assert (code, BREAK in output) == (1, True)


def test_what_a_consumer_has_only_rejected_is_no_fit(check: Check) -> None:
    declared = TYPED.format("orders", "topic") + bound("orders", "#")
    rejected = SECOND.format("integer").replace("acked", "rejected")

    code, output = check(shop(declared), consumer(rejected + declared, "orders", "order.paid"))

    assert (code, BREAK in output) == (1, True)


def test_an_alternate_exchange_gets_nothing_once_another_lock_binds_a_queue(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    declared = TYPED.format("orders", "topic") + 'arguments = { alternate-exchange = "lost" }\n'
    behind = declared + TYPED.format("lost", "fanout") + bound("lost")
    taken = '[[queue]]\nname = "all"\n' + bound("orders", "#", target="all")
    texts = [shop(declared), consumer(behind, "orders", "order.created"), "version = 2\n" + declared + taken]
    paths = [tmp_path / f"{number}.lock" for number in range(3)]
    for path, text in zip(paths, texts, strict=True):
        path.write_text(text)

    assert main(["contract", "check", *map(str, paths[:2])]) == 1
    capsys.readouterr()
    assert main(["contract", "check", *map(str, paths)]) == 0
    assert "which reader reads; what is sent by this key does not reach its queue\n" in capsys.readouterr().out


DELAY = '[[queue]]\nname = "delay"\narguments = {{ x-dead-letter-exchange = "{}", x-message-ttl = 5 }}\n'


def test_what_expires_may_reach_the_consumer_behind_a_dead_letter_exchange(check: Check) -> None:
    dead = TYPED.format("dead", "fanout")

    code, output = check(shop(DELAY.format("dead"), "", "delay"), consumer(dead + bound("dead"), "dead", "late"))

    assert (code, f"'delay' of shop may reach 'books': {BREAK}" in output) == (0, True)
    assert "no consumer reads it" not in output
    assert "no publisher sends it" not in output


def test_dead_letters_whose_way_no_lock_has_are_not_examined(check: Check) -> None:
    code, output = check(shop(DELAY.format("dead"), "", "delay"), consumer(""))

    assert code == 0
    assert "  'delay', which shop sends; where its dead letters go is not examined\n" in output


def test_a_queue_that_two_services_declare_in_two_ways_breaks_one_of_them(check: Check) -> None:
    ttl = '[[queue]]\nname = "jobs"\narguments = {{ x-message-ttl = {} }}\n'

    code, output = check(shop(ttl.format(5)), consumer(ttl.format(6)))

    assert code == 1
    assert output.startswith("breaking:\n  queue 'jobs': ")
    assert "RabbitMQ refuses that: PRECONDITION_FAILED - inequivalent arg 'x-message-ttl' for queue 'jobs'" in output


def test_a_queue_that_one_of_two_ways_of_a_service_fits_breaks_nothing(check: Check) -> None:
    ways = '[[queue]]\nname = "jobs"\narguments = [{ x-message-ttl = 5 }, { x-message-ttl = 6 }]\n'
    one = '[[queue]]\nname = "jobs"\narguments = { x-message-ttl = 6 }\n'

    assert check(shop(ways), consumer(one))[0] == 0


@pytest.mark.parametrize("name", ["reply.{uuid}", "amq.gen-*"])
def test_names_that_were_generated_are_not_one_queue(check: Check, name: str) -> None:
    ttl = f'[[queue]]\nname = "{name}"\narguments = {{ x-message-ttl = %d }}\n'

    assert check(shop(ttl % 5), consumer(ttl % 6))[0] == 0


@pytest.mark.parametrize("name", ["reply.{uuid}", "amq.gen-*", "books"])
def test_what_reaches_a_generated_queue_of_one_service_does_not_reach_that_of_another(check: Check, name: str) -> None:
    mine = TYPED.format("orders", "fanout") + bound("orders", target=name)
    theirs = TYPED.format("news", "fanout") + bound("news", target=name)

    code, output = check(shop(mine), consumer(theirs, "news", "late").replace('"books"', f'"{name}"'))

    assert (code, "no publisher sends it" in output) == ((1, False) if name == "books" else (0, True))


@pytest.mark.parametrize(("needs", "breaks"), [('needs = { "body.id" = "uuid" }\n', True), ("", False)])
def test_a_publisher_breaks_a_consumer_of_its_own_suite_only_by_what_was_measured(
    check: Check, needs: str, breaks: bool
) -> None:
    received = SECOND.format("uuid").replace("books", "prints").replace("reader", "printer").rstrip() + f"\n{needs}\n"
    declared = TYPED.format("orders", "topic") + bound("orders", "#", target="prints")

    code, output = check(shop(received + declared), consumer(""))

    assert (code, "printer reads `id` as uuid" in output) == (int(breaks), breaks)


@pytest.mark.parametrize(("publishers", "breaks"), [("[]", False), ('["archive"]', True)])
def test_the_words_of_a_message_that_only_the_test_of_a_consumer_sends_say_nothing(
    check: Check, publishers: str, breaks: bool
) -> None:
    declared = TYPED.format("orders", "topic") + bound("orders", "#")
    sent = shop(declared).replace('id = "integer"', 'id = "enum(paid, sent)"')
    received = consumer(declared, "orders", "order.created").replace('id = "uuid"', 'id = "enum(open, paid)"')

    code, output = check(sent, received.replace("publishers = []", f"publishers = {publishers}"))

    assert (code, "reader has received `id` as enum(open, paid)" in output) == (int(breaks), breaks)


def test_a_header_by_which_brokers_route_may_differ_for_another_key(check: Check) -> None:
    declared = TYPED.format("orders", "topic") + bound("orders", "#") + TYPED.format("sorted", "headers")
    asks = bound("sorted", arguments='kind = "pay"', target="other")
    received = consumer(declared, "orders", "order.paid", "").replace('id = "uuid"', 'id = "integer"')
    received = received.replace("[[message.consumer]]", '[message.headers]\nkind = "uuid"\n\n[[message.consumer]]', 1)

    code, output = check(shop(declared + asks), received)

    assert (code, "reader has received the header" in output) == (0, False)


@pytest.mark.parametrize(("kind", "code", "way"), [("word", 1, "breaking:"), ("optional word", 0, "may reach 'books'")])
def test_a_header_that_may_be_missing_leads_to_no_certain_break(check: Check, kind: str, code: int, way: str) -> None:
    declared = TYPED.format("orders", "headers") + bound("orders", arguments='kind = "(any)"')
    sent = shop(declared).replace('kind = "word"', f'kind = "{kind}"')

    assert (lambda found, output: (found, way in output))(*check(sent, consumer(""))) == (code, True)
