"""Limits of virtual hosts and users."""

from __future__ import annotations

from ..scenario import Run, scenario


@scenario
def limits_of_a_virtual_host(s: Run) -> None:
    s.get(f"/vhost-limits/{s.v}")
    s.put(f"/vhost-limits/{s.v}/max-queues", {"value": 1})
    s.put(f"/vhost-limits/{s.v}/max-connections", {"value": 5})
    s.get(f"/vhost-limits/{s.v}")
    s.get("/vhost-limits", mine=True)
    s.put(f"/queues/{s.v}/a", {"durable": True})
    s.put(f"/queues/{s.v}/b", {"durable": True})
    s.get(f"/parameters/vhost-limits/{s.v}")
    s.delete(f"/vhost-limits/{s.v}/max-queues")
    s.get(f"/vhost-limits/{s.v}")
    s.delete(f"/vhost-limits/{s.v}/max-connections")
    s.delete(f"/vhost-limits/{s.v}/max-connections")
    s.get(f"/vhost-limits/{s.v}")
    s.get("/vhost-limits/nothing")


@scenario
def wrong_limits_of_a_virtual_host(s: Run) -> None:
    s.put(f"/vhost-limits/{s.v}/nonsense", {"value": 1})
    s.put(f"/vhost-limits/{s.v}/max-queues", {"value": "x"})
    s.put(f"/vhost-limits/{s.v}/max-queues", {})
    s.put(f"/vhost-limits/{s.v}/max-queues", {"value": -1})
    s.put("/vhost-limits/nothing/max-queues", {"value": 1})
    s.get(f"/vhost-limits/{s.v}")


@scenario
def limits_of_a_user(s: Run) -> None:
    name = s.add_user("alice")
    s.get(f"/user-limits/{name}")
    s.put(f"/user-limits/{name}/max-channels", {"value": 1})
    s.put(f"/user-limits/{name}/max-connections", {"value": 5})
    s.get(f"/user-limits/{name}")
    s.get("/user-limits", mine=True)
    s.get(f"/users/{name}")
    s.delete(f"/user-limits/{name}/max-channels")
    s.get(f"/user-limits/{name}")
    s.delete(f"/user-limits/{name}/max-connections")
    s.delete(f"/user-limits/{name}/max-connections")
    s.get(f"/user-limits/{name}")
    s.get("/user-limits/nothing")


@scenario
def wrong_limits_of_a_user(s: Run) -> None:
    name = s.add_user("alice")
    s.put(f"/user-limits/{name}/nonsense", {"value": 1})
    s.put(f"/user-limits/{name}/max-channels", {"value": "x"})
    s.put(f"/user-limits/{name}/max-channels", {})
    s.put("/user-limits/nothing/max-channels", {"value": 1})
