"""The topic exchange: words separated by dots; `*` matches exactly one word and `#` any number of words.

Bindings are in a trie of words, with the wildcards among them. Matching keeps the set of all trie nodes that a key may
have reached, and goes through the key word by word. The set never exceeds the trie, so no key is slow, with any number
of `#`. Results are remembered until a binding changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from leveret.core.compat import Compat
from leveret.core.model.binding import Binding, BindingKey, Destination
from leveret.core.model.errors import PreconditionFailed
from leveret.core.model.exchanges.exchange import Exchange
from leveret.core.model.message import Message
from leveret.core.wire.values import Table

ONE_WORD: Final = "*"
ANY_WORDS: Final = "#"
# How many routing keys an exchange remembers with their destinations.
MEMO_SIZE: Final = 4096


class TopicNode:
    """A node of the trie: the words that may follow, and the destinations of bindings that end here."""

    __slots__ = ("children", "destinations", "takes_any_words")

    def __init__(self, *, takes_any_words: bool = False) -> None:
        self.children: dict[str, TopicNode] = {}
        self.destinations: dict[BindingKey, Destination] = {}
        # Reached by `#`, so that further words may match here.
        self.takes_any_words = takes_any_words


class TopicExchange(Exchange):
    """An exchange that routes by patterns of words."""

    __slots__ = ("_memo", "_root")

    type_name = "topic"

    _root: TopicNode
    _memo: dict[str, tuple[Destination, ...]]

    def check_binding(self, destination: Destination, routing_key: str, arguments: Table, compat: Compat) -> None:
        """Refuse a binding key with more `#` than RabbitMQ allows to protect its own matcher."""
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
        add_path(self._root, words(binding.routing_key)).destinations[binding.key] = binding.destination
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

    def route(self, message: Message) -> Sequence[Destination]:
        """Return the destinations whose patterns match one of the message's routing keys."""
        memo = self._memo
        keys = message.routing_keys
        if len(keys) == 1 and keys[0] in memo:
            return memo[keys[0]]
        return [destination for key in keys for destination in self._match(key)]

    def _match(self, routing_key: str) -> tuple[Destination, ...]:
        destinations = self._memo.get(routing_key)
        if destinations is not None:
            return destinations
        if len(self._memo) >= MEMO_SIZE:
            self._memo.clear()
        nodes = matching_nodes(self._root, words(routing_key))
        destinations = tuple(destination for node in nodes for destination in node.destinations.values())
        self._memo[routing_key] = destinations
        return destinations


def words(key: str) -> list[str]:
    """Return the words of a routing or binding key. The empty key has none, while "." has two empty ones."""
    return key.split(".") if key else []


def topic_matches(pattern: str, routing_key: str) -> bool:
    """Return whether a topic exchange routes a message with this key along a binding with this pattern."""
    root = TopicNode()
    return add_path(root, words(pattern)) in matching_nodes(root, words(routing_key))


def add_path(root: TopicNode, binding_words: list[str]) -> TopicNode:
    """Return the node where a binding key of these words ends, adding nodes that are missing."""
    node = root
    for word in binding_words:
        child = node.children.get(word)
        if child is None:
            child = node.children[word] = TopicNode(takes_any_words=word == ANY_WORDS)
        node = child
    return node


def matching_nodes(root: TopicNode, key_words: list[str]) -> Iterable[TopicNode]:
    """Return the nodes of the trie where a key of these words may end."""
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
    """Add the nodes behind a `#`, because `#` also matches no words."""
    waiting = list(nodes)
    while waiting:
        child = waiting.pop().children.get(ANY_WORDS)
        if child is not None and child not in nodes:
            nodes[child] = None
            waiting.append(child)
    return nodes
