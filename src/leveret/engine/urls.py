"""The URL of a broker, for a user and a virtual host."""

from __future__ import annotations

from typing import Final
from urllib.parse import quote, unquote, urlsplit

# The environment variables of this process that hold URLs of a broker of the run, or a part: each with the virtual host
# and the user of the URL, and the part.
VARIABLES: Final[dict[str, tuple[str, str, str]]] = {}
# The names of other machines that are a broker of the run for this process.
HOSTS: Final[set[str]] = set()


def amqp_url(host: str, port: int | None, *, user: str, password: str, vhost: str = "/", scheme: str = "amqp") -> str:
    """Return the URL that clients take. An IPv6 address gets its brackets."""
    # Without a path every client takes "/". With a lone slash not all of them do.
    path = "" if vhost == "/" else f"/{quote(vhost, safe='')}"
    return f"{scheme}://{quote(user, safe='')}:{quote(password, safe='')}@{url_host(host)}:{port}{path}"


def part_of(url: str, part: str) -> str:
    """Return a part of a URL of AMQP: "host", "port", "address", "user", "password" or "vhost"; or the "url" itself."""
    parts = urlsplit(url)
    values = {
        "url": url,
        "host": parts.hostname,
        "port": parts.port,
        "address": parts.netloc.rpartition("@")[2],
        "user": unquote(parts.username or ""),
        "password": unquote(parts.password or ""),
        "vhost": unquote(parts.path[1:]) or "/",
    }
    return str(values[part])


def url_host(host: str) -> str:
    """Return a host as a URL names it."""
    return f"[{host}]" if ":" in host else host
