"""The broker as a whole: overview, nodes, names, feature flags."""

from __future__ import annotations

from ..scenario import Run, scenario

# Depend on what else the server has done.
_SHARED = ("queue_totals", "churn_rates", "message_stats", "object_totals", "exchange_types")
# The server has plugins that leveret has no part of.
_TYPES = ("exchange_types",)


@scenario
def the_overview(s: Run) -> None:
    s.get("/overview", without=_SHARED)


@scenario
def the_overview_counts_what_a_user_sees(s: Run) -> None:
    s.add_user("alice", "management")
    s.put(f"/queues/{s.v}/q", {"durable": True})
    s.put(f"/exchanges/{s.v}/x", {"durable": True})
    s.get("/overview", user="alice", without=("exchange_types", "queue_totals", "message_stats"))


@scenario
def the_overview_without_statistics(s: Run) -> None:
    s.get("/overview?disable_stats=true", without=_SHARED)
    s.get("/overview?disable_stats=true&enable_queue_totals=true", without=_SHARED)


@scenario
def the_nodes(s: Run) -> None:
    nodes = s.get("/nodes", without=_TYPES)
    assert isinstance(nodes, list)
    s.get(f"/nodes/{nodes[0]['name']}", without=_TYPES)
    s.get(f"/nodes/{nodes[0]['name']}?columns=name,type,running")
    s.get(f"/nodes/{nodes[0]['name']}?memory=true&columns=name")


@scenario(versions=("4.3", "4.0"))
def an_unknown_node(s: Run) -> None:
    s.get("/nodes/nothing")


@scenario
def names_and_versions(s: Run) -> None:
    s.get("/whoami")
    s.get("/version")
    s.get("/auth")
    s.put("/cluster-name", {})


@scenario
def feature_flags(s: Run) -> None:
    s.get("/feature-flags?columns=name,state&sort=name")
    s.put("/feature-flags/quorum_queue/enable", {"name": "quorum_queue"})
    s.put("/feature-flags/nothing/enable", {"name": "nothing"})


@scenario
def deprecated_features(s: Run) -> None:
    s.get("/deprecated-features?columns=name,deprecation_phase,state,provided_by")
    # Depends on what else the server has done.
    s.get("/deprecated-features/used", mine=True)


@scenario
def what_needs_a_plugin_or_a_cluster(s: Run) -> None:
    for path in ("federation-links", "shovels", "stream/connections", "auth/attempts/node", "cluster/tags"):
        s.get(f"/{path}")
    s.post("/rebalance/queues")
    s.get(f"/quorum/queues/{s.v}/q/status")


@scenario
def extensions(s: Run) -> None:
    found = s.get("/extensions", hidden=True)
    assert isinstance(found, list)
    # The others belong to plugins.
    s.answers.append(["GET /extensions", found[0]])


@scenario
def failed_logins_of_a_node(s: Run) -> None:
    s.get("/auth/attempts/nothing")
    s.delete("/auth/attempts/nothing")


@scenario
def hashing_a_password(s: Run) -> None:
    s.get("/auth/hash_password/secret", without=("ok",))
