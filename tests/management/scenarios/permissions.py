"""Permissions and topic permissions."""

from __future__ import annotations

from ..scenario import Run, scenario

_ALL = {"configure": ".*", "write": ".*", "read": ".*"}


@scenario
def permissions(s: Run) -> None:
    name = s.add_user("alice", vhost=False)
    s.get(f"/permissions/{s.v}/{name}")
    s.put(f"/permissions/{s.v}/{name}", {"configure": "^a", "write": "", "read": ".*"})
    s.get(f"/permissions/{s.v}/{name}")
    s.put(f"/permissions/{s.v}/{name}", _ALL)
    s.get(f"/users/{name}/permissions")
    s.get("/permissions", mine=True)
    s.get(f"/vhosts/{s.v}/permissions")
    s.delete(f"/permissions/{s.v}/{name}")
    s.delete(f"/permissions/{s.v}/{name}")
    s.get(f"/permissions/{s.v}/{name}")


@scenario
def wrong_permissions(s: Run) -> None:
    name = s.add_user("alice", vhost=False)
    s.put(f"/permissions/{s.v}/{name}", {})
    s.put(f"/permissions/{s.v}/{name}", {"configure": ".*"})
    s.put(f"/permissions/nothing/{name}", _ALL)
    s.put(f"/permissions/{s.v}/nothing", _ALL)
    s.get(f"/permissions/{s.v}/nothing")
    s.get(f"/permissions/nothing/{name}")
    s.get("/users/nothing/permissions")


@scenario
def patterns_that_are_no_text(s: Run) -> None:
    name = s.add_user("alice", vhost=False)
    for given in (5, True, None, {}):
        s.put(f"/permissions/{s.v}/{name}", {**_ALL, "configure": given})
        s.put(f"/topic-permissions/{s.v}/{name}", {"exchange": "amq.topic", "write": given, "read": ""})
    s.get(f"/permissions/{s.v}/{name}")
    s.get(f"/topic-permissions/{s.v}/{name}")


@scenario
def topic_permissions(s: Run) -> None:
    name = s.add_user("alice")
    s.get(f"/topic-permissions/{s.v}/{name}", unordered=True)
    s.put(f"/topic-permissions/{s.v}/{name}", {"exchange": "amq.topic", "write": "^a", "read": "^b"})
    s.put(f"/topic-permissions/{s.v}/{name}", {"exchange": "other", "write": "^c", "read": "^d"})
    s.put(f"/topic-permissions/{s.v}/{name}", {"exchange": "other", "write": "^c", "read": "^e"})
    s.get(f"/topic-permissions/{s.v}/{name}", unordered=True)
    s.get("/topic-permissions", mine=True, unordered=True)
    s.get(f"/users/{name}/topic-permissions", unordered=True)
    s.get(f"/vhosts/{s.v}/topic-permissions", unordered=True)
    s.delete(f"/topic-permissions/{s.v}/{name}/other")
    s.get(f"/topic-permissions/{s.v}/{name}", unordered=True)
    s.delete(f"/topic-permissions/{s.v}/{name}")
    s.get(f"/topic-permissions/{s.v}/{name}", unordered=True)


@scenario
def topic_permissions_of_an_exchange(s: Run) -> None:
    name = s.add_user("alice")
    s.put(f"/topic-permissions/{s.v}/{name}/amq.topic", {"exchange": "amq.topic", "write": "^a", "read": "^b"})
    s.get(f"/topic-permissions/{s.v}/{name}/amq.topic")
    s.delete(f"/topic-permissions/{s.v}/{name}/amq.topic")


@scenario
def wrong_topic_permissions(s: Run) -> None:
    name = s.add_user("alice")
    s.put(f"/topic-permissions/{s.v}/{name}", {})
    s.put(f"/topic-permissions/{s.v}/nothing", {"exchange": "x", "write": "", "read": ""})
    s.put(f"/topic-permissions/nothing/{name}", {"exchange": "x", "write": "", "read": ""})
    s.delete(f"/topic-permissions/{s.v}/{name}")
