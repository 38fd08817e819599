"""The fitting of a story into a page: what is left out when it is too large."""

from __future__ import annotations

import base64
import gzip
import json
import random

from leveret.page.formats.html import packed_of
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
    found = json.loads(gzip.decompress(base64.b64decode(text)))
    return {**found, "events": unfolded(found["events"]), "messages": unfolded(found["messages"])}


def test_a_small_story_keeps_everything_that_does_not_follow():
    found = read(packed_of(story(3)))

    assert [event["t"] for event in found["events"]] == [0, 1, 2]
    assert found["cut"] == {"events": 0, "bodies": 0}


def test_bodies_get_shorter_when_a_story_is_too_large_and_every_event_stays():
    whole = story(1000)
    chance = random.Random(5)
    for message in whole["messages"]:
        message["body"] = {"size": 9000, "text": chance.randbytes(4500).hex()}

    found = read(packed_of(whole, limit=400_000))

    assert found["cut"] == {"events": 0, "bodies": 1000}
    assert len(found["messages"][0]["body"]["text"]) == 250
    assert found["messages"][0]["body"]["cut"] == 9000
    assert len(found["events"]) == 1000
    assert all("detail" in event for event in found["events"])


def test_fitting_leaves_the_story_as_it_was():
    whole = story(1000)
    before = json.dumps(whole)

    packed_of(whole, limit=20_000)

    assert json.dumps(whole) == before
