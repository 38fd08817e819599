"""Policies, operator policies and parameters."""

from __future__ import annotations

from urllib.parse import quote

from ..scenario import Run, scenario


@scenario
def policies(s: Run) -> None:
    s.get(f"/policies/{s.v}")
    s.put(f"/policies/{s.v}/p", {"pattern": "^q", "definition": {"max-length": 5}})
    s.get(f"/policies/{s.v}/p")
    s.put(f"/policies/{s.v}/p", {"pattern": "^q", "definition": {"max-length": 6}, "priority": 3, "apply-to": "queues"})
    s.put(f"/policies/{s.v}/o", {"pattern": "", "definition": {"message-ttl": 1000}})
    s.get(f"/policies/{s.v}")
    s.get("/policies", mine=True)
    s.get(f"/policies/{s.v}/nothing")
    s.delete(f"/policies/{s.v}/p")
    s.delete(f"/policies/{s.v}/p")
    s.get(f"/policies/{s.v}?columns=name")
    s.get("/policies/nothing")
    s.put("/policies/nothing/p", {"pattern": "^q", "definition": {"max-length": 5}})


@scenario
def wrong_policies(s: Run) -> None:
    s.put(f"/policies/{s.v}/p", {})
    s.put(f"/policies/{s.v}/p", {"pattern": "^q"})
    s.put(f"/policies/{s.v}/p", {"pattern": "^q", "definition": {}})
    s.put(f"/policies/{s.v}/p", {"pattern": "^q", "definition": {"nonsense": 1}})
    s.put(f"/policies/{s.v}/p", {"pattern": "^q", "definition": {"max-length": "x"}})
    s.put(f"/policies/{s.v}/p", {"pattern": "^q", "definition": {"max-length": 1}, "priority": "x"})
    s.put(f"/policies/{s.v}/p", {"pattern": 5, "definition": {"max-length": 1}})
    s.put(f"/policies/{s.v}/p", {"pattern": "^q", "definition": {"max-length": 1}, "unknown": 1})
    s.get(f"/policies/{s.v}?columns=name")


@scenario
def operator_policies(s: Run) -> None:
    s.get(f"/operator-policies/{s.v}")
    s.put(f"/operator-policies/{s.v}/p", {"pattern": "^q", "definition": {"max-length": 5}})
    s.get(f"/operator-policies/{s.v}/p")
    s.get(f"/operator-policies/{s.v}")
    s.get("/operator-policies", mine=True)
    s.put(f"/operator-policies/{s.v}/p", {"pattern": "^q", "definition": {"max-length": 6}, "priority": 2})
    s.put(f"/operator-policies/{s.v}/x", {"pattern": "^q", "definition": {"dead-letter-exchange": "x"}})
    s.get(f"/parameters/operator_policy/{s.v}")
    s.delete(f"/operator-policies/{s.v}/p")
    s.delete(f"/operator-policies/{s.v}/p")


@scenario
def a_queue_shows_its_policies(s: Run) -> None:
    s.put(f"/policies/{s.v}/ours", {"pattern": "", "definition": {"max-length": 5, "message-ttl": 9}})
    s.put(f"/operator-policies/{s.v}/theirs", {"pattern": "", "definition": {"max-length": 3}})
    s.put(f"/queues/{s.v}/q", {"durable": True})
    s.put(f"/exchanges/{s.v}/x", {"durable": True})
    keys = "columns=name,policy,operator_policy,effective_policy_definition"
    s.get(f"/queues/{s.v}/q?{keys}", until={"policy": "ours"})
    s.get(f"/exchanges/{s.v}/x?{keys}")


@scenario
def parameters(s: Run) -> None:
    s.get(f"/parameters/nothing/{s.v}")
    s.get("/parameters/nothing")
    s.get(f"/parameters/nothing/{s.v}/x")
    s.put(f"/parameters/nothing/{s.v}/x", {"value": 1})
    s.put(f"/parameters/vhost-limits/{s.v}/limits", {"value": {"max-queues": 3}})
    s.put(f"/parameters/vhost-limits/{s.v}/limits", {"value": {"max-queues": 4}})
    s.get(f"/parameters/vhost-limits/{s.v}/limits")
    s.get("/parameters/vhost-limits", mine=True)
    s.get("/parameters", mine=True)
    s.put(f"/parameters/vhost-limits/{s.v}/limits", {})
    s.put("/parameters/vhost-limits/nothing/limits", {"value": {"max-queues": 3}})
    s.get("/parameters/vhost-limits/nothing/limits")
    s.delete(f"/parameters/vhost-limits/{s.v}/limits")
    s.delete(f"/parameters/vhost-limits/{s.v}/limits")
    s.get(f"/parameters/vhost-limits/{s.v}/limits")


@scenario
def global_parameters(s: Run) -> None:
    name = f"p.{s.vhost}"
    s.put(f"/global-parameters/{name}", {"name": name, "value": {"a": 1}})
    s.get(f"/global-parameters/{name}")
    s.put(f"/global-parameters/{name}", {"name": name, "value": "text"})
    s.get("/global-parameters", mine=True)
    s.put(f"/global-parameters/{name}", {})
    s.delete(f"/global-parameters/{name}")
    s.delete(f"/global-parameters/{name}")
    s.get(f"/global-parameters/{name}")


@scenario
def targets_of_one_queue_type(s: Run) -> None:
    for target in ("classic_queues", "quorum_queues", "streams"):
        s.put(f"/policies/{s.v}/p", {"pattern": "^q", "definition": {"max-length": 1}, "apply-to": target})


@scenario
def a_wrong_target(s: Run) -> None:
    s.put(f"/policies/{s.v}/p", {"pattern": "^q", "definition": {"max-length": 1}, "apply-to": "x"})


@scenario
def patterns_are_matched_byte_by_byte(s: Run) -> None:
    for name in ("é", "É", "٣", "7", "a.b", "order"):
        s.put(f"/exchanges/{s.v}/{quote(name)}", {"type": "direct"})
    definition = {"alternate-exchange": "x"}
    for pattern in (
        r"^.$",
        r"^..$",
        r"\d",
        r"\w$",
        "(?i)é",
        "[[:alpha:]]",
        r"^\Qa.\E",
        r"a(?i)\.B",
        r"\x{61}",
        "r{,2}$",
    ):
        s.put(f"/policies/{s.v}/p", {"pattern": pattern, "definition": definition, "apply-to": "exchanges"})
        s.get(f"/exchanges/{s.v}?columns=name,policy")


@scenario
def patterns_that_are_no_patterns(s: Run) -> None:
    for pattern in ("(", "a)", "[a", "*a", "a**", "a\\", "[z-a]", "a{2,1}", "(a)\\2", "[[:no:]]"):
        s.put(f"/policies/{s.v}/p", {"pattern": pattern, "definition": {"max-length": 1}})


@scenario
def a_list_finds_names_byte_by_byte(s: Run) -> None:
    for name in ("é", "É", "٣", "7", "a.b"):
        s.put(f"/exchanges/{s.v}/{quote(name)}", {"type": "direct"})
    for pattern in (r"^.$", r"^..$", r"\d", r"\w$", "é", "[[:alpha:]]b$", r"^\QA.\E"):
        s.get(f"/exchanges/{s.v}?name={quote(pattern)}&use_regex=true&page=1&columns=name")


@scenario
def keys_of_policies(s: Run) -> None:
    for key, values in {
        "delayed-retry-type": ("all", 5),
        "delayed-retry-min": (1000,),
        "delayed-retry-max": (1000,),
        "consumer-disconnected-timeout": (1000,),
        "consumer-timeout": (1000, "x"),
        "stream-filter-size-bytes": (32, 300),
        "target-group-size": (3, 0),
        "queue-master-locator": ("client-local", "min-masters", "balanced", "nowhere", 5),
        "queue-leader-locator": ("balanced", "client-local", "min-masters", "random", "least-leaders"),
        "queue-version": (1, 2),
        "queue-mode": ("lazy",),
        "overflow": ("drop-head",),
        "max-in-memory-length": (5,),
        "max-in-memory-bytes": (5,),
        "delivery-limit": (3, -1),
        "dead-letter-strategy": ("at-most-once",),
        "max-age": ("1D", "0D"),
        "stream-max-segment-size-bytes": (1000,),
        "initial-cluster-size": (1,),
        "expires": (1000,),
        "message-ttl": (1000,),
        "max-length": (1,),
        "max-length-bytes": (1,),
        "alternate-exchange": ("x",),
        "dead-letter-exchange": ("x",),
        "max-priority": (5,),
    }.items():
        for value in values:
            s.put(f"/policies/{s.v}/p", {"pattern": "^q", "definition": {key: value}})
            s.put(f"/operator-policies/{s.v}/p", {"pattern": "^q", "definition": {key: value}, "priority": 0})


@scenario
def policies_in_the_order_of_their_priority(s: Run) -> None:
    for kind in ("policies", "operator-policies"):
        for name, priority in (("a", 3), ("b", -3), ("c", 0), ("d", 1.5), ("e", 10)):
            body = {"pattern": "^q", "definition": {"max-length": 5}, "priority": priority}
            s.put(f"/{kind}/{s.v}/{name}", body)
        for query in ("", "&sort=name", "&sort_reverse=true", "&page=1&page_size=2"):
            s.get(f"/{kind}/{s.v}?columns=name,priority{query}")


@scenario
def deleting_what_does_not_exist(s: Run) -> None:
    s.delete(f"/global-parameters/{s.v}")
    s.delete(f"/vhost-limits/{s.v}/max-queues")


@scenario(versions=("4.3", "4.0"))
def deleting_a_limit_of_nobody(s: Run) -> None:
    s.delete("/vhost-limits/nothing/max-queues")
    s.delete(f"/user-limits/{s.user('nobody')}/max-channels")


@scenario
def parameters_that_are_set_directly(s: Run) -> None:
    policy = {"pattern": "a", "definition": {"max-length": 1}, "priority": 0, "apply-to": "all"}
    for value in (policy, {**policy, "priority": 3}, {}, 5, "x", None, {"pattern": "a"}, {**policy, "priority": "x"}):
        for component in ("policy", "operator_policy", "nonsense"):
            s.put(f"/parameters/{component}/{s.v}/p", {"value": value})
    s.get(f"/parameters/operator_policy/{s.v}")
    s.get(f"/operator-policies/{s.v}")
    s.delete(f"/parameters/operator_policy/{s.v}/p")
    for value in (5, "x", True, policy, {"b": 1, "a": 2}, {"max-queues": "x"}):
        s.put(f"/parameters/vhost-limits/{s.v}/other", {"value": value})
    s.get(f"/vhost-limits/{s.v}")


@scenario
def policies_are_parameters_of_a_component(s: Run) -> None:
    s.put(f"/policies/{s.v}/p", {"pattern": "^q", "definition": {"max-length": 5}, "priority": 1})
    s.put(f"/operator-policies/{s.v}/o", {"pattern": "^q", "definition": {"max-length": 3}})
    s.get("/parameters", mine=True)
    s.get("/parameters/policy", mine=True)
    s.get(f"/parameters/policy/{s.v}")
    s.get(f"/parameters/policy/{s.v}/p")
    s.get(f"/parameters/policy/{s.v}/o")
    s.delete(f"/parameters/policy/{s.v}/p")
    s.get(f"/policies/{s.v}?columns=name")


@scenario
def unknown_keys_on_several_lines(s: Run) -> None:
    for number in (27, 28, 29):
        definition = {"mode": "exactly", "parameters": 2, "x" * number: "automatic"}
        s.put(f"/policies/{s.v}/p", {"pattern": "^q", "definition": definition})
