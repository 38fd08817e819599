"""What all endpoints share: methods, unknown paths, wrong bodies, columns, sorting and pages."""

from __future__ import annotations

from ..scenario import Run, scenario


@scenario
def unknown_paths(s: Run) -> None:
    s.get("/nonsense")
    s.get("/nonsense", user=None)
    s.get("/queues/a/b/c/d")
    s.get(f"/queues/{s.v}/nothing")
    s.get("/queues/nothing")
    s.get("/queues/nothing/q")
    s.put("/nonsense", {})
    s.delete("/nonsense")
    s.post("/nonsense", {})


@scenario
def wrong_methods(s: Run) -> None:
    s.post(f"/queues/{s.v}/q", {})
    s.put("/overview", {})
    s.delete("/overview")
    s.delete("/nodes")
    s.put(f"/queues/{s.v}", {})
    s.delete(f"/queues/{s.v}")
    s.get(f"/exchanges/{s.v}/amq.direct/publish")
    s.get(f"/queues/{s.v}/q/get")
    s.get(f"/queues/{s.v}/q/contents")
    s.get("/rebalance/queues")
    s.get("/users/bulk-delete")
    s.put("/whoami", {})
    s.post("/vhosts", {})
    s.put("/definitions", {})
    s.post("/connections", {})
    s.ask("PATCH", f"/queues/{s.v}/q", {})


@scenario
def wrong_methods_on_the_read_endpoints(s: Run) -> None:
    for path in ("vhosts", "users", "permissions", "policies", "parameters", "exchanges", "queues", "bindings"):
        s.delete(f"/{path}")
    for path in ("channels", "consumers", "nodes", "extensions", "global-parameters", "vhost-limits", "user-limits"):
        s.put(f"/{path}", {})
    s.post("/aliveness-test/x", {})
    s.delete("/health/checks/alarms")


@scenario
def head_and_options(s: Run) -> None:
    s.put(f"/queues/{s.v}/q", {"durable": True})
    s.ask("HEAD", f"/queues/{s.v}/q")
    s.ask("HEAD", f"/queues/{s.v}/nothing")
    s.ask("HEAD", "/whoami")
    s.ask("OPTIONS", f"/queues/{s.v}/q")
    s.ask("OPTIONS", "/overview")
    s.ask("OPTIONS", "/overview", user=None)


@scenario
def bodies_that_are_not_json(s: Run) -> None:
    s.put(f"/queues/{s.v}/q", "{")
    s.put(f"/queues/{s.v}/q", "")
    s.put(f"/queues/{s.v}/q", "nonsense")
    s.put(f"/queues/{s.v}/q", "[]")
    s.put(f"/queues/{s.v}/q", "1")
    s.put(f"/queues/{s.v}/q", '"text"')
    s.put(f"/queues/{s.v}/q", "null")
    s.put(f"/exchanges/{s.v}/x", "{")
    s.put(f"/exchanges/{s.v}/x", "")
    s.put(f"/vhosts/{s.v}", "{")
    s.put(f"/policies/{s.v}/p", "{")
    s.put(f"/permissions/{s.v}/guest", "{")
    s.put(f"/users/{s.user('bob')}", "{")
    s.put(f"/parameters/vhost-limits/{s.v}/limits", "{")
    s.post(f"/exchanges/{s.v}/amq.direct/publish", "{")
    s.post(f"/queues/{s.v}/q/get", "{")
    s.post("/definitions", "{")
    s.post(f"/definitions/{s.v}", "{")


@scenario
def bodies_of_another_type(s: Run) -> None:
    plain = {"content-type": "text/plain"}
    s.put(f"/queues/{s.v}/q", {"durable": True}, headers=plain)
    s.put(f"/exchanges/{s.v}/x", {"durable": True}, headers=plain)
    s.post(f"/bindings/{s.v}/e/x/q/q", {}, headers=plain)
    s.post(f"/queues/{s.v}/q/get", {"count": 1, "ackmode": "ack_requeue_true", "encoding": "auto"}, headers=plain)
    s.put(f"/vhosts/{s.v}", {}, headers=plain)
    s.put(f"/permissions/{s.v}/guest", {"configure": ".*", "write": ".*", "read": ".*"}, headers=plain)
    s.put(f"/policies/{s.v}/p", {"pattern": "", "definition": {"max-length": 3}}, headers=plain)
    s.put(f"/operator-policies/{s.v}/p", {"pattern": "", "definition": {"max-length": 3}}, headers=plain)
    s.put(f"/vhost-limits/{s.v}/max-queues", {"value": 3}, headers=plain)
    s.put(f"/parameters/vhost-limits/{s.v}/limits", {"value": {}}, headers=plain)
    s.post(f"/definitions/{s.v}", {}, headers=plain)
    s.get(f"/queues/{s.v}?columns=name", headers={"accept": "text/html"})
    s.get(f"/queues/{s.v}?columns=name", headers={"accept": "*/*"})


@scenario
def columns_choose_keys(s: Run) -> None:
    s.put(f"/queues/{s.v}/q", {"durable": True, "arguments": {"x-max-length": 5}})
    s.get(f"/queues/{s.v}/q?columns=name,durable")
    s.get(f"/queues/{s.v}?columns=name,arguments.x-max-length")
    s.get(f"/queues/{s.v}?columns=nothing")
    s.get(f"/queues/{s.v}?columns=")
    s.get(f"/exchanges/{s.v}?columns=name,type")
    s.get(f"/vhosts/{s.v}?columns=name,metadata.tags")
    s.get(f"/bindings/{s.v}?columns=destination")
    s.get(f"/permissions/{s.v}/guest?columns=read")


@scenario
def lists_are_sorted(s: Run) -> None:
    for name, length in (("b", 1), ("a", 3), ("C", 2), ("ä", 4)):
        s.put(
            f"/queues/{s.v}/{name if name.isascii() else '%C3%A4'}",
            {"arguments": {"x-max-length": length}, "durable": True},
        )
    s.get(f"/queues/{s.v}?columns=name")
    s.get(f"/queues/{s.v}?columns=name&sort=name")
    s.get(f"/queues/{s.v}?columns=name&sort=name&sort_reverse=true")
    s.get(f"/queues/{s.v}?columns=name&sort_reverse=true")
    s.get(f"/queues/{s.v}?columns=name&sort=arguments.x-max-length")
    s.get(f"/queues/{s.v}?columns=name&sort=nothing")
    s.get(f"/exchanges/{s.v}?columns=name&sort=type")
    s.get(f"/exchanges/{s.v}?columns=name&sort=type&sort_reverse=true")


@scenario
def lists_come_in_pages(s: Run) -> None:
    for name in ("one", "two", "three", "four", "five"):
        s.put(f"/queues/{s.v}/{name}", {"durable": True})
    s.get(f"/queues/{s.v}?columns=name&page=1&page_size=2")
    s.get(f"/queues/{s.v}?columns=name&page=2&page_size=2")
    s.get(f"/queues/{s.v}?columns=name&page=3&page_size=2")
    s.get(f"/queues/{s.v}?columns=name&page=4&page_size=2")
    s.get(f"/queues/{s.v}?columns=name&page=1")
    s.get(f"/queues/{s.v}?columns=name&page_size=2")
    s.get(f"/queues/{s.v}?columns=name&page=0&page_size=2")
    s.get(f"/queues/{s.v}?columns=name&page=-1&page_size=2")
    s.get(f"/queues/{s.v}?columns=name&page=x&page_size=2")
    s.get(f"/queues/{s.v}?columns=name&page=1&page_size=0")
    s.get(f"/queues/{s.v}?columns=name&page=1&page_size=x")
    s.get(f"/queues/{s.v}?columns=name&page=1&page_size=500")
    s.get(f"/queues/{s.v}?columns=name&page=1&page_size=501")
    s.get(f"/queues/{s.v}?columns=name&page=1&page_size=2&sort=name&sort_reverse=true")


@scenario
def pages_are_filtered_by_name(s: Run) -> None:
    for name in ("one", "two", "three", "four", "five"):
        s.put(f"/queues/{s.v}/{name}", {"durable": True})
    s.get(f"/queues/{s.v}?columns=name&page=1&page_size=10&name=o")
    s.get(f"/queues/{s.v}?columns=name&page=1&page_size=10&name=O")
    s.get(f"/queues/{s.v}?columns=name&page=1&page_size=10&name=nothing")
    s.get(f"/queues/{s.v}?columns=name&page=1&page_size=10&name=t.*e&use_regex=true")
    s.get(f"/queues/{s.v}?columns=name&page=1&page_size=10&name=t.*e&use_regex=false")
    s.get(f"/queues/{s.v}?columns=name&page=1&page_size=10&name=%5Ef&use_regex=true")
    s.get(f"/queues/{s.v}?columns=name&page=1&page_size=10&name=")
    s.get(f"/queues/{s.v}?columns=name&name=o")
    s.get(f"/queues/{s.v}?columns=name&page=1&page_size=10&pagination=true")
    s.get(f"/queues/{s.v}?columns=name&pagination=true")
    s.get(f"/exchanges/{s.v}?columns=name&page=1&page_size=3&name=amq")


@scenario
def empty_pages(s: Run) -> None:
    s.get(f"/queues/{s.v}?page=1&page_size=10")
    s.get(f"/queues/{s.v}?page=2&page_size=10")
    s.get(f"/vhosts/{s.v}/connections?page=1&page_size=10")
    s.get(f"/vhosts/{s.v}/channels?page=1&page_size=10")


@scenario
def a_name_is_decoded_once(s: Run) -> None:
    s.put(f"/queues/{s.v}/a%2Fb%20c%25d", {"durable": True})
    s.get(f"/queues/{s.v}?columns=name")
    s.get(f"/queues/{s.v}/a%2Fb%20c%25d?columns=name")
    s.get(f"/queues/{s.v}/a%2fb%20c%25d?columns=name")
    s.put(f"/queues/{s.v}/%C3%A4", {"durable": True})
    s.get(f"/queues/{s.v}/%C3%A4?columns=name")
    s.delete(f"/queues/{s.v}/a%2Fb%20c%25d")
    s.get(f"/queues/{s.v}?columns=name")


@scenario
def a_plus_in_a_path(s: Run) -> None:
    s.put(f"/queues/{s.v}/a+b", {"durable": True})
    s.get(f"/queues/{s.v}?columns=name")
    s.get(f"/queues/{s.v}/a+b?columns=name")


@scenario
def a_trailing_slash(s: Run) -> None:
    s.put(f"/queues/{s.v}/q", {"durable": True})
    s.get(f"/queues/{s.v}/?columns=name")
    s.get(f"/queues/{s.v}/q/?columns=name")
    s.get("/whoami/")


@scenario
def bodies_of_no_use(s: Run) -> None:
    for body in ("", "{", "[]", "1", "null"):
        s.post(f"/definitions/{s.v}", body)
        s.put(f"/permissions/{s.v}/nothing", body)
        s.put(f"/topic-permissions/{s.v}/nothing", body)
        s.post(f"/exchanges/{s.v}/nothing/publish", body)
        s.post(f"/queues/{s.v}/nothing/get", body)
    for value in (1, "x", None, True, 1.5, {"max-queues": "x"}, {"<": 1}):
        s.put(f"/parameters/vhost-limits/{s.v}/limits", {"value": value})
    s.put(f"/parameters/%3Cnothing%3E/{s.v}/x", {"value": 1})


@scenario
def texts_that_are_not_unicode(s: Run) -> None:
    s.put(f"/exchanges/{s.v}/e", r'{"auto_delete":"\ud800","durable":true}')
    s.put(f"/exchanges/{s.v}/e", r'{"type":"direct","\udc00":true}')
    s.put(f"/exchanges/{s.v}/e", r'{"durable":{"a":["\ud800"]}}')
    s.put(f"/exchanges/{s.v}/f", r'{"arguments":{"\ud800a":"1"}}')
    s.put(f"/exchanges/{s.v}/f", r'{"arguments":{"a":"\ud83d\ude00"}}')
    s.put(f"/policies/{s.v}/p", r'{"pattern":"a","definition":{"dead-letter-exchange":"\ud800"}}')
    s.put(f"/policies/{s.v}/p", r'{"pattern":"\udfff","definition":{"max-length":1}}')
    s.get(f"/policies/{s.v}/p")
    s.put(f"/users/{s.user('alice')}", r'{"password":"\ud800","tags":""}')
    s.put(f"/queues/{s.v}/q", {"durable": True})
    publish = r'{"properties":{},"routing_key":"q","payload":"\ud800","payload_encoding":"string"}'
    s.post(f"/exchanges/{s.v}/amq.default/publish", publish)
    s.post(f"/queues/{s.v}/q/get", {"count": 1, "ackmode": "ack_requeue_false", "encoding": "auto"})
    s.put(f"/vhosts/{s.v}", r'{"description":"\ud800"}')


@scenario
def json_that_is_not_quite(s: Run) -> None:
    s.put(f"/exchanges/{s.v}/e", '\ufeff{"type":"direct","durable":true}')
    s.put(f"/exchanges/{s.v}/f", '{"type":"direct","arguments":{"a":NaN}}')
    s.put(f"/exchanges/{s.v}/f", '{"type":"direct","arguments":{"a":1e400}}')
    s.put(f"/exchanges/{s.v}/f", '{"type":"direct","arguments":{"a":-Infinity}}')


@scenario
def lists_by_a_regular_expression(s: Run) -> None:
    s.put(f"/queues/{s.v}/{'a' * 34}!", {"durable": True})
    for name in ("%5E(a%2B)%2B!%24", "%5E(a%2B)%2B%24", "(", "A", "%5B", "a%7B2%7D"):
        s.get(f"/queues/{s.v}?page=1&page_size=10&use_regex=true&columns=name&disable_stats=true&name={name}")


@scenario
def names_of_downloads(s: Run) -> None:
    for name in ("a.json", "a%20b.json", "%ff", "%E2%82%AC", "a%0d%0aX:%201", "a%22b", "a%2fb", "a%25b", ""):
        s.get(f"/definitions/{s.v}?download={name}", without=_MADE_WITH)


# Which version made the definitions.
_MADE_WITH = ("rabbit_version", "rabbitmq_version", "product_name", "product_version", "explanation", "metadata")


@scenario
def a_missing_virtual_host_is_noticed_before_the_body(s: Run) -> None:
    for path in ("policies/nothing/p", "parameters/x/nothing/p", "vhost-limits/nothing/max-queues"):
        s.put(f"/{path}", {})
