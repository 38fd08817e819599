"""The keywords of `leveret.Broker`, as types for the calls that pass them on (see `observe/assertions/keywords.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from os import PathLike
    from ssl import SSLContext

    from leveret.core.compat import RabbitMQVersion
    from leveret.observe.checks.table import DeclareRule, Wanted
    from leveret.trace.ring import RecordLevel


class SeedlessBrokerOptions(TypedDict, total=False):
    """The keywords of a broker whose `seed` is a keyword of the call itself."""

    rabbitmq: RabbitMQVersion
    host: str
    port: int
    permit: str | Iterable[str]
    record: RecordLevel
    trace_dir: str | PathLike[str] | None
    trace_bodies: bool
    trace_redact: str | Iterable[str]
    checks: Wanted
    max_redeliveries: int
    users: Mapping[str, str] | None
    vhosts: str | Iterable[str]
    definitions: Mapping[str, object] | str | PathLike[str] | None
    declare: DeclareRule
    plugins: str | Iterable[str]
    settings: Mapping[str, object] | None
    tls: SSLContext | bool
    tls_port: int
    management: bool
    management_port: int
    inline: bool


class BrokerOptions(SeedlessBrokerOptions, total=False):
    """The keywords of a broker."""

    seed: int
