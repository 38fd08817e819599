"""Canned replies to requests."""

from __future__ import annotations

import pytest

from leveret import RefusedError, Reply


@pytest.mark.parametrize("is_direct", [True, False])
def test_a_request_gets_its_reply_with_its_correlation_id(broker, make_asker, is_direct):
    broker.respond("prices", b"42")
    asker = make_asker(is_direct=is_direct)

    asker.ask("prices", correlation_id="a book")
    asker.answers(1)

    ((properties, body),) = asker.replies
    assert (properties.correlation_id, body) == ("a book", b"42")


@pytest.mark.parametrize(
    ("answer", "body", "content_type"),
    [
        (b"\x00", b"\x00", None),
        ("dear", b"dear", "text/plain"),
        ({"price": 42}, b'{"price": 42}', "application/json"),
        (7, b"7", "application/json"),
        (Reply(b"x", content_type="image/png", headers={"a": 1}), b"x", "image/png"),
        (ValueError("no"), b'{"error": {"type": "ValueError", "message": "no"}}', "application/json"),
        (lambda request: request.body * 2, b"??", None),
        (lambda request: KeyError, b'{"error": {"type": "KeyError", "message": ""}}', "application/json"),
    ],
)
def test_an_answer_can_be_of_many_types(broker, asker, answer, body, content_type):
    broker.respond("prices", answer)

    asker.ask("prices", b"?")
    asker.answers(1)

    ((properties, received),) = asker.replies
    assert (received, properties.content_type) == (body, content_type)


def test_an_error_reply_is_marked_as_one(broker, asker):
    broker.respond("prices", ValueError("no"))

    asker.ask("prices")
    asker.answers(1)

    ((properties, _),) = asker.replies
    assert (properties.type, properties.headers) == ("error", {"error": "ValueError"})


def test_a_sequence_gives_each_answer_once_in_order(broker, asker):
    responder = broker.respond("prices", ["1", "2", "3"])
    for _ in range(4):
        asker.ask("prices")

    assert asker.answers(3) == [b"1", b"2", b"3"]
    assert responder.count == 3
    assert len(broker.queue("prices").ready) == 1
    assert broker.queue("prices").consumers == ()


def test_times_limits_how_many_requests_are_taken(broker, asker):
    broker.declare_queue("prices")
    for _ in range(3):
        asker.ask("prices")
    broker.sync()

    responder = broker.respond("prices", "1", times=2)

    assert asker.answers(2) == [b"1", b"1"]
    assert responder.count == 2
    assert len(broker.queue("prices").ready) == 1


def test_a_delay_follows_the_broker_s_clock(broker, asker):
    broker.clock.hold()
    broker.respond("prices", "1", delay=3600)
    asker.ask("prices")
    broker.wait_idle()
    broker.assert_not_published("", body="1")

    broker.clock.advance(hours=1)

    assert asker.answers(1) == [b"1"]


def test_a_timeout_takes_requests_and_never_answers(broker, asker):
    responder = broker.respond("prices", None)
    asker.ask("prices", b"?")
    broker.wait_idle()

    broker.assert_acked("prices", times=1)
    broker.assert_not_published("", body="1")
    assert [request.body for request in responder.requests] == [b"?"]


def test_a_removed_responder_leaves_requests_in_their_queue(broker, asker):
    with broker.respond("prices", "1") as responder:
        asker.answer("prices")
    responder.remove()
    asker.ask("prices")

    assert len(broker.queue("prices").ready) == 1
    assert responder.count == 1


def test_a_request_without_reply_to_is_still_taken(broker):
    responder = broker.respond("prices", "1")

    broker.publish("", "prices", "?")

    assert responder.count == 1
    broker.assert_not_published("", body="1")


def test_a_reply_that_comes_too_late_is_returned_to_the_test(broker):
    broker.respond("prices", "1")

    broker.publish("", "prices", reply_to="gone")

    broker.assert_returned("", routing_key="gone", body="1")


def test_a_reply_is_an_event_of_the_test_and_names_its_line(broker, asker):
    broker.respond("prices", "1")
    asker.answer("prices")

    (call,) = broker.events.query(
        "called", call="respond", where=lambda event: "test_responding.py" in event.caller.path
    )[1:]
    (reply,) = broker.events.query("published", conn=None)
    assert reply.message.body == b"1"
    assert "test_a_reply_is_an_event_of_the_test" in str(call.caller)


def test_an_answering_function_can_call_the_broker(broker, asker):
    broker.declare_queue("audit")

    def answer(request):
        broker.publish("", "audit", request.body)
        return str(len(broker.queue("audit").ready))

    broker.respond("prices", answer)

    assert asker.answer("prices", b"?") == b"1"
    broker.assert_published("", routing_key="audit", body="?")


def test_answering_functions_run_one_after_another(broker, asker):
    seen = []
    broker.respond("prices", lambda request: seen.append(request.body) or request.body)
    for number in range(20):
        asker.ask("prices", str(number).encode())

    assert asker.answers(20) == seen == [str(number).encode() for number in range(20)]


def test_an_exception_in_an_answering_function_reaches_the_test(broker, asker):
    def answer(request):
        raise RuntimeError("a slip in the test")

    broker.respond("prices", answer)
    assert b"a slip in the test" in asker.answer("prices")
    broker.wait_idle()

    with pytest.raises(RuntimeError, match="a slip in the test"):
        broker.check()


def test_a_responder_needs_an_answer(broker):
    with pytest.raises(TypeError, match="with_"):
        broker.respond("prices")
    with pytest.raises(ValueError, match=r"with_=\[\] is empty; give at least one answer"):
        broker.respond("prices", [])
    with pytest.raises(ValueError, match="times=0"):
        broker.respond("prices", "1", times=0)


@pytest.mark.parametrize(
    ("reply", "error", "text"),
    [
        (Reply(expiration="soon"), RefusedError, "invalid expiration 'soon'"),
        (Reply(priority="high"), TypeError, r"respond\(\): priority must be a number from 0 to 255, not 'high'"),
    ],
)
def test_a_reply_that_cannot_be_published_is_an_error_of_the_test(broker, reply, error, text):
    broker.declare_queue("replies")
    broker.respond("requests", reply)
    broker.publish("", "requests", reply_to="replies")

    with pytest.raises(error, match=text):
        broker.check()
