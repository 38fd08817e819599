"""The metrics of the broker in Prometheus' text format, under the names of the plugin rabbitmq_prometheus.

Counters count what the management API counts (see `statistics`). Metrics of Erlang, of the disk and of Raft are left
out, because leveret has none of these.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from leveret.core.model.operators.node_settings import NODE_NAME
from leveret.core.model.queues.stored_queue import StoredQueue
from leveret.http.management import statistics
from leveret.http.management.calls import ManagementCall
from leveret.http.management.endpoints.overview import disk_free, files_max, memory_bytes, open_files, resident_bytes
from leveret.http.management.measures import totals
from leveret.http.management.routes import endpoint
from leveret.http.messages import Response
from leveret.observe.texts.state import connections as clients

Labels = tuple[tuple[str, str], ...]
# A metric: its name, its type, its description, and its values by labels.
Metric = tuple[str, str, str, list[tuple[Labels, float]]]

_CONTENT_TYPE: Final = "text/plain; version=0.0.4"
_PROTOCOL: Final[Labels] = (("protocol", "amqp091"),)
# Counters of the broker, with what the statistics call them.
_COUNTERS: Final = (
    ("connections_opened_total", "connection_created", "Total number of connections opened"),
    ("connections_closed_total", "connection_closed", "Total number of connections closed or terminated"),
    ("channels_opened_total", "channel_created", "Total number of channels opened"),
    ("channels_closed_total", "channel_closed", "Total number of channels closed"),
    ("queues_declared_total", "queue_declared", "Total number of queues declared"),
    ("queues_created_total", "queue_created", "Total number of queues created"),
    ("queues_deleted_total", "queue_deleted", "Total number of queues deleted"),
)
_GLOBAL_COUNTERS: Final = (
    ("received_total", "publish", "Total number of messages received from publishers"),
    ("confirmed_total", "confirm", "Total number of messages confirmed to publishers"),
    ("unroutable_dropped_total", "drop_unroutable", "Total number of messages dropped as unroutable"),
    ("unroutable_returned_total", "return_unroutable", "Total number of messages returned as unroutable"),
    ("acknowledged_total", "ack", "Total number of messages acknowledged by consumers"),
    ("delivered_total", "deliver_get", "Total number of messages delivered to consumers"),
    ("delivered_consume_manual_ack_total", "deliver", "Total number of messages delivered with manual acknowledgment"),
    ("delivered_consume_auto_ack_total", "deliver_no_ack", "Total number of messages delivered without acknowledgment"),
    ("delivered_get_manual_ack_total", "get", "Total number of messages got with manual acknowledgment"),
    ("delivered_get_auto_ack_total", "get_no_ack", "Total number of messages got without acknowledgment"),
    ("redelivered_total", "redeliver", "Total number of messages redelivered to consumers"),
)
_QUEUE_GAUGES: Final = (
    ("messages", "messages", "Sum of ready and unacknowledged messages"),
    ("messages_ready", "messages_ready", "Messages ready to be delivered to consumers"),
    ("messages_unacked", "messages_unacknowledged", "Messages delivered to consumers but not yet acknowledged"),
    ("consumers", "consumers", "Consumers on a queue"),
)


@endpoint("GET", "/metrics", "anyone")
def get_metrics(call: ManagementCall) -> object:
    """Return the metrics, those of queues as sums."""
    return _answer(call, is_per_object=False)


@endpoint("GET", "/metrics/per-object", "anyone")
def get_metrics_per_object(call: ManagementCall) -> object:
    """Return the metrics, those of queues by virtual host and queue."""
    return _answer(call, is_per_object=True)


def _answer(call: ManagementCall, *, is_per_object: bool) -> Response:
    with call.engine.looking():
        text = "".join(_printed(_metrics(call, is_per_object=is_per_object)))
    return Response.of_text(text, _CONTENT_TYPE)


def _printed(metrics: Iterable[Metric]) -> Iterator[str]:
    for name, kind, description, values in metrics:
        full_name = f"rabbitmq_{name}"
        yield f"# TYPE {full_name} {kind}\n# HELP {full_name} {description}\n"
        for labels, value in values:
            shown = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels)
            yield f"{full_name}{f'{{{shown}}}' if shown else ''} {value}\n"


def _escaped(text: str) -> str:
    printable = text.encode("utf-8", "replace").decode()
    return printable.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _metrics(call: ManagementCall, *, is_per_object: bool) -> Iterator[Metric]:
    node, version = call.node, call.compat.product_version
    queues = [queue for vhost in node.vhosts.values() for queue in vhost.queues.values()]
    connections = list(clients(node))
    build: Labels = (("rabbitmq_version", version), ("product_name", "RabbitMQ"), ("product_version", version))
    identity: Labels = (("rabbitmq_node", NODE_NAME), ("rabbitmq_cluster", call.node.cluster_name))
    yield _gauge("build_info", "RabbitMQ version info", 1, build)
    yield _gauge("identity_info", "RabbitMQ node & cluster identity info", 1, identity)
    yield _gauge("connections", "Connections currently open", len(connections))
    yield _gauge("channels", "Channels currently open", sum(connection.channel_count for connection in connections))
    yield _gauge("consumers", "Consumers currently connected", sum(len(queue.consumers) for queue in queues))
    yield _gauge("queues", "Queues available", len(queues))
    yield _gauge("process_open_fds", "Open file descriptors", open_files())
    yield _gauge("process_max_fds", "Open file descriptors limit", files_max())
    yield _gauge("process_resident_memory_bytes", "Memory used in bytes", resident_bytes())
    yield _gauge("resident_memory_limit_bytes", "Memory high watermark in bytes", memory_bytes())
    yield _gauge("disk_space_available_bytes", "Disk space available in bytes", disk_free())
    yield _gauge("alarms_memory_used_watermark", "is 1 if the memory alarm is on", int("memory" in node.alarms))
    yield _gauge("alarms_free_disk_space_watermark", "is 1 if the disk alarm is on", int("disk" in node.alarms))
    counts = call.state.statistics.of(*statistics.BROKER)
    for name, counted, description in _COUNTERS:
        yield name, "counter", description, [((), _total(counts, counted))]
    for name, counted, description in _GLOBAL_COUNTERS:
        yield f"global_messages_{name}", "counter", description, [(_PROTOCOL, _total(counts, counted))]
    yield from _of_queues(queues, is_per_object=is_per_object)


def _gauge(name: str, description: str, value: float, labels: Labels = ()) -> Metric:
    return name, "gauge", description, [(labels, value)]


def _total(counts: statistics.Counts, name: str) -> int:
    return counts[name].total if name in counts else 0


def _of_queues(queues: list[StoredQueue], *, is_per_object: bool) -> Iterator[Metric]:
    counted = [
        ((("vhost", queue.vhost.name), ("queue", queue.name)), {**totals(queue), "consumers": len(queue.consumers)})
        for queue in queues
    ]
    for name, key, description in _QUEUE_GAUGES:
        values: list[tuple[Labels, float]] = [(labels, counts[key]) for labels, counts in counted]
        if not is_per_object:
            values = [((), sum(value for _, value in values))]
        yield f"queue_{name}", "gauge", description, values
