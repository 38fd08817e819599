"""The metrics of the broker in Prometheus' text format, under the names of the plugin rabbitmq_prometheus."""

from __future__ import annotations

from leveret.http.management.calls import Call


def get_metrics(call: Call) -> object:
    """Return the metrics."""
    raise NotImplementedError
