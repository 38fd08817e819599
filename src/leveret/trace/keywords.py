"""The keywords of `broker.events.query`, as types. A house test holds them equal to the fields of the events."""

from __future__ import annotations

from typing import TypedDict


class EventFields(TypedDict, total=False):
    """The fields that `broker.events.query` compares."""

    kind: object
    at: object
    vhost: object
    conn: object
    chan: object
    message: object
    copy: object
    src_copy: object
    expires: object
    exchange: object
    routing_key: object
    queue: object
    consumer: object
    tag: object
    multiple: object
    up_to_tag: object
    redelivered: object
    count: object
    reason: object
    is_shutdown: object
    peer: object
    user: object
    client: object
    type: object
    arguments: object
    destination_kind: object
    destination: object
    no_ack: object
    exclusive: object
    prefetch_count: object
    is_global: object
    is_global_asked: object
    code: object
    text: object
    caller: object
    opener: object
    cause: object
    subject: object
    call: object
    test: object
    outcome: object
    duration: object
    error: object
    on: object
    fault: object
