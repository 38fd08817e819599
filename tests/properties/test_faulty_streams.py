"""Under any faults on bytes, removed at any time, what each side receives is what the other has sent, in order."""

from __future__ import annotations

import pytest

from tests.properties.faulty_streams import Conversations

PARTS, SEEDS_PER_PART = 8, 40


@pytest.mark.parametrize("part", range(PARTS))
def test_what_is_received_under_random_faults_is_a_prefix_of_what_was_sent(part: int) -> None:
    for seed in range(part * SEEDS_PER_PART, (part + 1) * SEEDS_PER_PART):
        print(f"seed {seed}")
        Conversations(seed).run()


def test_random_faults_include_every_kind_and_connections_survive_them() -> None:
    kinds, survivors = set(), 0
    for seed in range(20):
        conversations = Conversations(seed)
        conversations.run()
        kinds |= set(conversations.kinds)
        survivors += sum(not peer.connection.is_closed for peer in conversations.peers)

    assert len(kinds) == 8
    assert survivors > 20
