"""The tests of the search index."""

import pytest
from search import broker, index

ARTICLE = {
    "number": 12,
    "title": "Green tea",
    "details": {"text": "Fresh leaves.", "origin": "Japan"},
    "tags": ["Tea", "Bio"],
    "price": "5.25",
    "supplier": 4,
    "edited_by": "Eve",
}


@pytest.fixture(autouse=True)
def empty_index():
    index.documents.clear()


async def test_an_article_is_indexed(leveret_session):
    async with broker:
        await broker.start()
        leveret_session.publish("", "search.articles", json=ARTICLE)
        await leveret_session.aio.assert_acked("search.articles", timeout=5)

    words = ["fresh", "green", "leaves", "tea"]
    assert index.documents == {12: {"words": words, "tags": ["tea", "bio"], "price": 5.25}}
    leveret_session.assert_published("", routing_key="search.changes", json={"number": 12, "change": "updated"})


async def test_a_discontinued_article_is_removed(leveret_session):
    index.put(12, {})
    async with broker:
        await broker.start()
        leveret_session.publish("", "search.articles", json=ARTICLE | {"discontinued": True})
        await leveret_session.aio.assert_acked("search.articles", timeout=5)

    assert index.documents == {}
