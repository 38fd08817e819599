"""The table of routes of the management API: one row for each method of each path.

`who` says who may send the request. The documentation counts the recorded scenarios of each row (see
docs/reference/management.md).
"""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

from leveret.core.compat import ALL, BEFORE_4, BEFORE_4_3, SINCE_4, SINCE_4_3
from leveret.http.management.calls import Answer
from leveret.http.management.endpoints import (
    bindings,
    connections,
    consumers,
    definitions,
    exchanges,
    health,
    messages,
    metrics,
    overview,
    policies,
    queues,
    users,
    vhosts,
)

# Anyone, even without credentials; a user with any of the tags; one who may also open the virtual host of the path; the
# same, or one with the tag monitoring; one with the tag monitoring; one with the tag policymaker, who may also open the
# virtual host; the user of the path; the same, or one with the tag monitoring; an administrator. An administrator may
# always ask.
Who = Literal[
    "anyone", "management", "vhost", "visible", "monitoring", "policymaker", "self", "watched", "administrator"
]


class Endpoint(NamedTuple):
    """One row of the table."""

    method: str
    template: str
    who: Who
    answer: Answer
    # The versions of RabbitMQ that have it.
    versions: tuple[str, ...] = ALL
    # Whether HEAD is allowed where GET is.
    has_head: bool = True
    # Whether a body must be declared as JSON.
    needs_json: bool = False


_QUEUE: Final = "/api/queues/{vhost}/{queue}"
_EXCHANGE: Final = "/api/exchanges/{vhost}/{exchange}"
_BETWEEN: Final = "/api/bindings/{vhost}/e/{exchange}/{kind}/{destination}"
_TOPIC: Final = "/api/topic-permissions/{vhost}/{user}"
_CHECKS: Final = "/api/health/checks"

ENDPOINTS: Final[tuple[Endpoint, ...]] = (
    Endpoint("GET", "/api/overview", "management", overview.get_overview),
    Endpoint("GET", "/api/cluster-name", "management", overview.get_cluster_name),
    Endpoint("PUT", "/api/cluster-name", "administrator", overview.put_cluster_name, needs_json=True),
    Endpoint("GET", "/api/nodes", "monitoring", overview.list_nodes),
    Endpoint("GET", "/api/nodes/{node}", "monitoring", overview.get_node),
    Endpoint("GET", "/api/extensions", "management", overview.list_extensions),
    Endpoint("GET", "/api/version", "anyone", overview.get_version, SINCE_4),
    Endpoint("GET", "/api/whoami", "management", users.who_am_i),
    Endpoint("GET", "/api/auth", "anyone", overview.get_auth, BEFORE_4_3),
    Endpoint("GET", "/api/auth/hash_password/{password}", "administrator", users.hash_password, SINCE_4, False),
    Endpoint("GET", "/api/auth/attempts/{node}", "monitoring", overview.list_attempts),
    Endpoint("DELETE", "/api/auth/attempts/{node}", "monitoring", overview.done_on_node, BEFORE_4_3),
    Endpoint("DELETE", "/api/auth/attempts/{node}", "administrator", overview.done_on_node, SINCE_4_3),
    Endpoint("GET", "/api/feature-flags", "management", overview.list_feature_flags),
    Endpoint("PUT", "/api/feature-flags/{name}/enable", "administrator", overview.enable_feature_flag, needs_json=True),
    Endpoint("GET", "/api/deprecated-features", "management", overview.list_deprecated_features, SINCE_4),
    Endpoint("GET", "/api/deprecated-features/used", "management", overview.nothing, SINCE_4),
    Endpoint("POST", "/api/rebalance/queues", "administrator", overview.done),
    Endpoint("DELETE", "/api/reset", "administrator", overview.done),
    Endpoint("DELETE", "/api/reset/{node}", "administrator", overview.done_on_node),
    Endpoint("GET", "/api/definitions", "administrator", definitions.get_definitions),
    Endpoint("POST", "/api/definitions", "administrator", definitions.post_definitions, needs_json=True),
    Endpoint("GET", "/api/definitions/{vhost}", "administrator", definitions.get_of_vhost),
    Endpoint("POST", "/api/definitions/{vhost}", "administrator", definitions.post_of_vhost, needs_json=True),
    Endpoint("GET", "/api/vhosts", "management", vhosts.list_vhosts),
    Endpoint("GET", "/api/vhosts/{vhost}", "administrator", vhosts.get_vhost),
    Endpoint("PUT", "/api/vhosts/{vhost}", "administrator", vhosts.put_vhost),
    Endpoint("DELETE", "/api/vhosts/{vhost}", "administrator", vhosts.delete_vhost),
    Endpoint("GET", "/api/vhosts/{vhost}/permissions", "administrator", users.list_permissions),
    Endpoint("GET", "/api/vhosts/{vhost}/topic-permissions", "administrator", users.list_topic_permissions),
    Endpoint("GET", "/api/vhosts/{vhost}/connections", "vhost", connections.list_of_vhost),
    Endpoint("GET", "/api/vhosts/{vhost}/channels", "vhost", connections.list_channels_of_vhost),
    Endpoint("POST", "/api/vhosts/{vhost}/start/{node}", "administrator", vhosts.start),
    Endpoint("GET", "/api/vhosts/{vhost}/deletion/protection", "administrator", vhosts.get_vhost, SINCE_4_3, False),
    Endpoint("POST", "/api/vhosts/{vhost}/deletion/protection", "administrator", vhosts.protect, SINCE_4_3),
    Endpoint("DELETE", "/api/vhosts/{vhost}/deletion/protection", "administrator", vhosts.unprotect, SINCE_4_3),
    Endpoint("GET", "/api/vhost-limits", "management", vhosts.list_limits, has_head=False),
    Endpoint("GET", "/api/vhost-limits/{vhost}", "visible", vhosts.list_limits, has_head=False),
    Endpoint("PUT", "/api/vhost-limits/{vhost}/{name}", "administrator", vhosts.put_limit, needs_json=True),
    Endpoint("DELETE", "/api/vhost-limits/{vhost}/{name}", "administrator", vhosts.delete_limit),
    Endpoint("GET", "/api/users", "administrator", users.list_users),
    Endpoint("GET", "/api/users/without-permissions", "administrator", users.list_without_permissions),
    Endpoint("POST", "/api/users/bulk-delete", "administrator", users.delete_users),
    Endpoint("GET", "/api/users/{user}", "administrator", users.get_user),
    Endpoint("PUT", "/api/users/{user}", "administrator", users.put_user),
    Endpoint("DELETE", "/api/users/{user}", "administrator", users.delete_user),
    Endpoint("GET", "/api/users/{user}/permissions", "administrator", users.list_permissions),
    Endpoint("GET", "/api/users/{user}/topic-permissions", "administrator", users.list_topic_permissions),
    Endpoint("GET", "/api/user-limits", "management", users.list_limits, BEFORE_4_3, has_head=False),
    Endpoint("GET", "/api/user-limits", "administrator", users.list_limits, SINCE_4_3, has_head=False),
    Endpoint("GET", "/api/user-limits/{user}", "management", users.list_limits, BEFORE_4_3, has_head=False),
    Endpoint("GET", "/api/user-limits/{user}", "watched", users.list_limits, SINCE_4_3, has_head=False),
    Endpoint("PUT", "/api/user-limits/{user}/{name}", "administrator", users.put_limit, needs_json=True),
    Endpoint("DELETE", "/api/user-limits/{user}/{name}", "administrator", users.delete_limit),
    Endpoint("GET", "/api/permissions", "administrator", users.list_permissions),
    Endpoint("GET", "/api/permissions/{vhost}/{user}", "administrator", users.get_permission),
    Endpoint("PUT", "/api/permissions/{vhost}/{user}", "administrator", users.put_permission),
    Endpoint("DELETE", "/api/permissions/{vhost}/{user}", "administrator", users.delete_permission),
    Endpoint("GET", "/api/topic-permissions", "administrator", users.list_topic_permissions),
    Endpoint("GET", _TOPIC, "administrator", users.get_topic_permissions),
    Endpoint("PUT", _TOPIC, "administrator", users.put_topic_permission),
    Endpoint("DELETE", _TOPIC, "administrator", users.delete_topic_permission),
    Endpoint("GET", f"{_TOPIC}/{{exchange}}", "administrator", users.get_topic_permissions),
    Endpoint("PUT", f"{_TOPIC}/{{exchange}}", "administrator", users.put_topic_permission),
    Endpoint("DELETE", f"{_TOPIC}/{{exchange}}", "administrator", users.delete_topic_permission),
    Endpoint("GET", "/api/policies", "management", policies.list_policies),
    Endpoint("GET", "/api/policies/{vhost}", "vhost", policies.list_policies),
    Endpoint("GET", "/api/policies/{vhost}/{name}", "policymaker", policies.get_policy),
    Endpoint("PUT", "/api/policies/{vhost}/{name}", "policymaker", policies.put_policy),
    Endpoint("DELETE", "/api/policies/{vhost}/{name}", "policymaker", policies.delete_policy),
    Endpoint("GET", "/api/operator-policies", "management", policies.list_operator_policies),
    Endpoint("GET", "/api/operator-policies/{vhost}", "vhost", policies.list_operator_policies),
    Endpoint("GET", "/api/operator-policies/{vhost}/{name}", "administrator", policies.get_operator_policy),
    Endpoint(
        "PUT", "/api/operator-policies/{vhost}/{name}", "administrator", policies.put_operator_policy, needs_json=True
    ),
    Endpoint("DELETE", "/api/operator-policies/{vhost}/{name}", "administrator", policies.delete_operator_policy),
    Endpoint("GET", "/api/parameters", "policymaker", policies.list_parameters),
    Endpoint("GET", "/api/parameters/{component}", "policymaker", policies.list_parameters),
    Endpoint("GET", "/api/parameters/{component}/{vhost}", "policymaker", policies.list_parameters),
    Endpoint("GET", "/api/parameters/{component}/{vhost}/{name}", "policymaker", policies.get_parameter),
    Endpoint("PUT", "/api/parameters/{component}/{vhost}/{name}", "policymaker", policies.put_parameter),
    Endpoint("DELETE", "/api/parameters/{component}/{vhost}/{name}", "policymaker", policies.delete_parameter),
    Endpoint("GET", "/api/global-parameters", "policymaker", policies.list_global_parameters),
    Endpoint("GET", "/api/global-parameters/{name}", "policymaker", policies.get_global_parameter),
    Endpoint("PUT", "/api/global-parameters/{name}", "policymaker", policies.put_global_parameter),
    Endpoint("DELETE", "/api/global-parameters/{name}", "policymaker", policies.delete_global_parameter),
    Endpoint("GET", "/api/exchanges", "management", exchanges.list_exchanges),
    Endpoint("GET", "/api/exchanges/{vhost}", "vhost", exchanges.list_exchanges),
    Endpoint("GET", _EXCHANGE, "vhost", exchanges.get_exchange),
    Endpoint("PUT", _EXCHANGE, "vhost", exchanges.put_exchange),
    Endpoint("DELETE", _EXCHANGE, "vhost", exchanges.delete_exchange),
    Endpoint("POST", f"{_EXCHANGE}/publish", "vhost", messages.publish),
    Endpoint("GET", f"{_EXCHANGE}/bindings/source", "vhost", bindings.list_from_exchange),
    Endpoint("GET", f"{_EXCHANGE}/bindings/destination", "vhost", bindings.list_to_exchange),
    Endpoint("GET", "/api/queues", "management", queues.list_queues),
    Endpoint("GET", "/api/queues/detailed", "management", queues.list_queues, SINCE_4),
    Endpoint("GET", "/api/queues/{vhost}", "vhost", queues.list_queues),
    Endpoint("GET", _QUEUE, "vhost", queues.get_queue),
    Endpoint("PUT", _QUEUE, "vhost", queues.put_queue),
    Endpoint("DELETE", _QUEUE, "vhost", queues.delete_queue),
    Endpoint("DELETE", f"{_QUEUE}/contents", "vhost", queues.purge_queue),
    Endpoint("POST", f"{_QUEUE}/actions", "administrator", queues.post_action),
    Endpoint("POST", f"{_QUEUE}/get", "vhost", messages.get_messages),
    Endpoint("GET", f"{_QUEUE}/bindings", "vhost", bindings.list_of_queue),
    Endpoint("GET", "/api/bindings", "management", bindings.list_bindings),
    Endpoint("GET", "/api/bindings/{vhost}", "vhost", bindings.list_bindings),
    Endpoint("GET", _BETWEEN, "vhost", bindings.list_between),
    Endpoint("POST", _BETWEEN, "vhost", bindings.post_binding),
    Endpoint("GET", f"{_BETWEEN}/{{properties}}", "vhost", bindings.get_binding),
    Endpoint("DELETE", f"{_BETWEEN}/{{properties}}", "vhost", bindings.delete_binding),
    Endpoint("GET", "/api/connections", "management", connections.list_connections),
    Endpoint("GET", "/api/connections/{connection}", "management", connections.get_connection),
    Endpoint("DELETE", "/api/connections/{connection}", "management", connections.delete_connection),
    Endpoint("GET", "/api/connections/{connection}/channels", "management", connections.list_channels_of_connection),
    Endpoint("GET", "/api/connections/username/{user}", "watched", connections.list_of_user),
    Endpoint("DELETE", "/api/connections/username/{user}", "self", connections.delete_of_user),
    Endpoint("GET", "/api/channels", "management", connections.list_channels),
    Endpoint("GET", "/api/channels/{channel}", "management", connections.get_channel),
    Endpoint("GET", "/api/consumers", "management", consumers.list_consumers),
    Endpoint("GET", "/api/consumers/{vhost}", "management", consumers.list_consumers),
    Endpoint("GET", "/api/aliveness-test/{vhost}", "vhost", health.aliveness),
    Endpoint("GET", "/api/healthchecks/node", "management", health.node),
    Endpoint("GET", "/api/healthchecks/node/{node}", "management", health.node),
    Endpoint("GET", f"{_CHECKS}/alarms", "management", health.alarms),
    Endpoint("GET", f"{_CHECKS}/local-alarms", "management", health.local_alarms),
    Endpoint("GET", f"{_CHECKS}/virtual-hosts", "management", health.fine),
    Endpoint("GET", f"{_CHECKS}/node-is-mirror-sync-critical", "management", health.single, BEFORE_4),
    Endpoint("GET", f"{_CHECKS}/node-is-quorum-critical", "management", health.single),
    Endpoint("GET", f"{_CHECKS}/port-listener/{{port}}", "management", health.port),
    Endpoint("GET", f"{_CHECKS}/protocol-listener/{{protocol}}", "management", health.protocol),
    Endpoint("GET", f"{_CHECKS}/certificate-expiration/{{within}}/{{unit}}", "management", health.certificates),
    Endpoint("GET", f"{_CHECKS}/ready-to-serve-clients", "anyone", health.serving, SINCE_4_3),
    Endpoint("GET", f"{_CHECKS}/is-in-service", "anyone", health.in_service, SINCE_4_3),
    Endpoint("GET", f"{_CHECKS}/below-node-connection-limit", "anyone", health.below_limit, SINCE_4_3),
    Endpoint("GET", f"{_CHECKS}/metadata-store/initialized", "management", health.fine, SINCE_4_3),
    Endpoint("GET", f"{_CHECKS}/metadata-store/initialized/with-data", "management", health.fine, SINCE_4_3),
    Endpoint("GET", f"{_CHECKS}/reached-target-cluster-size", "anyone", health.fine, SINCE_4_3),
    Endpoint(
        "GET", f"{_CHECKS}/quorum-queues-without-elected-leaders/all-vhosts", "management", health.fine, SINCE_4_3
    ),
    Endpoint(
        "GET",
        f"{_CHECKS}/quorum-queues-without-elected-leaders/all-vhosts/pattern/{{pattern}}",
        "management",
        health.fine,
        SINCE_4_3,
    ),
    Endpoint(
        "GET", f"{_CHECKS}/quorum-queues-without-elected-leaders/vhost/{{vhost}}", "visible", health.fine, SINCE_4_3
    ),
    Endpoint(
        "GET",
        f"{_CHECKS}/quorum-queues-without-elected-leaders/vhost/{{vhost}}/pattern/{{pattern}}",
        "visible",
        health.fine,
        SINCE_4_3,
    ),
    Endpoint("GET", "/metrics", "anyone", metrics.get_metrics),
    Endpoint("GET", "/metrics/per-object", "anyone", metrics.get_metrics_per_object),
)


def endpoints_of(version: str) -> list[Endpoint]:
    """Return the rows that a version of RabbitMQ has."""
    return [row for row in ENDPOINTS if version in row.versions]
