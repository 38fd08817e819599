"""What the lockstep machine does not compare, or does not do, and why.

Everything here depends on chance or on the clock in RabbitMQ itself. ``docs/explanation/lockstep.md`` shows the same
table; a test keeps the two equal.
"""

from __future__ import annotations

from typing import NamedTuple


class Exclusion(NamedTuple):
    """One thing that is left out, and why."""

    what: str
    why: str


EXCLUSIONS = (
    Exclusion(
        "Names that the server makes up (queues, consumer tags)",
        "They are random. They are numbered in order of appearance, and the numbers are compared.",
    ),
    Exclusion(
        "The time in x-death, if it is close to now",
        "It is the wall clock of the server.",
    ),
    Exclusion(
        "How confirms are grouped (multiple), and their place among other replies of a step",
        "RabbitMQ coalesces what is ready together. The numbers acked and nacked by each step are compared as sets. "
        "The channel itself confirms what reaches no queue, so where publishes arrive together, the order of these "
        "confirms and of returns is compared.",
    ),
    Exclusion(
        "The order between channels and between connections",
        "Each channel is a process of its own with its own way to the socket.",
    ),
    Exclusion(
        "The order of deliveries from different queues to one channel",
        "Each queue is a process of its own. The order per queue is compared, and the set of delivery tags. An "
        "acknowledgement with multiple is left out if the two orders make it cover different messages.",
    ),
    Exclusion(
        "The order of deliveries to several consumers of a quorum queue on one channel",
        "One command may make several messages ready. The queue delivers them to one consumer after the "
        "other, and treats commands that arrive together as one. Which consumer gets what, and in which "
        "order, is compared.",
    ),
    Exclusion(
        "Dead letters that race with something else: with another copy of the message, or with the end of a channel",
        "Dead letters travel from queue to queue on their own. A classic queue may dead-letter a message "
        "before a quorum queue has written its own copy. Dead letters of two queues arrive in any order. A "
        "dead letter may reach a queue before that queue knows that its consumer has gone. At most one "
        "classic queue of a program dead-letters messages, and none if there are quorum queues. A program "
        "that differs where a channel ends, in a segment that requeues messages beside others that die, or, with "
        "quorum queues, in the order of what one publish delivers, stops there and is counted.",
    ),
    Exclusion(
        "The order of a delivery and another reply on the same channel, except consume-ok, qos-ok, recover-ok and the "
        "commit-ok of a transaction without publishes, which come first",
        "Deliveries come from the queue's process, replies from the channel's. After a commit that publishes, 4.3 sent "
        "the delivery first in 148 of 150 runs, and commit-ok first in two.",
    ),
    Exclusion(
        "What a segment of publishes has delivered and confirmed when one of them closes the channel",
        "Queues deliver and confirm to a channel that is about to close. A segment either publishes only to "
        "exchanges without queues, or holds no publish that is refused. A program that differs in deliveries "
        "where one is closed anyway, stops and is counted.",
    ),
    Exclusion(
        "What is delivered to a connection in the step that ends it",
        "A queue delivers to a channel that is about to crash, and the channel may not send that on. leveret sends it. "
        "On both, the message returns to its queue. A program that differs in such deliveries stops there and is "
        "counted. One case is certain: if an exchange.bind is refused with 541 in the middle of a recent-history "
        "exchange's messages, RabbitMQ sent nothing to the channel in any of 36 runs.",
    ),
    Exclusion(
        "Which messages a shared limit lets through, if several queues have messages for the channel",
        "Before 4.3, basic.qos with global limits all consumers of a channel together, and their queues compete for "
        "the room: RabbitMQ begins with any of them. A program that differs there stops and is counted.",
    ),
    Exclusion(
        "Which consumer of a classic queue gets a returned message, if an acknowledgement that makes room for "
        "another consumer follows in the same segment",
        "A classic queue handles acknowledgements that have arrived before all else. Sent at once, the "
        "acknowledgement overtook the return in 596 of 600 runs, on 4.3, 4.0 and 3.10 alike; 20 ms later, in "
        "none of 60. A program that differs in such deliveries stops there and is counted.",
    ),
    Exclusion(
        "What else is written together with a method that ends the connection",
        "RabbitMQ's reader handles all frames of one read before it hears that a channel has failed or closed, and "
        "before it ends the socket; how TCP cuts the bytes decides what one read is. leveret stops at the failure, and "
        "at the client's connection.close-ok. Such a conversation stops and is counted.",
    ),
    Exclusion(
        "What a client sends after its login was refused, methods about the queue declared last on a channel "
        "that is not open, and publishes there",
        "After a refused login, RabbitMQ reads on only after three seconds. It answers the methods about the "
        "queue as if the channel were open. For the publish, two of its processes find an error. leveret ends"
        " the connection at once.",
    ),
    Exclusion(
        "The headers of AMQP 1.0, and on 3.10 those of AMQP 0-8",
        "leveret speaks AMQP 0-9-1 only.",
    ),
    Exclusion(
        "Instants of heartbeats to less than a fifth of a second",
        "They are measured, on a machine that does other things too.",
    ),
    Exclusion(
        "Counts and deliveries before both servers are at rest",
        "RabbitMQ handles publishes, acknowledgements and dead letters after the channel has gone on. It is asked for "
        "counts until they equal leveret's, or a time limit has passed.",
    ),
    Exclusion(
        "Bursts of publishes in programs with dead letters, a TTL of 0, or a quorum queue that refuses publishes",
        "Dead letters travel while the channel goes on publishing. What a TTL of 0 lets through depends on how fast a "
        "consumer can take another message. A quorum queue learns late that it is full. Programs with one of these "
        "publish one message a step.",
    ),
    Exclusion(
        "Bursts, and several settlements in a segment, together with a consumer of a quorum queue that does "
        "not acknowledge; more than one such consumer",
        "The prefetch count limits these consumers too, and they can take another message only after the "
        "channel has settled for them. Messages that return together are delivered up to this limit. "
        "Settlements of two channels arrive in any order, so which messages are delivered depends on timing.",
    ),
    Exclusion(
        "An expiration of 0 in bursts, or to several queues if there are dead letters",
        "A quorum queue that gets another message in the same millisecond counts the expired one a while longer, and "
        "dead letters of two queues arrive in any order.",
    ),
    Exclusion(
        "What follows a hard error on a connection with several channels; ending one that holds deliveries",
        "The channels end one after the other, in no fixed order. A message that one gives back may still be delivered "
        "to another that is about to end, and that counts. The program stops at such an error, and does not end such a "
        "connection.",
    ),
    Exclusion(
        "The order of what a commit publishes to a quorum queue and what it settles there",
        "Publishes are commands of low priority, which others overtake unless they arrive too late. A program that "
        "differs at a commit with a quorum queue stops there and is counted. This hides one more difference: a channel "
        "that has read from a quorum queue may not notice that the queue is deleted, and then silently loses what a "
        "commit publishes to it. leveret refuses the commit as for any other queue.",
    ),
    Exclusion(
        "More than one consumer with a tag that the server made up",
        "Consumers of one channel are served, and notified of a deleted queue, in the order of their tags.",
    ),
    Exclusion(
        "On 3.10, a consumer of a quorum queue that takes the tag of a cancelled one whose deliveries are still held",
        "RabbitMQ 3.10 ends the connection with 541 at the next delivery to it. leveret delivers. A program that "
        "differs so stops there and is counted.",
    ),
    Exclusion(
        "On 3.10, what a classic queue does with a publish after its single active consumer was cancelled",
        "RabbitMQ 3.10 delivers nothing to the next consumer before something else happens at the queue. If that is a "
        "publish, the queue's process crashes and its consumers are cancelled. leveret goes on with the next consumer. "
        "A program that differs so stops there and is counted.",
    ),
    Exclusion(
        "Counts of streams, and bursts into them",
        "RabbitMQ's counts lag seconds behind. Messages that arrive together, also from a recent-history exchange, may "
        "be one chunk or several. A program that differs where a consumer begins at the last chunk stops there and is "
        "counted. So does one that differs in deliveries at a commit on 3.10: a consumer there gets a whole chunk, "
        "whatever its prefetch count, and four messages of a commit were one chunk in 7 of 12 runs.",
    ),
    Exclusion(
        "Priorities of consumers of a quorum queue with a single active consumer",
        "RabbitMQ 4.3.6 loses the queue: if the active consumer is about to hand over, still holds a message, and ends "
        "together with the consumer it waits for, the message stays with a consumer that has gone. Scenarios prove the "
        "handover itself.",
    ),
    Exclusion(
        "Delayed retry together with a length limit",
        "RabbitMQ 4.3.6 hangs when it drops the head of such a queue while all of its messages wait for their retry.",
    ),
    Exclusion(
        "TTLs between 0 and 1000 ms, and programs that wait more than twice",
        "On RabbitMQ, real time passes while a program runs. A program whose steps took too long is run again.",
    ),
)
