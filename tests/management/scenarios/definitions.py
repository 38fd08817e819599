"""Definitions, out and in."""

from __future__ import annotations

from ..scenario import Run, scenario

_SHARED = ("cluster_name", "original_cluster_name", "explanation")

_QUEUE = {"name": "q", "durable": True, "auto_delete": False, "arguments": {}}
_EXCHANGE = {"name": "x", "type": "fanout", "durable": True, "auto_delete": False, "internal": False, "arguments": {}}


@scenario
def of_a_virtual_host(s: Run) -> None:
    s.get(f"/definitions/{s.v}", unordered=True)
    s.put(f"/queues/{s.v}/q", {"durable": True, "arguments": {"x-max-length": 3}})
    s.put(f"/queues/{s.v}/transient", {"durable": False})
    s.put(f"/exchanges/{s.v}/x", {"durable": True, "type": "topic"})
    s.post(f"/bindings/{s.v}/e/x/q/q", {"routing_key": "k", "arguments": {"a": 1}})
    s.put(f"/policies/{s.v}/p", {"pattern": "", "definition": {"max-length": 9}})
    s.put(f"/operator-policies/{s.v}/o", {"pattern": "", "definition": {"max-length": 8}})
    s.put(f"/vhost-limits/{s.v}/max-queues", {"value": 9})
    s.get(f"/definitions/{s.v}", unordered=True)
    s.get(f"/definitions/{s.v}?download=x.json", unordered=True)
    s.get("/definitions/nothing")


@scenario
def into_a_virtual_host(s: Run) -> None:
    definitions = {
        "queues": [{"name": "q", "durable": True, "auto_delete": False, "arguments": {}}],
        "exchanges": [
            {"name": "x", "type": "fanout", "durable": True, "auto_delete": False, "internal": False, "arguments": {}}
        ],
        "bindings": [
            {"source": "x", "destination": "q", "destination_type": "queue", "routing_key": "", "arguments": {}}
        ],
        "policies": [{"name": "p", "pattern": "", "definition": {"max-length": 3}, "priority": 0, "apply-to": "all"}],
    }
    s.post(f"/definitions/{s.v}", definitions)
    s.get(f"/bindings/{s.v}/e/x/q/q")
    s.get(f"/policies/{s.v}")
    s.post(f"/definitions/{s.v}", definitions)
    s.post(f"/definitions/{s.v}", {})
    s.post("/definitions/nothing", definitions)


@scenario
def into_the_broker(s: Run) -> None:
    name = s.add_user("alice", vhost=False)
    made = s.further_vhost("made")
    definitions = {
        "users": [
            {
                "name": name,
                "password_hash": "kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR",
                "hashing_algorithm": "rabbit_password_hashing_sha256",
                "tags": "management",
            }
        ],
        "vhosts": [{"name": made}],
        "permissions": [{"user": name, "vhost": made, "configure": ".*", "write": ".*", "read": ".*"}],
        "topic_permissions": [{"user": name, "vhost": made, "exchange": "amq.topic", "write": "^a", "read": "^b"}],
        "queues": [{"name": "q", "vhost": made, "durable": True, "auto_delete": False, "arguments": {}}],
    }
    s.post("/definitions", definitions)
    s.get("/whoami", user="alice", password="test12")
    s.get(f"/permissions/{made}/{name}")
    s.get(f"/topic-permissions/{made}/{name}")
    s.get(f"/queues/{made}?columns=name")


@scenario
def as_a_form(s: Run) -> None:
    text = '{"queues": [{"name": "q", "durable": true, "auto_delete": false, "arguments": {}}]}'
    head = 'Content-Disposition: form-data; name="file"; filename="d.json"\r\nContent-Type: application/json'
    body = f"--b\r\n{head}\r\n\r\n{text}\r\n--b--\r\n"
    s.post(f"/definitions/{s.v}", body, headers={"content-type": "multipart/form-data; boundary=b"})
    s.get(f"/queues/{s.v}?columns=name")


@scenario
def wrong_definitions(s: Run) -> None:
    s.post(f"/definitions/{s.v}", "nonsense")
    s.post(
        f"/definitions/{s.v}",
        {"policies": [{"name": "p", "pattern": "", "definition": {"nonsense": 3}, "priority": 0, "apply-to": "all"}]},
        without=("reason",),
    )


@scenario
def more_queues_than_the_limit(s: Run) -> None:
    s.put(f"/vhost-limits/{s.v}/max-queues", {"value": 2})
    first, second, third = ({**_QUEUE, "name": name} for name in ("first", "second", "third"))
    s.post(f"/definitions/{s.v}", {"exchanges": [_EXCHANGE], "queues": [first, second, third]})
    s.get(f"/queues/{s.v}?columns=name")
    s.post(f"/definitions/{s.v}", {"queues": [first, second]})
    s.post(f"/definitions/{s.v}", {"exchanges": [_EXCHANGE], "queues": [first, third]})
    s.get(f"/exchanges/{s.v}/x?columns=name")
    whole = [{**each, "vhost": s.vhost} for each in (second, third)]
    # 3.10 writes the text of this one as a list of numbers.
    s.post("/definitions", {"exchanges": [{**_EXCHANGE, "vhost": s.vhost}], "queues": whole}, without=("reason",))
    s.get(f"/exchanges/{s.v}/x?columns=name")
    s.put(f"/vhost-limits/{s.v}/max-queues", {"value": 1})
    s.post(f"/definitions/{s.v}", {"exchanges": [_EXCHANGE], "queues": [first, second]})
    s.get(f"/queues/{s.v}?columns=name")


@scenario
def arguments_that_are_null(s: Run) -> None:
    given = ({"x": None}, {"x-max-length": None}, {"x": [1, None]}, {"x": {"y": None}})
    for arguments in given:
        s.post(f"/definitions/{s.v}", {"queues": [{**_QUEUE, "arguments": arguments}]}, without=("reason",))
        s.post(f"/definitions/{s.v}", {"exchanges": [{**_EXCHANGE, "arguments": arguments}]}, without=("reason",))
    s.get(f"/queues/{s.v}?columns=name")
    s.get(f"/exchanges/{s.v}/x?columns=name")
    s.post(f"/definitions/{s.v}", {"queues": [_QUEUE]})
    binding = {"source": "amq.fanout", "destination": "q", "destination_type": "queue", "routing_key": ""}
    s.post(f"/definitions/{s.v}", {"bindings": [{**binding, "arguments": {"a": None}}]}, without=("reason",))
    s.get(f"/queues/{s.v}/q/bindings?columns=source")


@scenario
def policies_without_a_priority(s: Run) -> None:
    policy = {"pattern": "", "definition": {"max-length": 3}, "apply-to": "all"}
    s.post(f"/definitions/{s.v}", {"policies": [{"name": "p", **policy}]})
    operator = {"component": "operator_policy", "name": "o"}
    s.post(f"/definitions/{s.v}", {"parameters": [{**operator, "value": policy}]}, without=("reason",))
    s.get(f"/policies/{s.v}")
    s.get(f"/operator-policies/{s.v}")
    s.post(f"/definitions/{s.v}", {"parameters": [{**operator, "value": {**policy, "priority": 1}}]})
    s.get(f"/operator-policies/{s.v}")


@scenario
def who_declared_what_was_imported(s: Run) -> None:
    s.add_user("alice", "administrator")
    s.put(f"/exchanges/{s.v}/old", {"durable": True, "type": "fanout"})
    exchanges = [{**_EXCHANGE, "name": name} for name in ("old", "new")]
    s.post(f"/definitions/{s.v}", {"exchanges": exchanges}, user="alice")
    s.post("/definitions", {"exchanges": [{**_EXCHANGE, "vhost": s.vhost}]}, user="alice")
    for name in ("old", "new", "x"):
        s.get(f"/exchanges/{s.v}/{name}?columns=name,user_who_performed_action")


@scenario
def the_keys_of_the_whole(s: Run) -> None:
    found = s.get("/definitions", hidden=True)
    assert isinstance(found, dict)
    s.answers.append(sorted(found))


@scenario
def of_internal_and_transient_objects(s: Run) -> None:
    s.put(f"/exchanges/{s.v}/internal", {"durable": True, "internal": True})
    s.put(f"/exchanges/{s.v}/transient", {"durable": False})
    s.put(f"/queues/{s.v}/durable", {"durable": True})
    s.put(f"/queues/{s.v}/transient", {"durable": False})
    ends = ("internal/q/durable", "transient/e/internal", "transient/q/transient", "internal/e/transient")
    for path in ends:
        s.post(f"/bindings/{s.v}/e/{path}", {})
    s.get(f"/definitions/{s.v}", unordered=True)
    whole = s.get("/definitions", hidden=True)
    assert isinstance(whole, dict)
    for section in ("queues", "exchanges", "bindings"):
        own = [item for item in whole[section] if item["vhost"] == s.vhost]
        s.answers.append(sorted(sorted(str(value) for value in item.values() if value != s.vhost) for item in own))


@scenario
def of_another_virtual_host(s: Run) -> None:
    other = s.further_vhost("other")
    definitions = {
        "users": [{"name": s.user("nobody"), "password": "x", "tags": ""}],
        "vhosts": [{"name": s.user("nowhere")}],
        "permissions": [{"user": "nobody", "vhost": "nowhere", "configure": "", "write": "", "read": ""}],
        "topic_permissions": [{"user": "nobody", "vhost": "x", "exchange": "x", "write": "", "read": ""}],
        "global_parameters": [{"name": s.user("nothing"), "value": 1}],
        "exchanges": [{**_EXCHANGE, "vhost": other}],
        "queues": [{**_QUEUE, "vhost": "nowhere"}],
        "bindings": [
            {"source": "x", "destination": "q", "destination_type": "queue", "routing_key": "k", "vhost": other}
        ],
        "policies": [{"name": "p", "pattern": "", "definition": {"max-length": 3}, "priority": 1, "vhost": "*"}],
        "parameters": [
            {"component": "vhost-limits", "name": "limits", "value": {"max-queues": 9}, "vhost": other},
            {
                "component": "operator_policy",
                "name": "o",
                "vhost": "nowhere",
                "value": {"pattern": "", "definition": {"expires": 90000}, "priority": 0, "apply-to": "queues"},
            },
        ],
    }
    s.post(f"/definitions/{s.v}", definitions)
    for vhost in (s.v, other):
        s.get(f"/definitions/{vhost}", unordered=True)
    s.get("/users", mine=True)
    s.get(f"/vhosts/{s.user('nowhere')}")
    s.get("/global-parameters", mine=True)


@scenario
def sections_that_hold_something_else(s: Run) -> None:
    sections = ("users", "vhosts", "permissions", "topic_permissions", "global_parameters", "nonsense")
    for name in sections:
        for value in (None, 5, "x", True, {}, [1, "x", None]):
            s.post(f"/definitions/{s.v}", {name: value})
    for name in ("exchanges", "queues", "bindings", "policies", "parameters"):
        s.post(f"/definitions/{s.v}", {name: [1, "x", None, []]})


@scenario(versions=("4.3",))
def texts_about_wrong_definitions(s: Run) -> None:
    own = {"vhost": s.vhost}
    binding = {"source": "x", "destination": "q", "destination_type": "queue", "routing_key": "", "arguments": {}}
    policy = {"name": "p", "pattern": "", "definition": {"max-length": 3}, "priority": 0, "apply-to": "all"}
    operator = {"pattern": "", "definition": {"nonsense": 3}, "priority": 0, "apply-to": "queues"}
    missing = {"vhost": "nothing"}
    rights = {"configure": "", "write": "", "read": ""}
    for definitions in (
        *({"queues": [{**_QUEUE, **missing}]}, {"exchanges": [{**_EXCHANGE, **missing}]}),
        {"policies": [{**policy, **missing}]},
        {"permissions": [{"user": "guest", **missing, **rights}]},
        {"permissions": [{"user": "nobody", **own, **rights}]},
        {"topic_permissions": [{"user": "guest", **missing, "exchange": "x", **rights}]},
        {"topic_permissions": [{"user": "guest", **own, "exchange": "nothing", **rights}]},
        {"parameters": [{"component": "shovel", "name": "s", "value": {}, **own}]},
        {"parameters": [{"component": "vhost-limits", "name": "limits", "value": {"max-queue": 5}, **own}]},
        {"parameters": [{"component": "vhost-limits", "name": "limits", "value": {"max-queues": "x"}, **own}]},
        {"parameters": [{"component": "operator_policy", "name": "o", "value": operator, **own}]},
        *({"policies": [{**policy, "pattern": it, **own}]} for it in (None, 5, True, [], {}, 1.5)),
        *({"policies": [{**policy, "priority": it, **own}]} for it in (None, "x", True, [], {})),
        *({"policies": [{**policy, "apply-to": it, **own}]} for it in (None, "x", True, [])),
        *({"policies": [{**policy, "definition": it, **own}]} for it in ({}, [], {"a": 5}, {"max-length": -3})),
        *({"exchanges": [{**_EXCHANGE, "type": it, **own}]} for it in ("no-such-type",)),
        {"queues": [{**_QUEUE, "arguments": {"x-max-length": -1}, **own}]},
        {"queues": [{**_QUEUE, "arguments": {"x-queue-type": "nonsense"}, **own}]},
        {"queues": [{**_QUEUE, "arguments": {"x": None}, **own}]},
        {"queues": [{**_QUEUE, **own}], "exchanges": [{**_EXCHANGE, **own}], "bindings": [{**binding, **own}]},
        {"bindings": [{**binding, "source": "n", **own}]},
        {"bindings": [{**binding, "destination": "nothing", **own}]},
        {"bindings": [{**binding, "source": "n", "destination": "nothing", **own}]},
        {"bindings": [{**binding, "source": "", "destination": "nothing", **own}]},
    ):
        s.post("/definitions", definitions)
    s.get(f"/definitions/{s.v}", unordered=True)


@scenario
def queues_that_no_client_may_declare(s: Run) -> None:
    quorum = {"x-queue-type": "quorum"}
    queues = [
        {**_QUEUE, "name": "auto", "auto_delete": True, "arguments": quorum},
        {**_QUEUE, "name": "typed", "type": "nonsense"},
        {**_QUEUE, "name": "quorum", "type": "quorum"},
        {**_QUEUE, "name": "amq.named"},
    ]
    s.post(f"/definitions/{s.v}", {"queues": queues})
    s.get(f"/queues/{s.v}?disable_stats=true&columns=name,type,arguments")


@scenario
def bindings_to_what_was_left_out(s: Run) -> None:
    queue = {**_QUEUE, "auto_delete": True, "arguments": {"x-queue-type": "quorum"}}
    binding = {"source": "amq.fanout", "destination": "q", "destination_type": "queue", "routing_key": ""}
    s.post(f"/definitions/{s.v}", {"queues": [queue], "bindings": [{**binding, "arguments": {}}]}, without=("reason",))
    s.get(f"/bindings/{s.v}")


@scenario
def descriptions_and_tags_that_are_null(s: Run) -> None:
    name = s.further_vhost("made")
    s.delete(f"/vhosts/{name}")
    for metadata in ({"description": None}, {"description": "text", "tags": ["a", "b"]}, {"description": ""}):
        s.post("/definitions", {"vhosts": [{"name": name, "limits": [], "metadata": metadata}]})
        s.get(f"/vhosts/{name}?columns=description,tags")


@scenario(versions=("4.3",))
def virtual_hosts_with_metadata(s: Run) -> None:
    name = s.further_vhost("made")
    for values in (
        {"metadata": {"default_queue_type": "quorum", "description": "a", "tags": ["b"]}},
        {"description": "c", "tags": ["d"], "metadata": {"description": "e", "tags": ["f"]}},
        {"description": "c", "tags": "d, e", "metadata": {}},
        *({"metadata": {"default_queue_type": it}} for it in ("undefined", "", None, "stream", "rabbit_quorum_queue")),
        *({"metadata": {"default_queue_type": it}} for it in ("nonsense", True, "Quorum")),
        {"limits": {"max-queues": 3}, "metadata": {"nonsense": 1}},
    ):
        s.post("/definitions", {"vhosts": [{"name": name, **values}]})
        s.get(f"/vhosts/{name}?columns=default_queue_type,description,tags,metadata")
    s.get(f"/vhost-limits/{name}")


@scenario
def global_parameters_of_the_broker(s: Run) -> None:
    names = (s.user("object"), s.user("empty"), s.user("text"))
    values = ({"a": {"b": 1}}, {}, "x")
    parameters = [{"name": name, "value": value} for name, value in zip(names, values, strict=True)]
    s.post("/definitions", {"global_parameters": parameters})
    whole = s.get("/definitions", hidden=True)
    assert isinstance(whole, dict)
    s.answers.append(sorted(it["name"].split(".")[0] for it in whole["global_parameters"] if it["name"] in names))
    for name in names:
        s.get(f"/global-parameters/{name}")
        s.delete(f"/global-parameters/{name}")


@scenario
def new_virtual_hosts_and_who_may_open_them(s: Run) -> None:
    name = s.further_vhost("made")
    s.delete(f"/vhosts/{name}")
    s.add_user("alice", "administrator", vhost=False)
    s.post("/definitions", {"vhosts": [{"name": name}]}, user="alice")
    s.get(f"/vhosts/{name}/permissions")


@scenario(versions=("4.3",))
def protected_virtual_hosts(s: Run) -> None:
    name = s.further_vhost("made")
    s.post("/definitions", {"vhosts": [{"name": name, "metadata": {"protected_from_deletion": True}}]})
    s.get(f"/vhosts/{name}?columns=metadata,protected_from_deletion")
    s.delete(f"/vhosts/{name}")
    s.delete(f"/vhosts/{name}/deletion/protection")
    s.get(f"/vhosts/{name}?columns=metadata,protected_from_deletion")


@scenario
def objects_of_a_virtual_host_that_does_not_exist(s: Run) -> None:
    missing = {"vhost": "nothing"}
    binding = {"source": "x", "destination": "q", "destination_type": "queue", "routing_key": "", "arguments": {}}
    policy = {"name": "p", "pattern": "", "definition": {"max-length": 3}, "priority": 0, "apply-to": "all"}
    for section, item in (("queues", _QUEUE), ("exchanges", _EXCHANGE), ("bindings", binding), ("policies", policy)):
        s.post("/definitions", {section: [{**item, **missing}]})
    s.post("/definitions", {"parameters": [{"component": "policy", "name": "p", "value": {}, **missing}]})


@scenario
def parameters_that_are_none(s: Run) -> None:
    policy = {"pattern": "a", "definition": {"max-length": 1}}
    for component, name, value in (
        *(("policy", "p", policy), ("policy", "p", 5), ("operator_policy", "o", policy), ("operator_policy", "o", {})),
        *(("vhost-limits", "other", policy), ("vhost-limits", "limits", {"b": 1}), ("vhost-limits", "limits", 5)),
        ("nonsense", "n", 1),
    ):
        item = {"component": component, "name": name, "value": value}
        s.post("/definitions", {"parameters": [{**item, "vhost": s.vhost}]})
        s.post(f"/definitions/{s.v}", {"parameters": [item]})


@scenario
def rights_with_wrong_values(s: Run) -> None:
    name, rights = s.add_user("alice"), {"configure": "", "write": "", "read": "("}
    permission = {"user": name, "vhost": s.vhost, **rights}
    s.post("/definitions", {"permissions": [permission]})
    s.post("/definitions", {"permissions": [{**permission, "user": "nobody"}]})
    s.post("/definitions", {"permissions": [{**permission, "vhost": "nothing"}]})
    s.post("/definitions", {"topic_permissions": [{**permission, "exchange": "amq.topic"}]})
    for pattern in ("(", "*", "[", "é("):
        s.put(f"/permissions/{s.v}/{name}", {**rights, "read": pattern})
        s.put(f"/topic-permissions/{s.v}/{name}", {"exchange": "amq.topic", "write": "", "read": pattern})
    s.post("/definitions", {"users": [{"name": s.user("bob"), "password_hash": "!!", "tags": ""}]})


@scenario
def users_without_tags(s: Run) -> None:
    s.post("/definitions", {"users": [{"name": s.user("bob"), "password": "x"}]})
    s.get(f"/users/{s.user('bob')}")


@scenario
def virtual_hosts_that_are_traced(s: Run) -> None:
    name = s.further_vhost("made")
    for tracing in (True, False, True):
        s.post("/definitions", {"vhosts": [{"name": name, "tracing": tracing}]})
        s.get(f"/vhosts/{name}?columns=tracing")
    s.post("/definitions", {"vhosts": [{"name": name}]})
    s.get(f"/vhosts/{name}?columns=tracing")


@scenario
def virtual_hosts_in_the_definitions_of_a_broker(s: Run) -> None:
    s.put(f"/vhost-limits/{s.v}/max-queues", {"value": 9})
    whole = s.get("/definitions", hidden=True)
    assert isinstance(whole, dict)
    s.answers.append([{**it, "name": ""} for it in whole["vhosts"] if it["name"] == s.vhost])


@scenario
def a_dead_letter_exchange_of_a_wrong_type(s: Run) -> None:
    for value in (5, True, ["x"]):
        s.post(f"/definitions/{s.v}", {"queues": [{**_QUEUE, "arguments": {"x-dead-letter-exchange": value}}]})


@scenario(versions=("4.3",))
def queues_and_exchanges_without_flags(s: Run) -> None:
    for flag in ("durable", "auto_delete"):
        queue = {key: value for key, value in _QUEUE.items() if key != flag}
        exchange = {key: value for key, value in _EXCHANGE.items() if key != flag}
        s.post(f"/definitions/{s.v}", {"queues": [{**queue, "name": flag}], "exchanges": [{**exchange, "name": flag}]})
    s.get(f"/queues/{s.v}?disable_stats=true&columns=name,durable,auto_delete")
    s.get(f"/exchanges/{s.v}?disable_stats=true&columns=name,durable")


@scenario
def policies_that_lack_a_key(s: Run) -> None:
    policy = {"name": "p", "pattern": "^q", "apply-to": "all", "definition": {"max-length": 1}, "priority": 0}
    for missing in ("pattern", "apply-to", "definition", "priority"):
        s.post(f"/definitions/{s.v}", {"policies": [{key: policy[key] for key in policy if key != missing}]})


@scenario
def columns_of_definitions(s: Run) -> None:
    s.put(f"/queues/{s.v}/q", {"durable": True})
    s.get(
        f"/definitions/{s.v}?columns=queues,policies", without=("rabbit_version", "rabbitmq_version", "product_version")
    )
