"""The topic exchange: words between dots, `*` for exactly one and `#` for none or more.

Bindings lie in a trie of words, wildcards among them. A key is matched word by word against all the places of the trie
it may have reached so far; there are never more of those than the trie has, so no key is slow however many `#` there
are. Routes already found are remembered until a binding changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from leveret.core.compat import Compat
from leveret.core.model.binding import Binding, BindingKey, Destination
from leveret.core.model.errors import PreconditionFailed
from leveret.core.model.exchanges.exchange import Exchange, Routable
from leveret.core.wire.values import Table

ONE_WORD: Final = "*"
ANY_WORDS: Final = "#"
# Routing keys remembered with their destinations, per exchange.
MEMO_SIZE: Final = 4096


class TopicNode:
    """A place in the trie: the words that may follow, and the destinations of the bindings that end here."""

    __slots__ = ("children", "destinations", "takes_any_words")

    def __init__(self, *, takes_any_words: bool = False) -> None:
        self.children: dict[str, TopicNode] = {}
        self.destinations: dict[BindingKey, Destination] = {}
        # Reached by `#`: further words may stay here.
        self.takes_any_words = takes_any_words


class TopicExchange(Exchange):
    """Routes by patterns of words."""

    __slots__ = ("_memo", "_root")

    TYPE = "topic"

    _root: TopicNode
    _memo: dict[str, tuple[Destination, ...]]

    def check_binding(self, destination: Destination, routing_key: str, arguments: Table, compat: Compat) -> None:
        """Refuse a binding key with more `#` than RabbitMQ takes, which fears for its own matcher."""
        if compat.max_topic_hashes is None:
            return
        count = words(routing_key).count(ANY_WORDS)
        if count > compat.max_topic_hashes:
            raise PreconditionFailed(
                f"Topic binding key '{routing_key}' uses {count} '#' wildcards, "
                f"at most {compat.max_topic_hashes} are allowed"
            )

    def _prepare(self) -> None:
        self._root = TopicNode()
        self._memo = {}

    def _add(self, binding: Binding) -> None:
        grown(self._root, words(binding.routing_key)).destinations[binding.key] = binding.destination
        self._memo.clear()

    def _remove(self, binding: Binding) -> None:
        path = [self._root]
        binding_words = words(binding.routing_key)
        for word in binding_words:
            path.append(path[-1].children[word])
        del path[-1].destinations[binding.key]
        while binding_words and not path[-1].destinations and not path[-1].children:
            path.pop()
            del path[-1].children[binding_words.pop()]
        self._memo.clear()

    def route(self, message: Routable) -> Sequence[Destination]:
        """The destinations whose patterns match one of the message's routing keys."""
        memo = self._memo
        keys = message.routing_keys
        if len(keys) == 1 and keys[0] in memo:
            return memo[keys[0]]
        return [destination for key in keys for destination in self._match(key)]

    def _match(self, routing_key: str) -> tuple[Destination, ...]:
        found = self._memo.get(routing_key)
        if found is not None:
            return found
        if len(self._memo) >= MEMO_SIZE:
            self._memo.clear()
        nodes = reached(self._root, words(routing_key))
        found = tuple(destination for node in nodes for destination in node.destinations.values())
        self._memo[routing_key] = found
        return found


def words(key: str) -> list[str]:
    """The words of a routing or binding key; the empty key has none, while "." has two empty ones."""
    return key.split(".") if key else []


def topic_matches(pattern: str, routing_key: str) -> bool:
    """Return whether a topic exchange routes a message with this key by a binding with this pattern."""
    root = TopicNode()
    return grown(root, words(pattern)) in reached(root, words(routing_key))


def grown(root: TopicNode, binding_words: list[str]) -> TopicNode:
    """Return the place where a binding key of these words ends; add to the trie what is missing on the way."""
    node = root
    for word in binding_words:
        child = node.children.get(word)
        if child is None:
            child = node.children[word] = TopicNode(takes_any_words=word == ANY_WORDS)
        node = child
    return node


def reached(root: TopicNode, key_words: list[str]) -> Iterable[TopicNode]:
    """The places of the trie where a key of these words may end."""
    nodes = _with_any_words(dict.fromkeys((root,)))
    for word in key_words:
        following: dict[TopicNode, None] = {}
        for node in nodes:
            if node.takes_any_words:
                following[node] = None
            for step in (word, ONE_WORD):
                child = node.children.get(step)
                if child is not None:
                    following[child] = None
        nodes = _with_any_words(following)
    return nodes


def _with_any_words(nodes: dict[TopicNode, None]) -> dict[TopicNode, None]:
    """These places and those behind a `#`, which is passed without a word too."""
    waiting = list(nodes)
    while waiting:
        child = waiting.pop().children.get(ANY_WORDS)
        if child is not None and child not in nodes:
            nodes[child] = None
            waiting.append(child)
    return nodes
