"""The fitting of a story into a page: what is left out when it is too large."""

from __future__ import annotations

import json

from leveret.page.formats.fitting import json_of
from tests.page.conftest import unfolded


def story(event_count, **more):
    told = [
        {
            "i": index,
            "t": index,
            "wall": index,
            "kind": "acked",
            "message": index,
            "text": "x" * 50,
            "detail": [["a", "b"]],
        }
        for index in range(event_count)
    ]
    messages = [{"number": index, "label": "m", "events": [index], "outcome": "acked"} for index in range(event_count)]
    broker = {"id": "b1", "faults": [{"text": "f", "fired": 1, "events": [0, event_count - 1]}]}
    return {"events": told, "messages": messages, "brokers": [broker], "cut": {"events": 0, "bodies": 0}, **more}


def read(text):
    found = json.loads(text)
    return {**found, "events": unfolded(found["events"]), "messages": unfolded(found["messages"])}


def test_a_small_story_keeps_everything_that_does_not_follow():
    found = read(json_of(story(3)))

    assert [event["t"] for event in found["events"]] == [0, 1, 2]
    assert found["cut"] == {"events": 0, "bodies": 0}


def test_details_go_before_events():
    whole = story(1000)

    found = read(json_of(whole, limit=len(json_of(whole)) - 1000))

    assert len(found["events"]) == 1000
    assert not any("detail" in event for event in found["events"])


def test_the_oldest_events_go_last_and_places_move():
    whole = story(1000)
    whole["events"][999] |= {"caused_by": 998}
    whole["events"][998] |= {"causes": [0, 999]}

    found = read(json_of(whole, limit=20_000))

    count = len(found["events"])
    assert 0 < count < 1000
    assert found["cut"]["events"] == 1000 - count
    assert [event["t"] for event in found["events"]] == list(range(1000 - count, 1000))
    assert found["events"][-1]["caused_by"] == count - 2
    assert found["events"][-2]["causes"] == [count - 1]
    assert found["brokers"][0]["faults"][0]["events"] == [count - 1]
    assert len(found["messages"]) == count


def test_fitting_leaves_the_story_as_it_was():
    whole = story(1000)
    before = json.dumps(whole)

    json_of(whole, limit=20_000)

    assert json.dumps(whole) == before
