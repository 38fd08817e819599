"""Keeps the search index of articles, with FastStream and plain dictionaries."""

from __future__ import annotations

import os
from typing import Any

from faststream import FastStream
from faststream.rabbit import RabbitBroker, RabbitQueue

broker = RabbitBroker(os.environ["AMQP_URL"])
app = FastStream(broker)
articles = RabbitQueue("search.articles", durable=True)


class Index:
    """The index. The real one is a server."""

    def __init__(self) -> None:
        self.documents: dict[int, dict[str, Any]] = {}

    def put(self, number: int, document: dict[str, Any]) -> None:
        """Keep a document."""
        self.documents[number] = document


index = Index()


def words_of(*texts: str) -> list[str]:
    """Return the words of texts, without the short ones."""
    return sorted({word.lower().strip(".,") for text in texts for word in text.split() if len(word) > 2})


@broker.subscriber(articles)
@broker.publisher("search.changes")
async def update(article: dict[str, Any]) -> dict[str, Any]:
    """Put an article into the index, or take it out."""
    number = article["number"]
    if article.get("discontinued"):
        index.documents.pop(number, None)
        return {"number": number, "change": "removed"}
    details = article.get("details") or {}
    index.put(
        number,
        {
            "words": words_of(article["title"], details.get("text", "")),
            "tags": [tag.lower() for tag in article.get("tags", [])],
            "price": float(article["price"]),
        },
    )
    return {"number": number, "change": "updated"}
