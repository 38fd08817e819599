"""What went wrong: causes as values, and the one table of their words.

A cause has a kind, names, numbers, and the events that show it. It may follow from another, as a lost message does from
a queue without a dead-letter exchange. `CAUSES` has the words: a clause that goes below the line of a check, and a
sentence that stands alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Final, NamedTuple, cast

from leveret.story.words import deliveries_text, end_of, filled, why
from leveret.trace import events
from leveret.trace.events import Event
from leveret.trace.redaction import plain
from leveret.wording import count_text, listed, span_text


class Cause(NamedTuple):
    """Something that went wrong, or why it did."""

    kind: str
    # Names and lists of names, and numbers: what the words leave open.
    names: Mapping[str, object] = {}
    numbers: Mapping[str, int] = {}
    # The events that show it.
    evidence: tuple[Event, ...] = ()
    because: Cause | None = None

    @property
    def rank(self) -> int:
        """How far down a list of causes it belongs: the least is the worst."""
        return CAUSES[self.kind].rank

    def as_json(self) -> dict[str, object]:
        """Return the cause as a value of JSON, without its evidence."""
        because = {} if self.because is None else {"because": self.because.as_json()}
        return {"kind": self.kind, "names": plain(dict(self.names)), "numbers": dict(self.numbers), **because}

    @property
    def messages(self) -> list[int]:
        """The numbers of the messages that its evidence is about."""
        alike = cast("list[int]", self.names.get("alike", []))
        numbers = [self.numbers.get("message"), *alike, *(fact.get("msg") for fact in self.evidence)]
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


CAUSES: Final[dict[str, CauseWords]] = {
    # What the plugin of a test framework saw.
    "died": CauseWords(
        "[{holder} held {message} of {queue} when ]{what} died of {error}[ at {line}]",
        rank=3,
    ),
    # The findings of the checks.
    "unroutable": CauseWords("{why}", "{message}[ from {publisher}] reached no queue: {why}", 10),
    "rejected_into_nothing": CauseWords(
        "[rejected by {by}][, {why}]",
        "{by} rejected {message} in {queue}[ after {error}][ at {line}][, {which}]: {gone}",
        10,
    ),
    "given_up": CauseWords(
        "[rejected by {by}][, {why}]", "{message} reached the delivery limit of {queue}[, {which}]: {gone}", 10
    ),
    "expired_into_nothing": CauseWords("{why}", "{message} expired in {queue}[, {which}]: {gone}", 10),
    "overflowed_into_nothing": CauseWords("{why}", "{queue}[, {which},] was full and dropped {message}: {gone}", 10),
    "auto_ack_lost": CauseWords(
        "{messages} of {queue} went to {by}, then {reason}",
        "{messages} of {queue} may be lost: {by} got them with no_ack, then {reason}",
        *(30, True),
    ),
    "redelivered_too_often": CauseWords(
        "redelivered {times}, last to {by}[; {why}]",
        "{message} of {queue} {was} redelivered {times}, last to {by}[: {why}]",
        20,
    ),
    "redeclared_differently": CauseWords("{refusal}[, at {line}]", rank=15),
    "not_in_definitions": CauseWords(
        "{part}, from {by}[: did you mean {known}?]",
        "the definitions lack {part}, which {by} declared[: did you mean {known}?]",
        15,
    ),
    "unseen_channel_error": CauseWords("{refusal}[, on the connection opened at {opener}]", rank=15),
    "trace_context_lost": CauseWords(
        "without a traceparent, while it handled {handled}, of trace {trace}",
        "{message} {was} published without a traceparent, while its publisher handled {handled}, of trace {trace}",
        35,
    ),
    "trace_restarted": CauseWords(
        "in the new trace {new_trace}, while it handled {handled}, of trace {trace}",
        "{message} {was} published in the new trace {new_trace}, while its publisher handled {handled}, of trace "
        "{trace}",
        35,
    ),
    "baggage_lost": CauseWords(
        "without the baggage {keys}, while it handled {handled}",
        "{message} {was} published without the baggage {keys}, while its publisher handled {handled}",
        35,
    ),
    "correlation_lost": CauseWords(
        "without a correlation id, while it handled {handled} with {value}",
        "{message} {was} published without a correlation id, while its publisher handled {handled} with {value}",
        35,
    ),
    "unknown_argument": CauseWords("{argument} of {place}, from {by}: did you mean {known}?", rank=40),
    "uncommitted": CauseWords(
        "{why}", "{publisher} published {message} in a transaction that it never committed[: {why}]", 10
    ),
    "lost_at_restart": CauseWords("{why}", "{message} {was} lost when the broker restarted: {why}", 10),
    "unacked_at_end": CauseWords(
        "held by {holder} for {age}[, {why}]", "{holder} held {message} of {queue}[ for {age}][, {why}]", 50
    ),
    "given_back": CauseWords(
        "ready again, because {place} closed its channel without an ack that took effect",
        "{message} {is} ready again in {queue}, because {place} closed its channel without an ack that took effect",
        50,
    ),
    "return_ignored": CauseWords(
        "{why}; it was returned as mandatory, and the client drops that: use on_return_raises=True of aio-pika's "
        "channel(), confirm_delivery() of pika, or a callback for returns",
        "{message} reached no queue and {was} returned to a client that drops returns: {why}",
        10,
    ),
    "left_ready": CauseWords("[{why}]", "{message} {was} left in {queue}[: {why}]", 60),
    "unlimited_prefetch": CauseWords("{consumer} of {by} on {queue}", rank=90),
    "connection_not_closed": CauseWords("{place}[, opened at {opener}]", rank=90),
    "channel_not_closed": CauseWords("{place}[, opened at {opener}]", rank=90),
    "unused_fault": CauseWords("{complaint}", rank=95),
    "never_awaited": CauseWords("{call}(...)[, at {line}], did nothing: write await {call}(...)", rank=5),
    "failed_unawaited": CauseWords(
        "the task that failed[, at {line}]: write await task, so that the test sees {error}", rank=5
    ),
    "unstarted_worker": CauseWords(
        "worker '{worker}'[, made at {line}], was never started: use it in a with statement", rank=5
    ),
    "lost_worker": CauseWords(
        "worker '{worker}'[, made at {line}], ended by itself with {code}: use it in a with statement, which "
        "then raises an error",
        rank=90,
    ),
    "no_client": CauseWords("{place}", rank=95),
    # The hints of a wait that failed.
    "loop": CauseWords("message {message} was delivered {times} from {place} and requeued each time: {why}", rank=20),
    # What the facts of a failed test show.
    "published_before_binding": CauseWords(
        "{message} {was} published[ by {publisher}] before {queues} was bound to {exchange}", rank=10
    ),
    "published_before_queue": CauseWords(
        "{message} {was} published[ by {publisher}] before queue {queue} was declared", rank=10
    ),
    "refused": CauseWords("{client} got {code} {text}[, at {line}][: {why}][: {hint}]", rank=15),
    "ack_lost": CauseWords(
        "{message} {was} delivered again, from {queue} to {by}: {holder} lost its connection before {when}"
        "[ ({reason})]",
        rank=12,
    ),
    "published_again": CauseWords("{publisher} published {request} again as {message}[, {ids}][: {lost}]", rank=11),
    "overtaken": CauseWords(
        "{message} of {queue} went to {clients}, so the order in which they were handled is not that of the queue",
        rank=24,
    ),
    "no_priorities": CauseWords("{message} has priority {priority}, and {queue} has no x-max-priority", rank=24),
    "no_priority": CauseWords("{message} {has} no priority, although {queue} has x-max-priority", rank=24),
    "returned": CauseWords("{message} reached no queue and {was} returned to {publisher}", rank=12),
    "taken_unacked": CauseWords(
        "{by} took {message} from {queue} with no_ack and then closed its connection: {gone}", rank=12
    ),
    "expired_to": CauseWords("{message} expired in {queue} after {age} and came to {target}", rank=22),
    "rolled_back": CauseWords("{publisher} rolled back the transaction in which it published {message}", rank=10),
    "same_correlation": CauseWords(
        "{message} of {publisher} have the same correlation id {given}, so their replies cannot be matched to them",
        rank=14,
    ),
    "reply_to_lost": CauseWords(
        "{by} acked {request} and published no reply to {queue}, only {message}, which does not name it in reply_to",
        rank=14,
    ),
    "not_answered": CauseWords("{by} acked {message} and published no reply to {queue}", rank=26),
    "swallowed": CauseWords("{by} acked {message} of {queue} after {error}[ at {line}]", rank=16),
    "rejected_to": CauseWords(
        "{by} rejected {message} of {queue}[ after {error}][ at {line}], so {it} went to {target}", rank=28
    ),
    "goes_round": CauseWords("{message} went round {times}, by {queues}, and never left", rank=20),
    "worker_ended": CauseWords(
        "worker '{worker}' ended with exit code {code} while it held {message} of {queue}", rank=12
    ),
    "refused_by_full": CauseWords(
        "{queue} was full ({limit}) and refused {message}[ of {publisher}][, {unconfirmed}]", rank=10
    ),
    "settled_uncommitted": CauseWords(
        "{holder} settled {message} of {queue} in a transaction that it has not committed", rank=24
    ),
    "shared": CauseWords("{clients} share {queue}, so each message went to only one of them", rank=24),
    "single_active": CauseWords(
        "{waiting} got nothing from {queue}, which has a single active consumer: {active}", rank=25
    ),
    "came_elsewhere": CauseWords("{message} left {queue} ({reason}) and came to {target}[, by way of {by}]", rank=27),
    "reply_to_left": CauseWords(
        "reply {message} of {publisher} to {request} reached no queue: {asker} had closed its connection", rank=8
    ),
    "wrong_reply": CauseWords(
        "{message} from {publisher} answers {request} with the correlation id {given}, which fits no request: "
        "{request} has {asked}",
        rank=8,
    ),
    "unconfirmed": CauseWords(
        "{client} published {message} without confirms on a connection that was lost ({reason}), so it does not know "
        "what else has arrived",
        rank=18,
    ),
    "went_elsewhere": CauseWords(
        "{message} was published to {exchange}, and {queue}[ of {client}] is bound to others: {bindings}", rank=26
    ),
    "behind": CauseWords(
        "the time of {message} in {queue} is over, but only the head of a queue expires: {others} is in front of it",
        rank=21,
    ),
    "not_due": CauseWords("{message} {waits} in {queue} for {delay} more[: {clock}]", rank=52),
    "blocked": CauseWords("{client} was blocked by an alarm ({alarm}), so nothing that it published arrived", rank=10),
    "nothing_published": CauseWords(
        "no message was published[ to {exchange}][ with the routing key {routing_key}] in this test[; logged: {log}]",
        rank=30,
    ),
    "requeued_often": CauseWords("{by} requeued {message} in {queue} {times}[: {why}]", rank=20),
    "held_back": CauseWords(
        "{holder} held {message} of {queue} without an ack[ for {age}]; its prefetch of {prefetch} kept {others} back",
        rank=25,
    ),
    "held": CauseWords("{holder} still held {message} of {queue} when the test failed[, after {age}]", rank=50),
    "not_consumed": CauseWords(
        "{message} {waits} in {queue}[ of virtual host {vhost}], which has no consumer[: {why}]", rank=55
    ),
    "value": CauseWords("{value} is in {message}, which {became}", rank=60),
    "for_later": CauseWords("{message} of {queue} {is} due only at {eta}", rank=20),
    "purged": CauseWords("{message} {was} purged from {queue} while {it} waited", rank=20),
    "read_from_next": CauseWords(
        "{message} {is} older than the consumer of {client} on stream {queue}, which begins at the next "
        "message[: it sets {unset}]",
        rank=22,
    ),
    "came_again": CauseWords(
        "{holder} closed its connection without an ack of {message}, so {queue} delivered {it} again, to {by}", rank=12
    ),
    "requeued": CauseWords("{holder} requeued {message} of {queue}, so {it} {was} delivered again, to {by}", rank=22),
    "published_behind": CauseWords(
        "{by} took {request} from {queue} and published it again as {message}, behind {others}", rank=22
    ),
    "nothing_came": CauseWords(
        "no message came to {queue}[: {message} went to {target}][ of virtual host {vhost}][: {why}]", rank=22
    ),
    "unbound": CauseWords(
        "{client} had unbound {queue} from {exchange} ({binding}) before {message} {was} published", rank=9
    ),
    "prefers": CauseWords(
        "{active} gets the messages of {queue} first: its consumer has x-priority {higher}, that of {waiting} {lower}",
        rank=24,
    ),
    "came_by": CauseWords("{message} came to {queue} by its binding {binding} to {exchange}[, {type}]", rank=27),
    "policy_idle": CauseWords("policy {policy}, for names like {pattern}, applies to no queue", rank=21),
    "policy_outranked": CauseWords(
        "policy {policy} does not apply to {queue}: of several, only one applies, and {other} comes first", rank=9
    ),
    "reply_without_id": CauseWords(
        "{message} from {publisher} answers {request} without its correlation id {asked}", rank=8
    ),
    "taken_with": CauseWords("the ack of {request} was multiple and settled {message} of {queue} too", rank=26),
    # Why a queue has no consumer.
    "consumer_cancelled": CauseWords("{client} cancelled its consumer[ ({reason})]"),
    "consumer_channel_closed": CauseWords("the channel of {client}'s consumer closed[ ({reason})]"),
    "consumer_lost": CauseWords("{client} lost its connection[ ({reason})]"),
    "consumer_closed": CauseWords("{client} closed its connection"),
    "consumed_elsewhere": CauseWords("{client} consumes from {target}[ of virtual host {other}]"),
    # Why a delivery was settled already.
    "taken_along": CauseWords("the ack of {request} was multiple and settled {message} too"),
    # Why a channel does not know a delivery.
    "closed_before": CauseWords("{code} {text}[, at {line},] had closed its channel, which gave its deliveries back"),
    # Why a message found no queue.
    "exchange_gone": CauseWords("exchange {exchange} does not exist any more"),
    "no_bindings": CauseWords("{exchange} has no bindings"),
    "no_match": CauseWords("{routing_key} matches no binding of {exchange} ({bindings}[; {slip}])"),
    "no_match_of_headers": CauseWords("its headers match no binding of {exchange} ({bindings})"),
    "bound_later": CauseWords("{exchange} had no such binding yet; now it leads to {queues}"),
    "bound_to_exchange": CauseWords("{exchange} leads to exchange {exchanges}, which has no queue"),
    "queue_deleted": CauseWords("{deletion}", rank=9),
    "declared_later": CauseWords("queue {queue} was declared later"),
    "no_queues": CauseWords("there is no queue {queue}, nor any other"),
    "no_queue": CauseWords("there is no queue {queue}[ (nearest: {near})]"),
    # Why a queue had nowhere to send a dead letter.
    "no_dead_letter_exchange": CauseWords("the queue has no dead-letter exchange", "which has no dead-letter exchange"),
    "dead_letter_exchange_missing": CauseWords(
        "its dead-letter exchange {exchange} does not exist", "whose dead-letter exchange {exchange} does not exist"
    ),
    "dead_letter_unrouted": CauseWords(
        "its dead letter reached no queue through exchange {exchange}[: {why}]",
        "from which its dead letter reached no queue through exchange {exchange}[ ({why})]",
    ),
    "cycle": CauseWords(
        "its dead letter came back to a queue in which it had died, and RabbitMQ drops it then: {queue} ({reason}), "
        "then {way}",
        "to which its dead letter came back, so that RabbitMQ drops it: {queue} ({reason}), then {way}",
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
_QUOTED: Final = frozenset(
    {
        *("queue", "exchange", "routing_key", "argument", "known", "queues", "exchanges", "near"),
        *("target", "given", "asked", "value", "policy", "pattern", "vhost", "other"),
    }
)
# Numbers that are spans of time in microseconds.
_SPANS: Final = frozenset({"age", "delay", "usual"})
_LISTED: Final = 3


@cache
def slots_of(kind: str) -> frozenset[str]:
    """Return what the words of a kind leave open."""
    words = CAUSES[kind]
    return frozenset(re.findall(r"{(\w+)}", words.clause + words.sentence))


def clause(cause: Cause) -> str:
    """Return what a cause says below the line of a check."""
    return _filled(CAUSES[cause.kind].clause, cause)


def sentence(cause: Cause) -> str:
    """Return what a cause says alone."""
    words = CAUSES[cause.kind]
    text = _filled(words.sentence or words.clause, cause)
    text = f"perhaps {text}" if words.is_guess and not words.sentence else text
    broker = cause.names.get("broker")
    return text if broker is None else f"{broker}: {text}"


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
    own = _OWN_SLOTS.get(name)
    if own is not None:
        return own(cause)
    if (number := cause.numbers.get(name)) is not None:
        if name in _SPANS:
            return span_text(number)
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


def _numbers(numbers: Sequence[object]) -> str:
    """Return messages by their numbers: "#2", "#2 and #3", "#2, #3 and 4 more"."""
    shown = [f"#{number}" for number in numbers[: _LISTED if len(numbers) == _LISTED else _LISTED - 1]]
    return listed([*shown, f"{len(numbers) - len(shown)} more"] if len(numbers) > len(shown) else shown)


def _all_of(cause: Cause) -> list[int]:
    """Return the messages that a cause is about: its own, and those of causes alike."""
    alike = cast("list[int]", cause.names.get("alike", []))
    return list(dict.fromkeys([*([cause.numbers["message"]] if "message" in cause.numbers else []), *alike]))


def _became(cause: Cause) -> str:
    """Return how the message of a cause stands."""
    state = cast("str | None", cause.names.get("state"))
    return (
        "reached no queue"
        if state is None
        else filled(end_of(state).clause, lambda name: _slot(name, cause), is_drawn=False)
    )


_OWN_SLOTS: Final[dict[str, Callable[[Cause], str]]] = {
    "why": lambda cause: "" if cause.because is None else clause(cause.because),
    # Why a queue lost a message, as a clause about the queue.
    "which": lambda cause: "" if cause.because is None else sentence(cause.because),
    "became": _became,
    "message": lambda cause: _numbers(_all_of(cause)),
    # How a message that is ready again came back.
    "how": lambda cause: why(events.REQUEUES[0], cause.names.get("reason")),
    "often": lambda cause: deliveries_text(cause.numbers.get("deliveries", 0)),
    "kind": lambda cause: str(cause.names.get("state")),
    "was": lambda cause: "were" if len(_all_of(cause)) > 1 else "was",
    "is": lambda cause: "are" if len(_all_of(cause)) > 1 else "is",
    "waits": lambda cause: "wait" if len(_all_of(cause)) > 1 else "waits",
    "has": lambda cause: "have" if len(_all_of(cause)) > 1 else "has",
    "its": lambda cause: "their acks" if len(_all_of(cause)) > 1 else "its ack",
    "request": lambda cause: _numbers([cause.numbers["request"]] if "request" in cause.numbers else []),
    "others": lambda cause: _numbers(cast("list[int]", cause.names.get("others", []))),
    "clients": lambda cause: listed(cast("list[str]", cause.names.get("clients", []))),
    "it": lambda cause: "they" if len(_all_of(cause)) > 1 else "it",
    "unconfirmed": lambda cause: "published without confirms" if cause.names.get("unconfirmed") else "",
    "gone": lambda cause: "the messages are gone" if len(_all_of(cause)) > 1 else "the message is gone",
}
