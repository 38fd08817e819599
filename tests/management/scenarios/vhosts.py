"""Virtual hosts."""

from __future__ import annotations

from ..scenario import Run, scenario


@scenario
def a_virtual_host(s: Run) -> None:
    s.get(f"/vhosts/{s.v}")
    s.get("/vhosts", mine=True)
    s.get("/vhosts/nothing")
    s.get("/vhosts/%2F?columns=name,description,tags,metadata")


@scenario
def making_one(s: Run) -> None:
    made = s.further_vhost("made")
    s.delete(f"/vhosts/{made}")
    s.put(f"/vhosts/{made}")
    s.get(f"/vhosts/{made}")
    s.put(f"/vhosts/{made}", {"description": "a place", "tags": "one,two"})
    s.get(f"/vhosts/{made}?columns=name,description,tags,default_queue_type,metadata,tracing")
    s.put(f"/vhosts/{made}", {"tags": ["three"], "default_queue_type": "quorum"})
    s.get(f"/vhosts/{made}?columns=name,description,tags,default_queue_type,metadata,tracing")
    s.put(f"/vhosts/{made}", {"tracing": True})
    s.get(f"/vhosts/{made}?columns=name,description,tags,default_queue_type,metadata,tracing")
    s.put(f"/vhosts/{made}", {})
    s.get(f"/vhosts/{made}?columns=name,description,tags,default_queue_type,metadata,tracing")
    s.get(f"/vhosts/{made}/permissions")
    s.get(f"/vhosts/{made}/topic-permissions")


@scenario(versions=("4.3",))
def wrong_values(s: Run) -> None:
    made = s.further_vhost("made")
    s.put(f"/vhosts/{made}", {"default_queue_type": "nonsense"})
    s.put(f"/vhosts/{made}", {"unknown": 5})


@scenario
def deleting_one(s: Run) -> None:
    made = s.further_vhost("made")
    s.delete(f"/vhosts/{made}")
    s.delete(f"/vhosts/{made}")
    s.get(f"/vhosts/{made}")
    s.get(f"/queues/{made}")


@scenario
def its_permissions(s: Run) -> None:
    s.add_user("alice")
    s.put(f"/topic-permissions/{s.v}/{s.user('alice')}", {"exchange": "amq.topic", "write": "^a", "read": "^b"})
    s.get(f"/vhosts/{s.v}/permissions")
    s.get(f"/vhosts/{s.v}/topic-permissions")
    s.get("/vhosts/nothing/permissions")


@scenario
def starting_one_on_a_node(s: Run) -> None:
    nodes = s.get("/nodes", hidden=True)
    assert isinstance(nodes, list)
    s.post(f"/vhosts/{s.v}/start/{nodes[0]['name']}")


@scenario(versions=("4.3",))
def protecting_one_from_deletion(s: Run) -> None:
    made = s.further_vhost("made")
    s.post(f"/vhosts/{made}/deletion/protection")
    s.get(f"/vhosts/{made}?columns=protected_from_deletion,metadata")
    s.delete(f"/vhosts/{made}")
    s.delete(f"/vhosts/{made}/deletion/protection")
    s.get(f"/vhosts/{made}?columns=protected_from_deletion,metadata")
    s.put(f"/vhosts/{made}", {"protected_from_deletion": True})
    s.delete(f"/vhosts/{made}")
    s.put(f"/vhosts/{made}", {"protected_from_deletion": False})
    s.post("/vhosts/nothing/deletion/protection")
    s.delete(f"/vhosts/{made}")


@scenario
def the_default_queue_type_of_a_new_one(s: Run) -> None:
    path = f"/vhosts/{s.further_vhost('made')}"
    for body in (
        *({"default_queue_type": "quorum"}, {"defaultqueuetype": "stream"}, {}),
        {"defaultqueuetype": "quorum", "default_queue_type": "stream"},
    ):
        s.delete(path)
        s.put(path, body)
        s.get(f"{path}?columns=default_queue_type,metadata")


@scenario(versions=("4.3",))
def default_queue_types_of_each_type(s: Run) -> None:
    path = f"/vhosts/{s.further_vhost('made')}"
    for key in ("default_queue_type", "defaultqueuetype"):
        for value in (
            *(None, 5, True, [], {}, "", "nonsense", "undefined", "null"),
            *("rabbit_quorum_queue", "Quorum", "stream"),
        ):
            s.put(path, {key: value})
            s.get(f"{path}?columns=default_queue_type,metadata")


@scenario
def queues_without_a_type_in_a_virtual_host_of_quorum_queues(s: Run) -> None:
    name = s.further_vhost("made")
    s.delete(f"/vhosts/{name}")
    s.put(f"/vhosts/{name}", {"defaultqueuetype": "quorum"})
    s.put(f"/queues/{name}/q", {"durable": True})
    s.get(f"/queues/{name}/q?disable_stats=true&columns=type,arguments")


@scenario
def descriptions_and_tags_of_each_type(s: Run) -> None:
    path = f"/vhosts/{s.further_vhost('made')}"
    for value in (None, "text", ""):
        s.put(path, {"description": value})
        s.get(f"{path}?columns=description,metadata")
    for value in (None, 5, True, {}, "", "a", "a,b", " a , b", "a,,b", [], ["a", "b"], [" a "]):
        s.put(path, {"tags": value})
        s.get(f"{path}?columns=tags")
    for value in (None, 5, True, "x", "true", "false", False, [], {}):
        s.put(path, {"tracing": value})
        s.get(f"{path}?columns=tracing")


@scenario
def the_user_of_a_virtual_host_made_its_exchanges(s: Run) -> None:
    s.add_user("chief", "administrator", vhost=False)
    name = s.further_vhost("made")
    s.delete(f"/vhosts/{name}")
    s.put(f"/vhosts/{name}", {}, user="chief")
    s.put(f"/vhosts/{name}", {"description": "changed"})
    s.get(f"/exchanges/{name}?columns=name,user_who_performed_action")
    s.delete(f"/vhosts/{name}")
    s.post("/definitions", {"vhosts": [{"name": name}]}, user="chief")
    s.get(f"/exchanges/{name}/amq.topic")
