"""What two servers cannot answer alike: values that depend on time, memory, processes or the machine.

The table masks them by the name of their key. The type of a value stays, so a missing key or a text in place of a
number is still a difference. Everything else is compared.
"""

from __future__ import annotations

import re
from typing import Final

_TIME: Final = "depends on when it was measured"
_MACHINE: Final = "depends on the machine and the process"
_ERLANG: Final = "describes Erlang, of which leveret has nothing"
_SHARED: Final = "depends on what else the server has done"
_SECRET: Final = "is salted by chance"
_BYTES: Final = "counts bytes on the wire, which differ in the versions and names that the server sends"

# Why the value of each key is not compared.
MASKED: Final[dict[str, str]] = {
    "applications": _ERLANG,
    "auth_mechanisms": _ERLANG,
    "connection_created": _SHARED,
    "connection_closed": _SHARED,
    "channel_created": _SHARED,
    "channel_closed": _SHARED,
    "queue_declared": _SHARED,
    "queue_created": _SHARED,
    "queue_deleted": _SHARED,
    "cluster_links": _ERLANG,
    "cluster_name": _MACHINE,
    "config_files": _MACHINE,
    "connected_at": _TIME,
    "consumer_capacity": _TIME,
    "consumer_utilisation": _TIME,
    "context_switches": _ERLANG,
    "contexts": _MACHINE,
    "crypto_lib_version": _ERLANG,
    "db_dir": _MACHINE,
    "disk_free": _MACHINE,
    "enabled_plugins": _MACHINE,
    "erlang_full_version": _ERLANG,
    "erlang_version": _ERLANG,
    "fd_total": _MACHINE,
    "fd_used": _MACHINE,
    "garbage_collection": _ERLANG,
    "gc_bytes_reclaimed": _ERLANG,
    "gc_num": _ERLANG,
    "idle_since": _TIME,
    "internal_owner": _ERLANG,
    "listeners": _MACHINE,
    **dict.fromkeys(
        (
            *("io_read_avg_time", "io_read_bytes", "io_read_count", "io_reopen_count", "io_seek_avg_time"),
            *("io_seek_count", "io_sync_avg_time", "io_sync_count", "io_write_avg_time", "io_write_bytes"),
            *("io_write_count", "mnesia_disk_tx_count", "mnesia_ram_tx_count", "msg_store_read_count"),
            *("msg_store_write_count", "queue_index_read_count", "queue_index_write_count"),
        ),
        _SHARED,
    ),
    "log_files": _MACHINE,
    "mem_limit": _MACHINE,
    "mem_used": _MACHINE,
    "memory": _MACHINE,
    "metrics_gc_queue_length": _ERLANG,
    "os_pid": _MACHINE,
    "password_hash": _SECRET,
    "pid": _ERLANG,
    "port": _MACHINE,
    "ports": _MACHINE,
    "peer_port": _MACHINE,
    "proc_total": _ERLANG,
    "proc_used": _MACHINE,
    "processors": _MACHINE,
    "ra_open_file_metrics": _ERLANG,
    "rate": _TIME,
    "recv_cnt": _BYTES,
    "recv_oct": _BYTES,
    "reductions": _ERLANG,
    "run_queue": _ERLANG,
    "send_cnt": _BYTES,
    "send_oct": _BYTES,
    "sockets_total": _MACHINE,
    "uptime": _TIME,
}
_ADDRESS: Final = re.compile(r"127\.0\.0\.1(?::|%3A)\d+")


def mask(value: object, name: str = "") -> object:
    """Return a JSON value with the values of masked keys replaced by their types."""
    if name in MASKED:
        return _kind(value)
    if isinstance(value, dict):
        return {key: mask(each, key) for key, each in value.items()}
    if isinstance(value, list):
        return [mask(each) for each in value]
    return value


def without_addresses(text: str) -> str:
    """Return a text with the ports of addresses left out."""
    return _ADDRESS.sub("<address>", text)


def _kind(value: object) -> str:
    if isinstance(value, bool):
        return "<flag>"
    if isinstance(value, int | float):
        return "<number>"
    return {str: "<text>", list: "<list>", dict: "<object>", type(None): "<null>"}[type(value)]
