"""A small version of RabbitMQ's management API in front of leveret, with what `--leveret-real` asks of a server."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote

from leveret import Broker, BrokerError


@contextmanager
def management_of(broker: Broker, version: str = "4.3.6") -> Iterator[str]:
    """Yield the URL of a management API for this broker, with its only user."""

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            parts = tuple(unquote(part) for part in self.path.split("/")[2:])
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length)) if length else {}
            status, told = 200, None
            try:
                told = answer_of(broker, version, self.command, parts, body)
            except (BrokerError, LookupError) as error:
                status, told = 400, {"error": "bad_request", "reason": str(error)}
            octets = b"" if told is None else json.dumps(told).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(octets)))
            self.end_headers()
            self.wfile.write(octets)

        do_GET = do_PUT = do_POST = do_DELETE = answer

        def log_message(self, *words: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def answer_of(broker: Broker, version: str, method: str, parts: tuple[str, ...], body: dict[str, Any]) -> object:
    """Return the server's answer."""
    match method, *parts:
        case "GET", "overview":
            return {"rabbitmq_version": version}
        case "PUT", "vhosts", vhost:
            broker.admin.add_vhost(vhost)
        case "DELETE", "vhosts", vhost:
            broker.admin.delete_vhost(vhost)
        case "PUT", "permissions", vhost, user:
            broker.admin.set_permissions(user, vhost, **body)
        case "PUT", "queues", vhost, name:
            broker.declare_queue(name, vhost=vhost, **body)
        case "PUT", "exchanges", vhost, name:
            broker.declare_exchange(name, vhost=vhost, **body)
        case "POST", "bindings", vhost, "e", source, "q", queue:
            broker.bind_queue(queue, source, vhost=vhost, **body)
        case "DELETE", "queues", vhost, queue, "contents":
            broker.purge_queue(queue, vhost=vhost)
        case "GET", "queues", vhost, name:
            queue = broker.queue(name, vhost=vhost)
            return {key: getattr(queue, key) for key in ("name", "durable", "auto_delete", "arguments", "type")}
        case "POST", "queues", vhost, name, "get":
            return [told_of(message) for message in broker.queue(name, vhost=vhost).ready]
        case "POST", "exchanges", vhost, name, "publish":
            octets = base64.b64decode(body["payload"])
            exchange = "" if name == "amq.default" else name
            is_routed = broker.publish(exchange, body["routing_key"], octets, vhost=vhost, **body["properties"])
            return {"routed": is_routed}
        case _:
            raise LookupError(f"{method} {'/'.join(parts)}")
    return None


def told_of(message: Any) -> dict[str, Any]:
    properties = {"content_type": message.content_type, "headers": message.headers}
    return {
        "exchange": message.exchange,
        "routing_key": message.routing_key,
        "redelivered": message.redelivered,
        "properties": {name: value for name, value in properties.items() if value},
        "payload": base64.b64encode(message.body).decode(),
        "payload_encoding": "base64",
    }
