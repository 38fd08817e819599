"""Who may ask: credentials, user tags, and the virtual hosts that a user can see."""

from __future__ import annotations

from ..scenario import Run, scenario

# What a server collects some seconds later.
_LAGGED = (
    *("messages", "messages_details", "messages_ready", "messages_ready_details", "messages_unacknowledged"),
    *(
        "messages_unacknowledged_details",
        "message_stats",
        "recv_oct",
        "recv_oct_details",
        "send_oct",
        "send_oct_details",
    ),
)


@scenario
def without_credentials(s: Run) -> None:
    s.get("/whoami", user=None)
    s.get(f"/queues/{s.v}", user=None)
    s.put(f"/queues/{s.v}/q", {}, user=None)


@scenario
def with_a_wrong_password(s: Run) -> None:
    name = s.add_user("alice", "administrator")
    s.get("/whoami", user="alice", password="wrong")
    s.get("/whoami", user="alice", password="")
    s.get("/whoami", user="stranger")
    s.get(f"/users/{name}", user="alice", password="wrong")


@scenario
def with_other_kinds_of_authorization(s: Run) -> None:
    s.get("/whoami", user=None, headers={"authorization": "Bearer abc"})
    s.get("/whoami", user=None, headers={"authorization": "Basic !!!"})
    s.get("/whoami", user=None, headers={"authorization": "Basic Z3Vlc3Q="})
    s.get("/whoami", user=None, headers={"authorization": "nonsense"})


@scenario
def a_user_without_a_tag_may_ask_nothing(s: Run) -> None:
    s.add_user("alice")
    s.get("/whoami", user="alice")
    s.get("/overview", user="alice", without=("statistics_db_event_queue",))
    s.get(f"/queues/{s.v}", user="alice")
    s.put(f"/queues/{s.v}/q", {}, user="alice")


@scenario
def an_unknown_tag_is_none(s: Run) -> None:
    s.add_user("alice", "impersonator")
    s.get("/whoami", user="alice")
    s.get(f"/queues/{s.v}", user="alice")


@scenario
def a_management_user_sees_its_virtual_hosts(s: Run) -> None:
    name = s.add_user("alice", "management")
    other = s.further_vhost("other")
    s.put(f"/queues/{s.v}/mine", {"durable": True})
    s.put(f"/queues/{other}/theirs", {"durable": True})
    s.get("/whoami", user="alice")
    s.get("/vhosts?columns=name", user="alice", without=_LAGGED)
    s.get(f"/vhosts/{s.v}?columns=name", user="alice")
    s.get(f"/vhosts/{other}?columns=name", user="alice")
    s.get("/queues?columns=name,vhost", user="alice")
    s.get(f"/queues/{s.v}?columns=name", user="alice")
    s.get(f"/queues/{other}?columns=name", user="alice")
    s.get(f"/queues/{other}/theirs?columns=name", user="alice")
    s.get(f"/queues/{other}/nothing?columns=name", user="alice")
    s.get("/exchanges?columns=name,vhost", user="alice")
    s.get(f"/exchanges/{other}", user="alice")
    s.get(f"/bindings/{other}", user="alice")
    s.get("/bindings", user="alice")
    s.get("/consumers", user="alice")
    s.get(f"/consumers/{other}", user="alice")
    s.get("/channels", user="alice")
    s.get("/connections", user="alice")
    s.get(f"/vhosts/{other}/connections", user="alice")
    s.get("/policies", user="alice")
    s.get("/parameters", user="alice")
    s.get("/permissions", user="alice")
    s.get("/topic-permissions", user="alice")
    s.get("/users", user="alice")
    s.get(f"/users/{name}", user="alice")
    s.get(f"/users/{name}/permissions", user="alice")
    s.get("/nodes", user="alice")
    s.get("/cluster-name", user="alice")
    s.get("/definitions", user="alice")
    s.get(f"/definitions/{s.v}", user="alice")
    s.get("/global-parameters", user="alice")
    s.get("/vhost-limits", user="alice")
    s.get(f"/vhost-limits/{s.v}", user="alice")
    s.get(f"/vhost-limits/{other}", user="alice")
    s.get("/user-limits", user="alice")
    s.get("/feature-flags?columns=none", user="alice")
    s.get("/operator-policies", user="alice")


@scenario
def a_management_user_may_write_only_what_its_permissions_allow(s: Run) -> None:
    s.add_user("alice", "management", vhost=False)
    other = s.further_vhost("other")
    s.put(f"/permissions/{s.v}/{s.user('alice')}", {"configure": "^a", "write": "^a", "read": "^a"})
    s.put(f"/queues/{s.v}/a", {"durable": True}, user="alice")
    s.put(f"/queues/{s.v}/b", {"durable": True}, user="alice")
    s.put(f"/exchanges/{s.v}/b", {"durable": True}, user="alice")
    s.put(f"/queues/{s.v}/b", {"durable": True})
    s.put(f"/exchanges/{s.v}/ax", {"durable": True}, user="alice")
    s.post(f"/bindings/{s.v}/e/ax/q/b", {}, user="alice")
    s.post(f"/bindings/{s.v}/e/ax/q/a", {}, user="alice")
    s.delete(f"/queues/{s.v}/b", user="alice")
    s.delete(f"/queues/{s.v}/b/contents", user="alice")
    publish = {"properties": {}, "routing_key": "b", "payload": "x", "payload_encoding": "string"}
    s.post(f"/exchanges/{s.v}/amq.default/publish", publish, user="alice")
    s.post(f"/exchanges/{s.v}/ax/publish", publish, user="alice")
    get = {"count": 1, "ackmode": "ack_requeue_true", "encoding": "auto"}
    s.post(f"/queues/{s.v}/b/get", get, user="alice")
    s.post(f"/queues/{s.v}/a/get", get, user="alice")
    s.put(f"/queues/{other}/a", {"durable": True}, user="alice")
    s.post(f"/queues/{other}/a/get", get, user="alice")
    s.delete(f"/queues/{other}/a", user="alice")
    s.put(f"/vhosts/{s.v}.made", {}, user="alice")
    s.put(f"/users/{s.user('bob')}", {"password": "x", "tags": ""}, user="alice")
    s.put(f"/permissions/{s.v}/guest", {"configure": "", "write": "", "read": ""}, user="alice")
    s.put(f"/policies/{s.v}/p", {"pattern": "", "definition": {"max-length": 1}}, user="alice")
    s.delete(f"/vhosts/{s.v}", user="alice")
    s.put("/cluster-name", {"name": "x"}, user="alice")
    s.put(f"/global-parameters/{s.v}", {"value": 1}, user="alice")
    s.put(f"/vhost-limits/{s.v}/max-queues", {"value": 1}, user="alice")
    s.put(f"/user-limits/{s.user('alice')}/max-channels", {"value": 1}, user="alice")
    s.post("/definitions", {}, user="alice")
    s.post(f"/definitions/{s.v}", {}, user="alice")
    s.post("/rebalance/queues", user="alice")
    s.delete("/reset", user="alice")


@scenario
def a_policymaker_may_write_policies(s: Run) -> None:
    s.add_user("alice", "policymaker")
    other = s.further_vhost("other")
    s.get("/policies", user="alice")
    s.put(f"/policies/{s.v}/p", {"pattern": "", "definition": {"max-length": 1}}, user="alice")
    s.get(f"/policies/{s.v}/p", user="alice")
    s.put(f"/policies/{other}/p", {"pattern": "", "definition": {"max-length": 1}}, user="alice")
    s.put(f"/operator-policies/{s.v}/p", {"pattern": "", "definition": {"max-length": 1}}, user="alice")
    s.get("/operator-policies", user="alice")
    s.get(f"/parameters/nothing/{s.v}", user="alice")
    s.put(f"/vhost-limits/{s.v}/max-queues", {"value": 1}, user="alice")
    s.get("/vhost-limits", user="alice")
    s.get("/nodes", user="alice")
    s.get("/users", user="alice")
    s.put(f"/global-parameters/{s.v}", {"value": 1}, user="alice")
    s.get(f"/global-parameters/{s.v}", user="alice")
    s.delete(f"/global-parameters/{s.v}", user="alice")
    s.delete(f"/policies/{s.v}/p", user="alice")


@scenario
def a_monitoring_user_sees_all_and_changes_little(s: Run) -> None:
    s.add_user("alice", "monitoring", vhost=False)
    s.get(f"/vhosts/{s.v}?columns=name", user="alice")
    s.get(f"/queues/{s.v}?columns=name", user="alice")
    s.get(f"/exchanges/{s.v}?columns=name", user="alice")
    s.get("/nodes?columns=name,type,running", user="alice")
    s.get(f"/vhosts/{s.v}/connections", user="alice")
    s.get(f"/permissions/{s.v}/guest", user="alice")
    s.get("/users", user="alice")
    s.get(f"/policies/{s.v}", user="alice")
    s.get("/definitions", user="alice")
    s.get("/global-parameters/cluster_tags", user="alice")
    s.get("/feature-flags?columns=none", user="alice", without=("name",))
    s.put(f"/queues/{s.v}/q", {"durable": True}, user="alice")
    s.put(f"/vhosts/{s.v}.made", {}, user="alice")
    s.get(f"/vhost-limits/{s.v}", user="alice")
    s.get(f"/user-limits/{s.user('alice')}", user="alice")


@scenario
def an_administrator_without_permissions_sees_but_does_not_touch(s: Run) -> None:
    s.add_user("alice", "administrator", vhost=False)
    s.put(f"/queues/{s.v}/q", {"durable": True})
    s.get(f"/queues/{s.v}/q?columns=name", user="alice")
    s.get(f"/vhosts/{s.v}?columns=name", user="alice")
    s.put(f"/queues/{s.v}/r", {"durable": True}, user="alice")
    s.delete(f"/queues/{s.v}/q", user="alice")
    s.delete(f"/queues/{s.v}/q/contents", user="alice")
    s.post(f"/queues/{s.v}/q/get", {"count": 1, "ackmode": "ack_requeue_true", "encoding": "auto"}, user="alice")
    s.put(f"/policies/{s.v}/p", {"pattern": "", "definition": {"max-length": 1}}, user="alice")
    s.put(f"/permissions/{s.v}/{s.user('alice')}", {"configure": ".*", "write": ".*", "read": ".*"}, user="alice")
    s.put(f"/queues/{s.v}/r", {"durable": True}, user="alice")


@scenario
def several_tags_add_up(s: Run) -> None:
    s.add_user("alice", "management,policymaker")
    s.get("/whoami", user="alice")
    s.put(f"/policies/{s.v}/p", {"pattern": "", "definition": {"max-length": 1}}, user="alice")
    s.add_user("bob", "monitoring,policymaker")
    s.get("/whoami", user="bob")
    s.get("/nodes?columns=type", user="bob")


@scenario
def checking_credentials_through_whoami_after_a_change(s: Run) -> None:
    name = s.add_user("alice", "management")
    s.put(f"/users/{name}", {"password": "new", "tags": "management"})
    s.get("/whoami", user="alice")
    s.get("/whoami", user="alice", password="new")
    s.delete(f"/users/{name}")
    s.get("/whoami", user="alice", password="new")


@scenario
def what_each_tag_lists(s: Run) -> None:
    other = s.further_vhost("other")
    s.put(f"/queues/{s.v}/mine", {"durable": True}, hidden=True)
    s.put(f"/queues/{other}/theirs", {"durable": True}, hidden=True)
    for name in ("management", "policymaker", "monitoring", "administrator"):
        s.add_user(name, name)
        for path in (
            "/vhosts",
            "/queues?columns=name",
            "/exchanges?columns=vhost&sort=name",
            "/bindings",
            "/policies",
            "/vhost-limits",
        ):
            s.get(path, user=name, mine=True, without=_LAGGED)
        s.get(f"/vhosts/{other}?columns=name", user=name)
        s.get(f"/vhosts/{other}/permissions", user=name)
        s.get(f"/vhosts/{other}/channels", user=name)
        s.get(f"/consumers/{other}", user=name)
        s.get(f"/users/{s.user(name)}/permissions", user=name)
        s.get(f"/user-limits/{s.user(name)}", user=name)
        s.get("/parameters/nothing", user=name)
        s.get("/deprecated-features/used", user=name, mine=True)
        s.get("/health/checks/virtual-hosts", user=name)
        s.get(f"/aliveness-test/{other}", user=name)
        s.get("/users/without-permissions", user=name, mine=True)


@scenario(versions=("4.3", "4.0"))
def closing_the_connections_of_a_user(s: Run) -> None:
    name = s.add_user("alice", "management")
    s.delete(f"/connections/username/{name}", user="alice")
    s.delete("/connections/username/guest", user="alice")
