"""The ways of a project to its RabbitMQ: the variables that its code reads, and the addresses that stand in it.

This module knows what a name or a text says; `module_reader` finds them in the code.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Final, NamedTuple
from urllib.parse import unquote, urlsplit

from pytest_leveret.options.kinds import without_password

AMQP_PORT: Final = 5672
HTTP_PORT: Final = 15672
LOCAL: Final = ("localhost", "127.0.0.1", "0.0.0.0", "::1")
_URL: Final = re.compile(r"(?:py)?(amqps?)://[^\s'\"]*$")
# A variable is about RabbitMQ by the first, and holds a part by the end of its name.
_BROKER: Final = re.compile(r"AMQP|RABBIT|RMQ|BROKER|(^|_)MQ_", re.IGNORECASE)
_RABBITMQ: Final = re.compile(r"AMQP|RABBIT|RMQ", re.IGNORECASE)
_ENDS: Final = {
    "url": re.compile(r"(^|_)(URL|URI|DSN)S?$", re.IGNORECASE),
    "vhost": re.compile(r"(VHOST|VIRTUAL_?HOST)$", re.IGNORECASE),
    "host": re.compile(r"(HOST|HOSTNAME)$", re.IGNORECASE),
    "port": re.compile(r"PORT$", re.IGNORECASE),
    "user": re.compile(r"(USER|USERNAME|LOGIN)$", re.IGNORECASE),
    "password": re.compile(r"(PASS|PASSWD|PASSWORD)$", re.IGNORECASE),
}
# A line of a file of settings that begins a section, and one that gives a value.
_SECTION: Final = re.compile(r"""\s*(?:\[+([\w.:-]+)\]+|["']?([\w.-]+)["']?\s*:\s*\{?)\s*(?:[#;].*)?""")
_VALUE: Final = re.compile(r"""\s*["']?([\w.-]+)["']?\s*[:=]\s*["']?([^\s"',#;]+)""")
# How compose files and workflows name a service of RabbitMQ.
_SERVICE: Final = re.compile(r"AMQP|RABBIT|RMQ|^(mq|broker)$", re.IGNORECASE)
# A variable of another port.
_TLS: Final = re.compile(r"(^|_)(SSL|TLS)|amqps:")
_MANAGEMENT: Final = re.compile(r"MANAGEMENT|MGMT|_API_|_HTTP_|ADMIN_", re.IGNORECASE)


class VariableRead(NamedTuple):
    """The reading of a variable, with the default of the code; "" for none."""

    variable: str
    default: str = ""


class BrokerAddress(NamedTuple):
    """Where the code connects to, and which file and line says so.

    The host of a variable is its name after "$". It is "" if the code names the port alone.
    """

    where: str
    host: str
    port: int = AMQP_PORT
    user: str = "guest"
    password: str = "guest"
    vhost: str = "/"
    scheme: str = "amqp"
    # Whether the place has a URL.
    is_url: bool = False

    @property
    def is_local(self) -> bool:
        """Whether it is on this machine."""
        return self.host in LOCAL or self.host[:1] in ("", "$")

    @property
    def is_of_docker(self) -> bool:
        """Whether its host is named as a service in a network of Docker, or has a number of a private network."""
        with suppress(ValueError):
            return not self.is_local and ip_address(self.host).is_private
        return not self.is_local and "." not in self.host and bool(_SERVICE.search(self.host))


class Held(NamedTuple):
    """What a variable holds: a part of the URL, and the default of the code."""

    part: str
    default: str
    where: str

    @property
    def is_usual(self) -> bool:
        """Whether the default leads to the usual port of this machine; what is no place leads nowhere else."""
        if self.part == "url":
            address = address_in(self.default, "")
            return address is not None and address.is_local and address[2] == AMQP_PORT and address.scheme == "amqp"
        return {"host": self.default in LOCAL, "port": self.default == str(AMQP_PORT)}.get(self.part, True)


def address_in(text: str, where: str) -> BrokerAddress | None:
    """Return the address in a URL of AMQP; None if it is none, or names no host."""
    matched = _URL.match(text)
    if matched is None or "{" in text or "%s" in text:
        return None
    with suppress(ValueError):
        parts = urlsplit(text)
        port = parts.port or (AMQP_PORT if matched[1] == "amqp" else AMQP_PORT - 1)
        if parts.hostname:
            user, password = unquote(parts.username or "guest"), unquote(parts.password or "guest")
            return BrokerAddress(
                where, parts.hostname, port, user, password, unquote(parts.path[1:]) or "/", matched[1], is_url=True
            )
    return None


@dataclass
class Addresses:
    """The ways of a project to its RabbitMQ."""

    # The variables about it that the code reads, and all others.
    held: dict[str, Held] = field(default_factory=dict)
    reads: dict[str, Held] = field(default_factory=dict)
    # Those that a client is given.
    used: set[str] = field(default_factory=set)
    # The addresses in the code.
    fixed: list[BrokerAddress] = field(default_factory=list)
    # The ports of management APIs in the code, by file and line.
    management: dict[str, int] = field(default_factory=dict)
    # The URLs that files give variables.
    given: dict[str, str] = field(default_factory=dict)
    users: dict[str, str] = field(default_factory=dict)
    vhosts: set[str] = field(default_factory=set)
    # Whether a file starts a RabbitMQ.
    has_server: bool = False
    clients: set[str] = field(default_factory=set)
    # The nodes of syntax trees that are accounted for.
    seen: set[int] = field(default_factory=set)

    def read_settings(self, variables: Mapping[str, str]) -> None:
        """Read what one place of a file gives variables, and the user of an image of RabbitMQ."""
        self.given |= {name: url for name, url in variables.items() if "://" in url and name not in self.given}
        user, password, vhost = (variables.get(f"RABBITMQ_DEFAULT_{word}", "") for word in ("USER", "PASS", "VHOST"))
        if user and password and "$" not in user + password:
            self.users.setdefault(user, password)
        if vhost and "$" not in vhost:
            self.vhosts.add(vhost)

    def read_file(self, text: str, name: str) -> None:
        """Read the addresses in a file of settings: URLs, and hosts with what stands beside them."""
        section, sections = "", dict[str, dict[str, tuple[str, str, str]]]()
        for number, line in enumerate(text.splitlines(), 1):
            where = f"{name}:{number}"
            if begun := _SECTION.fullmatch(line):
                section = begun[1] or begun[2]
            elif given := _VALUE.match(line):
                named = f"{section}_{given[1]}"
                part = next((word for word, end in _ENDS.items() if end.search(given[1])), "")
                if (address := address_in(given[2], where)) is not None:
                    self.fixed.append(address)
                elif part and not (_MANAGEMENT.search(named) or _TLS.search(named)):
                    sections.setdefault(section, {})[part] = given[2], where, named
        for parts in sections.values():
            host, where, named = parts.get("host", ("", "", ""))
            port = parts["port"][0] if "port" in parts else str(AMQP_PORT) if _RABBITMQ.search(named) else ""
            # Files name databases and other brokers like this too.
            is_ours = _RABBITMQ.search(named) or port == str(AMQP_PORT)
            if re.fullmatch(r"[\w.-]+", host) and port.isdecimal() and is_ours:
                login = {part: it[0] for part, it in parts.items() if part in ("user", "password", "vhost")}
                self.fixed.append(BrokerAddress(where, host, int(port), is_url=False, **login))

    def note(self, read: VariableRead, where: str, part: str | None = None) -> bool:
        """Note that the code reads a variable, as this part or as name and default say; return whether it counts."""
        name, default = read.variable, read.default
        given = self.given.get(name, "")
        self.used |= set() if part is None else {name}
        self.reads.setdefault(name, Held("url", default, where))
        if _URL.match(default) or _URL.match(given):
            part = "url"
        elif "://" in default or "://" in given:
            is_api = _MANAGEMENT.search(name) or f":{HTTP_PORT}" in default
            part = "management_url" if is_api and (part is None) and _BROKER.search(name) else ""
        elif part is None and _BROKER.search(name):
            part = next((word for word, end in _ENDS.items() if end.search(name)), "")
            if part in ("port", "url") and (default == str(HTTP_PORT) or _MANAGEMENT.search(name)):
                part = f"management_{part}"
        if not part or not name.isidentifier():
            return False
        known = self.held.get(name)
        if known is None or not known.default:
            self.held[name] = Held(part, default, where)
        return True

    def variables(self) -> dict[str, Held]:
        """Return the variables that lead to RabbitMQ, by what a file gives them, by their names or by their use."""
        found = {name: it for name, it in self.held.items() if it.part}
        found |= {name: it for name, it in self.reads.items() if _URL.match(self.given.get(name, ""))}
        found = {name: it for name, it in found.items() if not _TLS.search(f"{name} {it.default[:6]}")}
        # Other brokers than RabbitMQ have variables of this name.
        ours = {name for name in found if name in self.used or _RABBITMQ.search(name)}
        ports = {it.default for name, it in found.items() if it.part == "port" and name not in ours}
        is_other = not (self.clients or self.has_server) or ports - {"", str(AMQP_PORT)}
        return {
            name: it
            for name, it in found.items()
            if not is_other or name in ours or _URL.match(it.default or self.given.get(name, ""))
        }

    def local(self) -> list[BrokerAddress]:
        """Return the addresses on this machine at one port: the usual one, or else the one that most have.

        If variables have the port, another one than the usual belongs to something else, and so does the number of the
        usual one alone, also beside the name of another machine.
        """
        has_port = any(it.part in ("port", "url") for it in self.variables().values())
        is_placed = has_port or bool(self.of_docker())
        found = [it for it in self.fixed if it.is_local and it.scheme == "amqp" and (it.host or not is_placed)]
        counts = Counter(it.port for it in found)
        port = AMQP_PORT if has_port or AMQP_PORT in counts else next((port for port, _ in counts.most_common(1)), 0)
        return [it for it in found if it.port == port]

    def of_docker(self) -> list[BrokerAddress]:
        """Return the addresses that only a network of Docker, or another private one, knows."""
        return [it for it in self.fixed if it.is_of_docker and it.scheme == "amqp"]

    def lonely_host(self) -> str | None:
        """Return the place that reads a host from a variable, if no variable has a port or a URL."""
        found = self.variables().values()
        if any(it.part in ("port", "url") for it in found):
            return None
        return next((it.where for it in found if it.part == "host"), None)

    def logins(self) -> tuple[dict[str, str], set[str]]:
        """Return the users with their passwords, and the virtual hosts, beside guest and "/"."""
        held = self.variables()
        addresses = self.local() + self.of_docker()
        urls = [it.default or self.given.get(name, "") for name, it in held.items() if it.part == "url"]
        addresses += [found for url in urls if (found := address_in(url, "")) is not None]
        parts = {it.part: it.default for it in held.values()}
        users = self.users | {it.user: it.password for it in addresses}
        # Variables that lead to the management API have guest's login.
        if parts.get("user") and parts.get("password") and not any(part.startswith("management") for part in parts):
            users[parts["user"]] = parts["password"]
        vhosts = self.vhosts | {it.vhost for it in addresses} | {parts.get("vhost") or "/"}
        return {
            user: password for user, password in users.items() if (user, password) != ("guest", "guest")
        }, vhosts - {"/"}


def stated(address: BrokerAddress) -> str:
    """Return what the place of an address says: "names URL", without a password, or "leads to HOST, port NUMBER"."""
    if not address.is_url:
        return f"leads to {address.host}, port {address.port}" if address.host else f"names the port {address.port}"
    login = "" if address.user == "guest" else f"{address.user}:{address.password}@"
    vhost = "" if address.vhost == "/" else f"/{address.vhost}"
    return "names " + without_password(f"{address.scheme}://{login}{address.host}:{address.port}{vhost}")
