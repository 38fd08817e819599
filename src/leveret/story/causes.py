"""What went wrong: causes as values, and the one table of their words.

A cause has a kind, names, numbers, and the events that show it. It may follow from another, as a lost message does from
a queue without a dead-letter exchange. `CAUSES` has the words: a clause that goes below the line of a check, and a
sentence that stands alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from leveret.story.facts import Fact
from leveret.story.words import filled
from leveret.wording import count_text


class Cause(NamedTuple):
    """Something that went wrong, or why it did."""

    kind: str
    # Names and lists of names, and numbers: what the words leave open.
    names: Mapping[str, object] = {}
    numbers: Mapping[str, int] = {}
    # The events that show it.
    evidence: tuple[Fact, ...] = ()
    because: Cause | None = None

    @property
    def rank(self) -> int:
        """How far down a list of causes it belongs: the least is the worst."""
        return CAUSES[self.kind].rank

    @property
    def messages(self) -> list[int]:
        """The numbers of the messages that its evidence is about."""
        numbers = [self.numbers.get("message"), *(fact.get("msg") for fact in self.evidence)]
        return list(dict.fromkeys(number for number in numbers if isinstance(number, int)))


class CauseWords(NamedTuple):
    """The words for a cause."""

    # Below the line of a check, which has named the message and its queue.
    clause: str
    # Alone. "" if the clause says it all.
    sentence: str = ""
    rank: int = 100
    # It may be wrong: its sentence begins with "perhaps".
    is_guess: bool = False


_GONE: Final = "the message is gone"
CAUSES: Final[dict[str, CauseWords]] = {
    # The findings of the checks.
    "unroutable": CauseWords("{why}", "#{message} reached no queue: {why}", 10),
    "rejected_into_nothing": CauseWords(
        "[rejected by {by}][, {why}]", f"{{by}} rejected #{{message}} in {{queue}}[: {{why}}]; {_GONE}", 10
    ),
    "given_up": CauseWords(
        "[rejected by {by}][, {why}]",
        f"#{{message}} reached the delivery limit of {{queue}}[: {{why}}]; {_GONE}",
        10,
    ),
    "expired_into_nothing": CauseWords("{why}", f"#{{message}} expired in {{queue}}[: {{why}}]; {_GONE}", 10),
    "overflowed_into_nothing": CauseWords(
        "{why}", f"#{{message}} did not fit into {{queue}} any more[: {{why}}]; {_GONE}", 10
    ),
    "auto_ack_lost": CauseWords(
        "{messages} of {queue} went to {by}, then {reason}",
        "{messages} of {queue} may be lost: {by} got them with no_ack, then {reason}",
        *(30, True),
    ),
    "redelivered_too_often": CauseWords(
        "redelivered {times}, last to {by}[; {why}]",
        "#{message} of {queue} was redelivered {times}, last to {by}[: {why}]",
        20,
    ),
    "redeclared_differently": CauseWords("{refusal}[, at {line}]", rank=15),
    "unseen_channel_error": CauseWords("{refusal}[, on the connection opened at {opener}]", rank=15),
    "unknown_argument": CauseWords("{argument} of {place}, from {by}: did you mean {known}?", rank=40),
    "uncommitted": CauseWords("{why}", "#{message} was published in a transaction: {why}", 10),
    "lost_at_restart": CauseWords("{why}", "#{message} was lost when the broker restarted: {why}", 10),
    "unacked_at_end": CauseWords(
        "held by {holder} for {age}[, {why}]", "{holder} held #{message} of {queue} for {age}[, {why}]", 50
    ),
    "given_back": CauseWords(
        "ready again, because {place} closed its channel without an ack that took effect",
        "#{message} is ready again in {queue}, because {place} closed its channel without an ack that took effect",
        50,
    ),
    "return_ignored": CauseWords(
        "{why}; it was returned as mandatory, and the client drops that: use on_return_raises=True of aio-pika's "
        "channel(), confirm_delivery() of pika, or a callback for returns",
        "#{message} reached no queue and was returned to a client that drops returns: {why}",
        10,
    ),
    "left_ready": CauseWords("[{why}]", "#{message} was left in {queue}[: {why}]", 60),
    "unlimited_prefetch": CauseWords("{consumer} of {by} on {queue}", rank=90),
    "connection_not_closed": CauseWords("{place}[, opened at {opener}]", rank=90),
    "channel_not_closed": CauseWords("{place}[, opened at {opener}]", rank=90),
    "unused_fault": CauseWords("{complaint}", rank=5),
    "never_awaited": CauseWords("{call}(...)[, at {line}], did nothing: write await {call}(...)", rank=5),
    "failed_unawaited": CauseWords(
        "the task that failed[, at {line}]: write await task, so that the test sees {error}", rank=5
    ),
    "no_client": CauseWords("{place}", rank=5),
    # The hints of a wait that failed.
    "loop": CauseWords("message #{message} was delivered {times} from {place} and requeued each time: {why}", rank=20),
    # Why a message found no queue.
    "exchange_gone": CauseWords("exchange {exchange} does not exist any more"),
    "no_bindings": CauseWords("{exchange} has no bindings"),
    "no_match": CauseWords("{routing_key} matches no binding of {exchange} ({bindings}[; {slip}])"),
    "no_match_of_headers": CauseWords("its headers match no binding of {exchange} ({bindings})"),
    "bound_later": CauseWords("{exchange} had no such binding yet; now it leads to {queues}"),
    "bound_to_exchange": CauseWords("{exchange} leads to exchange {exchanges}, which has no queue"),
    "queue_deleted": CauseWords("{deletion}"),
    "declared_later": CauseWords("queue {queue} was declared later"),
    "no_queues": CauseWords("there is no queue {queue}, nor any other"),
    "no_queue": CauseWords("there is no queue {queue}[ (nearest: {near})]"),
    # Why a queue had nowhere to send a dead letter.
    "no_dead_letter_exchange": CauseWords("the queue has no dead-letter exchange"),
    "dead_letter_exchange_missing": CauseWords("its dead-letter exchange {exchange} does not exist"),
    "dead_letter_unrouted": CauseWords("its dead letter reached no queue through exchange {exchange}[: {why}]"),
    "cycle": CauseWords(
        "its dead letter came back to a queue in which it had died, and RabbitMQ drops it then: {queue} ({reason}), "
        "then {way}"
    ),
    # Why a delivery limit does not end a loop.
    "no_limit_of_type": CauseWords("a {type} queue has no delivery limit"),
    "no_limit_by_default": CauseWords("RabbitMQ {version} has no delivery limit by default, and the queue sets none"),
    "limit_off": CauseWords("the queue has switched its delivery limit off"),
    "limit": CauseWords("the queue has a delivery limit of {limit}"),
    "limit_of_rejects": CauseWords(
        "on RabbitMQ {version} only basic.reject and lost channels count towards the delivery limit of {limit}; before "
        "4.3, basic.nack and basic.recover did too"
    ),
    # The rest.
    "no_consumers": CauseWords("the queue has no consumers"),
    "open_transaction": CauseWords("its transaction is still open"),
    "closed_without_commit": CauseWords("its channel was closed without tx.commit"),
    "settled_without_commit": CauseWords("settled in a transaction without tx.commit"),
    "not_persistent": CauseWords("it was not persistent: publish it with delivery_mode=2"),
    "queue_not_durable": CauseWords("its queue is not durable"),
}
# Names that a text sets apart. Those that end in "s" are lists.
_QUOTED: Final = frozenset({"queue", "exchange", "routing_key", "argument", "known", "queues", "exchanges", "near"})
_LISTED: Final = 3


def clause(cause: Cause) -> str:
    """Return what a cause says below the line of a check."""
    return _filled(CAUSES[cause.kind].clause, cause)


def sentence(cause: Cause) -> str:
    """Return what a cause says alone."""
    words = CAUSES[cause.kind]
    text = _filled(words.sentence or words.clause, cause)
    return f"perhaps {text}" if words.is_guess and not words.sentence else text


def ranked(causes: Iterable[Cause]) -> list[Cause]:
    """Return causes in the order in which to read them, the worst first."""
    return sorted(causes, key=lambda cause: cause.rank)


def cut(texts: Sequence[str]) -> str:
    """Return a list as text, and how many it leaves out."""
    more = [f"{len(texts) - _LISTED} more"] if len(texts) > _LISTED else []
    return ", ".join([*texts[:_LISTED], *more])


def _filled(template: str, cause: Cause) -> str:
    return filled(template, lambda name: _slot(name, cause), is_drawn=False).removeprefix(", ")


def _slot(name: str, cause: Cause) -> str:
    if name == "why":
        return "" if cause.because is None else clause(cause.because)
    if (number := cause.numbers.get(name)) is not None:
        # A plural counts things: "2 messages".
        return count_text(number, name[:-1]) if name.endswith("s") else str(number)
    value = cause.names.get(name)
    if value is None:
        return ""
    if isinstance(value, list | tuple):
        separator = ", then " if name == "way" else ""
        texts = [repr(one) if name in _QUOTED else str(one) for one in value]
        return separator.join(texts) if separator else cut(texts)
    return repr(value) if name in _QUOTED else str(value)
