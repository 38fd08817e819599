"""Ten tests begin with the depots of a night: 200 queues with 10,000 parcels. They are filled once in the run."""

from __future__ import annotations

from collections.abc import Iterator

import pika
import pytest

from examples.full_depots.dispatcher import LOST, Dispatcher, Parcel, depot_of
from leveret import Broker

TOWNS = [f"town-{number}" for number in range(200)]
PARCELS = [{"id": number, "express": number == 30} for number in range(50)]


def fill_depots(leveret: Broker) -> None:
    """Fill the depots as on a night before a holiday."""
    with pika.BlockingConnection(pika.URLParameters(leveret.url)) as connection:
        dispatcher = Dispatcher(connection.channel())
        for town in TOWNS:
            dispatcher.open_depot(town)
            for parcel in PARCELS:
                dispatcher.store(town, parcel)


pytestmark = pytest.mark.leveret_state(build=fill_depots)


@pytest.fixture
def dispatcher(leveret: Broker) -> Iterator[Dispatcher]:
    with pika.BlockingConnection(pika.URLParameters(leveret.url)) as connection:
        yield Dispatcher(connection.channel())


def parcels_in(leveret: Broker, queue: str) -> list[Parcel]:
    return [message.json for message in leveret.queue(queue).ready]


def test_a_van_gets_the_oldest_parcels(dispatcher: Dispatcher) -> None:
    assert dispatcher.load("town-7", room=3) == PARCELS[:3]


def test_what_a_van_got_has_left_the_depot(leveret: Broker, dispatcher: Dispatcher) -> None:
    dispatcher.load("town-7", room=3)

    assert parcels_in(leveret, depot_of("town-7")) == PARCELS[3:]


def test_a_van_with_much_room_empties_the_depot(leveret: Broker, dispatcher: Dispatcher) -> None:
    assert dispatcher.load("town-0", room=80) == PARCELS
    leveret.assert_empty(depot_of("town-0"))


def test_a_van_leaves_other_towns_alone(leveret: Broker, dispatcher: Dispatcher) -> None:
    dispatcher.load("town-0", room=80)

    assert parcels_in(leveret, depot_of("town-1")) == PARCELS


def test_an_express_parcel_goes_first(dispatcher: Dispatcher) -> None:
    assert dispatcher.load_express("town-199") == PARCELS[30]


def test_parcels_before_an_express_one_keep_their_places(leveret: Broker, dispatcher: Dispatcher) -> None:
    dispatcher.load_express("town-199")

    assert parcels_in(leveret, depot_of("town-199")) == [*PARCELS[:30], *PARCELS[31:]]


def test_a_depot_without_express_parcels_gives_none(dispatcher: Dispatcher) -> None:
    dispatcher.load_express("town-5")

    assert dispatcher.load_express("town-5") is None


def test_a_lost_parcel_is_set_aside(leveret: Broker, dispatcher: Dispatcher) -> None:
    assert dispatcher.report_lost("town-12") == PARCELS[0]
    leveret.assert_dead_lettered(depot_of("town-12"), to=LOST, reason="rejected")


def test_parcels_of_a_closed_depot_come_behind_those_of_the_other(leveret: Broker, dispatcher: Dispatcher) -> None:
    assert dispatcher.close_depot("town-3", to="town-4") == len(PARCELS)
    assert parcels_in(leveret, depot_of("town-4")) == PARCELS + PARCELS


def test_a_closed_depot_is_gone(leveret: Broker, dispatcher: Dispatcher) -> None:
    dispatcher.close_depot("town-3", to="town-4")

    assert depot_of("town-3") not in [queue.name for queue in leveret.queues]
