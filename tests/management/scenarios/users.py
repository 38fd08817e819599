"""Users, their tags, and what they may do."""

from __future__ import annotations

from ..scenario import Run, scenario


@scenario
def a_user(s: Run) -> None:
    s.get("/users/guest", without=("hashing_algorithm",))
    name = s.add_user("alice", "management,other")
    s.get(f"/users/{name}")
    s.get("/users", mine=True)
    s.get("/users/nothing")
    s.get("/users/without-permissions", mine=True)


@scenario
def making_one(s: Run) -> None:
    name = s.add_user("alice", vhost=False)
    s.delete(f"/users/{name}")
    s.put(f"/users/{name}", {"password": "x", "tags": "administrator"})
    s.get(f"/users/{name}")
    s.put(f"/users/{name}", {"password": "y", "tags": ["management", "other"]})
    s.get(f"/users/{name}")
    s.put(f"/users/{name}", {"tags": ""})
    s.get(f"/users/{name}")
    s.put(f"/users/{name}", {"password": "", "tags": ""})
    s.get(f"/users/{name}")
    s.get("/users/without-permissions", mine=True)


@scenario
def wrong_values(s: Run) -> None:
    name = s.add_user("alice", vhost=False)
    s.put(f"/users/{name}", {})
    s.put(f"/users/{name}", {"password": "x"})
    s.put(f"/users/{name}", {"password_hash": "!!!", "tags": ""})
    s.put(f"/users/{name}", {"password_hash": "x", "tags": "", "hashing_algorithm": "nonsense"})
    s.put(f"/users/{name}", {"password": "x", "password_hash": "", "tags": ""})


@scenario
def a_password_hash(s: Run) -> None:
    name = s.add_user("alice", vhost=False)
    s.put(f"/users/{name}", {"password_hash": "kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR", "tags": "management"})
    s.get("/whoami", user="alice", password="test12")
    s.get("/whoami", user="alice", password="wrong")
    s.put(f"/users/{name}", {"password_hash": "", "tags": "management"})
    s.get(f"/users/{name}")
    s.get("/whoami", user="alice", password="test12")


@scenario
def deleting_some(s: Run) -> None:
    alice, bob = s.add_user("alice"), s.add_user("bob")
    s.delete(f"/users/{alice}")
    s.delete(f"/users/{alice}")
    s.post("/users/bulk-delete", {"users": [bob]})
    s.get(f"/users/{bob}")
    s.post("/users/bulk-delete", {"users": []})
    s.post("/users/bulk-delete", {})


@scenario
def deleting_the_last_permission(s: Run) -> None:
    name = s.add_user("alice")
    s.get("/users/without-permissions", mine=True)
    s.delete(f"/permissions/{s.v}/{name}")
    s.get("/users/without-permissions", mine=True)


@scenario
def deleting_one_that_does_not_exist(s: Run) -> None:
    s.post("/users/bulk-delete", {"users": ["nothing"]})


@scenario
def limits_and_permissions_of_a_new_one(s: Run) -> None:
    name = s.add_user("alice", vhost=False)
    s.delete(f"/users/{name}")
    limits = {"max-connections": 3}
    rights = {"configure": "a", "write": "b", "read": "c"}
    s.put(f"/users/{name}", {"password": "x", "tags": "", "limits": limits, "permissions": {s.vhost: rights}})
    s.get(f"/users/{name}")
    s.get(f"/users/{name}/permissions")
    # A user keeps other limits, and the permissions.
    others = {"configure": "", "write": "", "read": ""}
    s.put(
        f"/users/{name}",
        {"password": "x", "tags": "", "limits": {"max-channels": 4}, "permissions": {s.vhost: others}},
    )
    s.put(f"/users/{name}", {"password": "x", "tags": "a"})
    s.get(f"/users/{name}")
    s.get(f"/users/{name}/permissions")
    for value in ({}, {"nonsense": 1}, {"max-channels": "x"}, {"max-channels": -1}, None, 5, [], "x", [1]):
        s.put(f"/users/{name}", {"password": "x", "tags": "", "limits": value})
        s.get(f"/user-limits/{name}")
    s.delete(f"/users/{name}")
    s.put(f"/users/{name}", {"password": "x", "tags": "", "permissions": {}})
    s.delete(f"/users/{name}")
    s.put(f"/users/{name}", {"password": "x", "tags": "", "permissions": {"nothing": rights}})
    s.get(f"/users/{name}")


@scenario
def passwords_and_tags_of_each_type(s: Run) -> None:
    name = s.add_user("alice", vhost=False)
    s.delete(f"/users/{name}")
    for value in (None, 5, True, [], {}, "", "x"):
        s.put(f"/users/{name}", {"password": value, "tags": "management"})
        s.get("/whoami", user="alice", password=str(value))
        s.delete(f"/users/{name}")
    for value in (None, 5, True, {}, "!!", "aGk="):
        s.put(f"/users/{name}", {"password_hash": value, "tags": ""})
        s.delete(f"/users/{name}")
    for value in (None, 5, True, {}, [], [["a"]], "", "a,b", " a , b ", "a,,b", ["a", " b "], ["a", ""]):
        s.put(f"/users/{name}", {"password": "x", "tags": value})
        s.get(f"/users/{name}?columns=tags")
        s.delete(f"/users/{name}")
    for value in (None, 5, "x", "true", "false", True, False):
        s.put(f"/users/{name}", {"password": "x", "administrator": value})
        s.get(f"/users/{name}?columns=tags")
        s.delete(f"/users/{name}")


@scenario(versions=("4.3",))
def too_many_tags(s: Run) -> None:
    name = s.add_user("alice", vhost=False)
    s.put(f"/users/{name}", {"password": "x", "tags": ["t"] * 32})
    s.put(f"/users/{name}", {"password": "x", "tags": ["t"] * 33})
    s.put(f"/users/{name}", {"password": "x", "tags": ",".join(["t"] * 33)})


@scenario
def deleting_some_by_values_of_each_type(s: Run) -> None:
    for value in (None, 5, True, "x", {}, [5], [None], [["a"]], [{}]):
        s.post("/users/bulk-delete", {"users": value})


@scenario
def columns_of_the_own_user(s: Run) -> None:
    s.get("/whoami?columns=name")
