"""Direct reply-to: a generated name leads straight to its requester while the requester exists."""

from __future__ import annotations

import pytest

from leveret.core.model.message import Message
from leveret.core.model.reply_to import PREFIX
from tests.model.world import World, bodies


class Requester:
    """A channel that waits for replies."""

    def __init__(self) -> None:
        self.replies: list[bytes] = []

    def deliver_reply(self, message: Message) -> None:
        self.replies.append(message.body)


@pytest.fixture
def world() -> World:
    return World()


def test_a_reply_reaches_its_requester(world: World) -> None:
    requester = Requester()
    queue = world.node.reply_queues.open(requester, world.vhost)

    published = world.publish(b"1", queue.name)

    assert published.is_routed
    assert requester.replies == [b"1"]


def test_every_request_for_replies_has_a_name_of_its_own(world: World) -> None:
    names = {world.node.reply_queues.open(Requester(), world.vhost).name for _ in range(3)}

    assert len(names) == 3
    assert all(name.startswith(PREFIX) for name in names)


def test_a_requester_that_has_gone_still_counts_as_a_route(world: World) -> None:
    requester = Requester()
    queue = world.node.reply_queues.open(requester, world.vhost)
    queue.target = None

    assert world.publish(b"1", queue.name).is_routed
    assert requester.replies == []


def test_a_name_that_the_node_did_not_generate_is_not_a_route(world: World) -> None:
    assert not world.publish(b"1", PREFIX + "invented.name").is_routed


def test_a_reply_may_go_to_a_queue_as_well(world: World) -> None:
    requester, queue = Requester(), world.queue("log")
    name = world.node.reply_queues.open(requester, world.vhost).name

    world.publish(b"1", "log", headers={"CC": [name]})

    assert bodies(queue.ready) == [b"1"]
    assert requester.replies == [b"1"]


def test_only_the_default_exchange_leads_to_requesters(world: World) -> None:
    requester = Requester()
    name = world.node.reply_queues.open(requester, world.vhost).name

    assert not world.publish(b"1", name, "amq.direct").is_routed


def test_a_restart_forgets_all_names(world: World) -> None:
    name = world.node.reply_queues.open(Requester(), world.vhost).name

    world.node.restart()

    assert world.node.reply_queues.find(name, world.vhost) is None
