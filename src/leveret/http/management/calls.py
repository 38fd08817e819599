"""A call of the management API: the user, the request, the refusals of every endpoint, and what the API keeps."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final, TypeVar

from leveret.admin.admin import Admin
from leveret.admin.values import Item
from leveret.core.compat import Compat
from leveret.core.model.errors import AmqpError
from leveret.core.model.message import Message
from leveret.core.model.node import Node
from leveret.core.model.operators.access import User
from leveret.core.model.operators.node_settings import NODE_NAME
from leveret.core.model.vhost import VirtualHost
from leveret.core.protocol.rights import UserRights
from leveret.core.wire import erlang
from leveret.core.wire.methods import BasicGetOk, BasicNack, BasicReturn, Method
from leveret.engine.engine import Engine
from leveret.http.management.statistics import INTERNAL_USER, Statistics
from leveret.http.messages import Request, Response, json_of, refusal
from leveret.scripted.own_connection import OwnChannel, OwnConnection
from leveret.server import native

T = TypeVar("T")

CREATED: Final = Response(201)
DONE: Final = Response(204)
# The answer to what RabbitMQ's server cannot read or send.
MALFORMED: Final = Response(400)
# The name of the default exchange in paths.
DEFAULT_EXCHANGE: Final = "amq.default"
# The answer to a user who may not open the virtual host at all.
ACCESS_REFUSED: Final = "Access refused."
# The answer to a user who may not see or change something of another's.
NOT_YOURS: Final = "User not authorised to access object"


class RefusedCall(Exception):
    """A request that is answered with an error."""

    def __init__(self, response: Response) -> None:
        super().__init__(response.status)
        self.response = response


def refused(status: int, error: str, reason: object) -> RefusedCall:
    """Return a refusal with a word for programs, and a reason."""
    return RefusedCall(refusal(status, error, reason))


def bad_request(reason: object) -> RefusedCall:
    """Return the refusal of a request with a wrong body or value."""
    return refused(400, "bad_request", reason)


def no_object() -> RefusedCall:
    """Return the refusal of a path that names something that does not exist."""
    return refused(404, "Object Not Found", "Not Found")


def not_found(reason: str = "Not Found") -> RefusedCall:
    """Return the refusal of something that the user may not see, or that a body names and does not exist."""
    return refused(404, "not_found", reason)


def not_authorised(reason: str) -> RefusedCall:
    """Return the refusal of a user who lacks a tag or a permission."""
    return refused(401, "not_authorised", reason)


def refuse_other_node(body: Item, compat: Compat) -> None:
    """Refuse a body that names a node which does not exist."""
    node = body.text("node", NODE_NAME)
    if node != NODE_NAME:
        raise bad_request(
            f"Node {node} {'is not a cluster member' if compat.knows_nodes else 'could not be contacted'}"
        )


class ManagementState:
    """What one management API keeps beside the broker's own state. A broker that is reset begins with a fresh one."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        # Held while a request is answered. It is taken before the broker's lock, which is held for parts of that only.
        self.lock = native.reentrant_lock()
        self._begin(engine.node)

    def _begin(self, node: Node) -> None:
        self._node = node
        self.statistics = Statistics()
        self.started_at = node.wall_now

    def catch_up(self, actor: str = INTERNAL_USER) -> None:
        """Count what clients and `actor` have done. The caller holds this state's lock, and not the broker's."""
        with self.engine.lock:
            if self.engine.node is not self._node:
                self._begin(self.engine.node)
            new = self.statistics.unread(self.engine.recorder)
        self.statistics.read(new, actor)


class UsersChannel(OwnChannel):
    """A channel on which the management API declares, deletes, binds, purges and gets for a user.

    RabbitMQ's management API does all this by methods of AMQP. So here, too, the handlers of these methods decide what
    is refused, in which order, and what a name stands for.
    """

    __slots__ = ("got", "is_refused", "is_returned")

    def __init__(self, connection: OwnConnection, rights: UserRights) -> None:
        super().__init__(connection, lambda tag, view: None)
        self.rights = rights
        self.is_limited = False
        # The answers to basic.get, with the messages.
        self.got: list[tuple[BasicGetOk, Message, bytes | None]] = []
        # What became of its publish.
        self.is_returned = self.is_refused = False

    def send(self, method: Method) -> None:
        """Note whether a queue has refused the publish."""
        self.is_refused = self.is_refused or isinstance(method, BasicNack)

    def send_return(self, method: BasicReturn, message: Message) -> None:
        """Note that the publish reached no queue."""
        self.is_returned = True

    def send_message(self, method: Method, message: Message, properties_octets: bytes | None = None) -> None:
        """Keep what a client would be sent."""
        assert isinstance(method, BasicGetOk)
        self.got.append((method, message, properties_octets))


class ManagementCall:
    """One request of a user, with the values of its path."""

    def __init__(self, state: ManagementState, request: Request, user: User | None, values: Mapping[str, str]) -> None:
        self.state = state
        self.engine: Engine = state.engine
        self.compat: Compat = state.engine.compat
        self.request = request
        self._user = user
        self.values = values
        self.parameters = request.parameters

    @property
    def user(self) -> User:
        """The user of the request. Only endpoints that need no credentials have none."""
        assert self._user is not None
        return self._user

    @property
    def node(self) -> Node:
        """The node. The caller holds the broker's lock."""
        return self.engine.node

    def is_tagged(self, *tags: str) -> bool:
        """Return whether the user has one of these tags."""
        return any(tag in self.user.tags for tag in tags)

    @property
    def admin(self) -> Admin:
        """The commands of an operator."""
        return Admin(self.engine)

    @property
    def is_administrator(self) -> bool:
        """Whether the user has the tag administrator."""
        return self.is_tagged("administrator")

    @property
    def is_monitor(self) -> bool:
        """Whether the user sees what belongs to others: the tag monitoring suffices."""
        return self.is_tagged("administrator", "monitoring")

    def may_see(self, vhost_name: str) -> bool:
        """Return whether the user sees a virtual host: administrators see all, others those they may open."""
        return self.is_administrator or self.node.access.may_open(self.user.name, vhost_name)

    def vhosts(self) -> Iterator[VirtualHost]:
        """Yield the virtual hosts that a list shows: that of the path, or all that the user sees."""
        if "vhost" in self.values:
            yield self.vhost
            return
        for vhost in list(self.node.vhosts.values()):
            if self.may_see(vhost.name):
                yield vhost

    def visible(self, description: dict[str, object]) -> dict[str, object]:
        """Return a description without the keys that the version does not show."""
        return {name: value for name, value in description.items() if name not in self.compat.hidden_keys}

    def asks_for(self, part: str, name: str) -> bool:
        """Return whether the path has this name at a part, or has no such part and so selects all."""
        return self.values.get(part, name) == name

    @property
    def vhost(self) -> VirtualHost:
        """The virtual host of the path. Raises RefusedCall if it does not exist."""
        return self.existing(self.node.vhosts, "vhost")

    def existing(self, known: Mapping[str, T], name: str) -> T:
        """Return what a name of the path stands for. Raises RefusedCall if it does not exist."""
        try:
            return known[self.values[name]]
        except KeyError:
            raise no_object() from None

    @property
    def changed_vhost(self) -> VirtualHost:
        """The virtual host in which something is to be made. Raises RefusedCall if it does not exist."""
        vhost = self.node.vhosts.get(self.values["vhost"])
        if vhost is None:
            raise not_found("vhost_not_found")
        return vhost

    @property
    def exchange_name(self) -> str:
        """The exchange of the path."""
        return self.name_of("exchange")

    def name_of(self, part: str) -> str:
        """Return a name of the path. The default exchange is named amq.default there."""
        name = self.values[part]
        return "" if name == DEFAULT_EXCHANGE else name

    def flag(self, name: str) -> bool:
        """Return whether a parameter of the query is "true"."""
        return self.parameters.get(name) == "true"

    def body(self, *required: str) -> Item:
        """Return the JSON object of the body. Raises RefusedCall if it is none, or lacks a required key."""
        value = Item(parsed(self.request.body, self.compat))
        missing = [name for name in required if name not in value]
        if missing:
            raise bad_request(erlang.listed((f"{{key_missing,{name}}}" for name in missing), 0))
        return value

    @contextmanager
    def acting(self) -> Iterator[Node]:
        """Change the node. What it refuses becomes the answer."""
        self.engine.sync()
        with self.engine.acting() as node:
            try:
                yield node
            except AmqpError as error:
                raise answer_to(error) from None

    @contextmanager
    def channel(self, vhost: VirtualHost) -> Iterator[UsersChannel]:
        """Open a channel to a virtual host for the user. The caller is acting. Raises RefusedCall as `rights` does."""
        rights = self.rights(vhost)
        connection = OwnConnection(self.node, vhost, is_waited_for=False)
        try:
            yield UsersChannel(connection, rights)
        finally:
            connection.end(None)

    def rights(self, vhost: VirtualHost) -> UserRights:
        """Return what the user may do in a virtual host. Raises RefusedCall if the user may not open it."""
        if not self.node.access.may_open(self.user.name, vhost.name):
            raise not_authorised(ACCESS_REFUSED)
        return UserRights(self.user.name, vhost)


def answer_to(error: AmqpError) -> RefusedCall:
    """Return the answer for a refusal of the model (rabbit_mgmt_util:with_channel)."""
    if error.code == 403:
        return not_authorised(ACCESS_REFUSED)
    if error.code == 404:
        return not_found(error.explanation)
    return bad_request(error.explanation)


def value_of(octets: bytes, compat: Compat) -> object:
    """Return the value of a JSON text, as a version's parser reads it. Raises ValueError or RecursionError."""
    if compat.replaces_surrogates:
        text = octets.decode("utf-8-sig", "replace")
        # An escape can stand for half a character too.
        value = json.loads(text)
        octets = (
            json.dumps(value, ensure_ascii=False).encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode()
        )
    return json_of(octets)


def parsed(octets: bytes, compat: Compat) -> dict[str, object]:
    """Return a body as a JSON object; an empty body is an empty one. Raises RefusedCall."""
    if not octets:
        return {}
    try:
        value = value_of(octets, compat)
    except (ValueError, RecursionError):
        raise bad_request("not_json") from None
    if value is None:
        return {}
    if isinstance(value, str):
        text = "invalid payload: the request body JSON-decoded to a string. Is the input doubly-JSON-encoded?"
        raise bad_request(text)
    if not isinstance(value, dict):
        raise bad_request("not_json")
    return value


# What answers a call: a value to send as JSON, or a whole response.
Answer = Callable[[ManagementCall], object]
