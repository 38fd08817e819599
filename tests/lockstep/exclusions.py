"""This module is the list of what the lockstep machine does not compare, or does not do, and why.

Everything here is up to chance on RabbitMQ itself, or up to the clock. ``docs/lockstep.md`` shows the table; a test
keeps the two equal.
"""

from __future__ import annotations

from typing import NamedTuple


class Exclusion(NamedTuple):
    """One thing left out: what, why, and where it is left out."""

    what: str
    why: str


EXCLUSIONS = (
    Exclusion(
        "Names the server makes up (queues, consumer tags)",
        "They are random; they are numbered in order of appearance and the numbers are compared.",
    ),
    Exclusion(
        "The time in x-death, when it is near now",
        "It is the wall clock of the server.",
    ),
    Exclusion(
        "How confirms are grouped (multiple), and their place among other things of a step",
        "RabbitMQ coalesces what is ready together. The numbers acked and nacked by each step are compared as sets.",
    ),
    Exclusion(
        "Order between channels and between connections",
        "Each channel is a process of its own with its own way to the socket.",
    ),
    Exclusion(
        "Order between deliveries from different queues to one channel",
        "Each queue is a process of its own. The order per queue is compared, and the set of delivery tags used; an "
        "acknowledgement with multiple is left out where the two orders make it cover different messages.",
    ),
    Exclusion(
        "Order between deliveries to several consumers of a quorum queue on one channel",
        "It hands out what one of its commands made ready consumer by consumer, and commands that "
        "come together are one. "
        "Who gets what, and in which order, is compared.",
    ),
    Exclusion(
        "Dead letters that race with something else: with another copy of the message, or with the end of a channel",
        "They travel from queue to queue on their own: a classic queue's is quicker than a quorum queue's write of the "
        "message itself, those of two queues come in any order, and one may reach another queue before that hears that "
        "its consumer is gone. One classic queue at most makes dead letters of what comes, and none beside quorum "
        "queues; a program that is answered differently where a channel ends, ends there and is counted.",
    ),
    Exclusion(
        "Order between a delivery and another answer on the same channel, except consume-ok, which comes first",
        "Deliveries come from the queue's process, answers from the channel's.",
    ),
    Exclusion(
        "Counts and deliveries before both servers are at rest",
        "Publishes, acknowledgements and dead letters are handled after the channel has gone on. RabbitMQ is asked for "
        "counts until they are what leveret shows, or a limit has passed.",
    ),
    Exclusion(
        "Bursts of publishes in programs with dead letters, a TTL of 0, or a quorum queue that refuses publishes",
        "Dead letters travel from queue to queue while the channel goes on publishing; what a TTL of 0 lets through "
        "depends on how quickly a consumer's room comes back; a quorum queue finds out late that it is full. Programs "
        "with one of these publish one message a step.",
    ),
    Exclusion(
        "Bursts together with consumers of quorum queues that do not acknowledge",
        "Their room, too, is limited by the prefetch count, and comes back only when the channel has settled for them.",
    ),
    Exclusion(
        "An expiration of 0 in bursts, or to several queues where there are dead letters",
        "A quorum queue that gets another message in the same millisecond counts the expired one a while longer; and "
        "dead letters of two queues come in any order.",
    ),
    Exclusion(
        "What follows a hard error on a connection with several channels; ending one that holds deliveries",
        "The channels end one after the other, in no order; what one gives back another dying one may still get, which "
        "counts. The program ends at such an error, and leaves such an end out.",
    ),
    Exclusion(
        "Order between what a commit publishes to a quorum queue and what it settles there",
        "Publishes are commands of low priority, which others overtake unless they come too late. A program that is "
        "answered differently at a commit, with a quorum queue, ends there and is counted. One thing more hides "
        "there: a channel that has read from a quorum queue may not hear that it is deleted, and then loses what a "
        "commit publishes to it without a word, where leveret refuses the commit as for any other queue.",
    ),
    Exclusion(
        "More than one consumer with a tag the server made up",
        "Consumers of one channel are served, and told of a deleted queue, in the order of their tags.",
    ),
    Exclusion(
        "Counts of streams, and bursts into them",
        "RabbitMQ's counts lag seconds behind, and what comes together, from an exchange with recent history too, may "
        "be one chunk or several. A program that is answered differently where a consumer begins at the last chunk "
        "ends there and is counted.",
    ),
    Exclusion(
        "Priorities of consumers of a quorum queue with a single active consumer",
        "RabbitMQ 4.3.6 loses the queue: when the active consumer, about to hand over and still holding a message, "
        "ends together with the one it waits for, the message stays with a consumer that is gone. Scenarios prove the "
        "takeover itself.",
    ),
    Exclusion(
        "Delayed retry together with a length limit",
        "RabbitMQ 4.3.6 does not come back from dropping the head of such a queue when all there is waits for its "
        "retry.",
    ),
    Exclusion(
        "TTLs between 0 and 1000 ms, and waiting more than twice",
        "Time really passes on RabbitMQ while a program runs: a program whose steps took too long is run again.",
    ),
)
