"""Failures with fewer and smaller messages: those that the scenario publishes with broker.publish."""

from __future__ import annotations

import pika
import pytest

import leveret
from tests.explore.clients import connect


def work_through(broker, handle):
    """Handle and acknowledge what is in the queue; connect again after each loss."""
    while broker.queue("work").ready:
        try:
            channel = connect(broker)
            while (got := channel.basic_get("work"))[0] is not None:
                handle(got[2])
                channel.basic_ack(got[0].delivery_tag)
            channel.connection.close()
        except pika.exceptions.AMQPConnectionError:
            continue
        finally:
            broker.wait_idle(timeout=5)


def failure_of(scenario, **words):
    with pytest.raises(leveret.ExplorationFailedError) as failed:
        leveret.explore(scenario, faults="lost before", on="basic.ack", **words)
    return str(failed.value)


def fourth_of_six_twice(broker):
    broker.declare_queue("work")
    for number in range(6):
        broker.publish("", "work", b"order %d" % number, delivery_mode=2)
    done = []
    work_through(broker, done.append)
    assert done.count(b"order 3") < 2


def test_only_the_message_that_the_failure_needs_is_left():
    text = failure_of(fourth_of_six_twice)

    assert "These of the 6 messages that the scenario publishes are enough:\n  'order 3', key 'work'\n\n" in text
    assert "What happened with these alone:\n" in text
    assert "order 2" not in text
    assert 'only="lost before conn 1 chan 1 client->server basic.ack #4"' in text


def test_a_body_is_cut_to_what_the_failure_needs():
    def long_ones_twice(broker):
        broker.declare_queue("work")
        broker.publish("", "work", b"x" * 600, delivery_mode=2)
        done = []
        work_through(broker, done.append)
        assert len(done) < 2 or len(done[0]) < 70

    text = failure_of(long_ones_twice)

    assert "are enough:\n  'xxxxx" in text
    assert "cut from 600 bytes" in text


def test_messages_stay_that_the_scenario_misses_without_a_fault():
    def all_of_them_once(broker):
        broker.declare_queue("work")
        for number in range(3):
            broker.publish("", "work", b"order %d" % number, delivery_mode=2)
        done = []
        work_through(broker, done.append)
        assert len(done) == 3

    assert "are enough" not in failure_of(all_of_them_once)


def test_a_scenario_that_waits_for_what_is_left_out_takes_no_time_from_the_others():
    def first_two_once(broker):
        for queue, body in (("work", b"1"), ("work", b"2"), ("other", b"3")):
            broker.declare_queue(queue)
            broker.publish("", queue, body)
        done = []
        try:
            channel = connect(broker)
            for method, _, body in channel.consume("work"):
                channel.basic_ack(method.delivery_tag)
                done.append(body)
                if len(done) == 2:
                    break
            channel.connection.close()
        except pika.exceptions.AMQPConnectionError:
            pass
        assert not broker.queue("work").ready

    # With the limit of each run, two such runs would use up the time for all.
    assert "These of the 3 messages that the scenario publishes are enough:" in failure_of(first_two_once, limit=20)


def test_another_failure_is_no_smaller_one():
    def too_often(broker):
        broker.declare_queue("work")
        for number in range(2):
            broker.publish("", "work", b"order %d" % number, delivery_mode=2)
        done = []
        work_through(broker, done.append)
        if len(done) == 2 and done[0] == done[1]:
            raise ValueError("an order alone is done twice")
        assert len(done) < 3

    assert "are enough" not in failure_of(too_often)


def test_a_replay_leaves_nothing_out():
    text = failure_of(fourth_of_six_twice, only="lost before conn 1 chan 1 client->server basic.ack #4")

    assert "are enough" not in text
