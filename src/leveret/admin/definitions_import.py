"""The import of definitions: RabbitMQ's definitions.json, read into a node.

It takes a whole broker or one virtual host, as `rabbitmqctl export_definitions` and the management API write them.
Existing queues, exchanges and bindings stay as they are. Users, permissions, limits and policies take the new values.
The order is RabbitMQ's (rabbit_definitions), and names that begin with `amq.` are skipped, as its clients may not
declare them. As there, what comes before a mistake has been done, and the exchanges, queues or bindings beside it too.
"""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from leveret.core.model.errors import AmqpError
from leveret.core.model.operators.access import USER_LIMITS, VHOST_LIMITS, User
from leveret.core.model.operators.passwords import ALGORITHMS, PasswordHash
from leveret.core.model.operators.patterns import is_too_long, name_pattern
from leveret.core.model.operators.pcre import UnsupportedError
from leveret.core.model.operators.policy import Policy, PolicyInvalid
from leveret.core.model.queues.queue_types import QUEUE_TYPES
from leveret.core.wire.values import Table
from leveret.errors import BrokerError, LeveretWarning, expected
from leveret.observe.calls.calls import shown, wrong_table, wrong_text
from leveret.observe.checks.judge import stack_level

if TYPE_CHECKING:
    from leveret.core.compat import Compat
    from leveret.core.model.binding import Destination
    from leveret.core.model.node import Node
    from leveret.core.model.vhost import VirtualHost

T = TypeVar("T")
_MISSING: Final = object()
OPERATOR_POLICY: Final = "operator_policy"
VHOST_LIMITS_PARAMETER: Final = "vhost-limits"
# An export of "/" holds amq.rabbitmq.log, so without this it could not be read into another virtual host.
_RESERVED: Final = "amq."
_ONE_VHOST: Final = "single_virtual_host"
# leveret ignores RabbitMQ's name of the format, and what its plugins and features add.
_SECTIONS: Final = (
    *("users", "vhosts", "permissions", "topic_permissions", "parameters", "global_parameters", "policies"),
    *("queues", "exchanges", "bindings"),
)


def read(source: Mapping[str, object] | str | Path) -> Mapping[str, object]:
    """Return the definitions in a file, or as they are given. Raises BrokerError if there are none."""
    if isinstance(source, Mapping):
        return source
    try:
        definitions = json.loads(Path(source).read_bytes())
    except RecursionError:
        raise BrokerError(f"{source} is nested too deeply to be definitions") from None
    except ValueError as error:
        raise BrokerError(f"{source} is not JSON: {error}") from None
    if not isinstance(definitions, Mapping) or not any(section in definitions for section in _SECTIONS):
        raise BrokerError(f"{source} holds no definitions; expected at least one of {', '.join(_SECTIONS)}")
    return definitions


def load(node: Node, definitions: Mapping[str, object], vhost: str | None = None) -> None:
    """Add what the definitions describe. Raises BrokerError with the object and key of a mistake.

    `vhost` takes the objects that name no virtual host, as in the definitions of a single one.
    """
    _Loading(node, definitions, vhost).run()


class _Loading:
    """One import of one set of definitions."""

    def __init__(self, node: Node, definitions: Mapping[str, object], vhost: str | None) -> None:
        self._node = node
        self._definitions = definitions
        is_of_one = definitions.get("rabbitmq_definition_format") == _ONE_VHOST
        self._default_vhost = "/" if vhost is None and is_of_one else vhost

    def run(self) -> None:
        for section, what, named_by, add in (
            ("users", "user", ("name",), self._add_user),
            ("vhosts", "vhost", ("name",), self._add_vhost),
            ("permissions", "permission of", ("user", "vhost"), self._add_permission),
            ("topic_permissions", "topic permission of", ("user", "vhost", "exchange"), self._add_topic_permission),
            ("parameters", "parameter", ("component", "name"), self._add_parameter),
            ("policies", "policy", ("name",), self._add_policy),
        ):
            for item in items(self._definitions, section, what, named_by):
                try:
                    add(item)
                except UnsupportedError as error:
                    warnings.warn(f"definitions: {item.place} is left out: {error}", LeveretWarning, stack_level())
            if section == "vhosts":
                self._refuse_queues_beyond_limits()
        for vhost in self._node.vhosts.values():
            vhost.policies_changed()
        _add_all(items(self._definitions, "exchanges", "exchange"), self._add_exchange)
        _add_all(items(self._definitions, "queues", "queue"), self._add_queue)
        places = ("source", "destination", "routing_key")
        _add_all(items(self._definitions, "bindings", "binding of", places), self._add_binding)

    def _refuse_queues_beyond_limits(self) -> None:
        """Refuse everything that is left if a virtual host has no room for its new queues (validate_limits)."""
        for host in self._node.vhosts.values():
            limit, count = host.limits.get("max-queues", -1), len(host.queues)
            if limit < 0:
                continue
            new = sum(
                it.get("vhost", self._default_vhost) == host.name and it.get("name") not in host.queues
                for it in items(self._definitions, "queues", "queue")
            )
            if new and limit < count + new:
                excess = (
                    f'Adding {new} queue(s) to virtual host "{host.name}" would exceed the limit of {limit} queue(s).'
                )
                state = f"This virtual host currently has {count} queue(s) defined."
                raise BrokerError(f"definitions: {excess}\n\n{state}\n\nImport aborted!")

    def _add_user(self, item: Item) -> None:
        user = User(item.text("name"), tags=item.texts("tags"), limits=item.limits("limits", USER_LIMITS))
        if item.get("password") is not None:
            user.password = item.text("password")
        elif item.get("password_hash"):
            # Files older than RabbitMQ 3.6 do not name the algorithm.
            algorithm = item.word("hashing_algorithm", ALGORITHMS, ALGORITHMS[-1])
            try:
                user.password_hash = PasswordHash.from_text(item.text("password_hash"), algorithm)
            except ValueError as error:
                raise item.wrong("password_hash", str(error)) from None
        old = self._node.access.users.get(user.name)
        if old is not None and old.password and user.password_hash and user.password_hash.matches(old.password):
            # The password is the same. A test is better served by the one that can be read.
            user.password, user.password_hash = old.password, None
        self._node.access.put_user(user)

    def _add_vhost(self, item: Item) -> None:
        metadata = item.inner("metadata", {})
        # RabbitMQ 4.0 exports the type beside the metadata too, and imports it from these alone.
        kind = metadata.get("default_queue_type") or "undefined"
        if kind not in (*QUEUE_TYPES, "undefined"):
            raise item.wrong("default_queue_type", f"is {kind!r}{expected(str(kind), QUEUE_TYPES)}")
        vhost = self._node.add_vhost(item.name("name"))
        vhost.default_queue_type = "classic" if kind == "undefined" else str(kind)
        vhost.description = metadata.text("description", "")
        vhost.tags = metadata.texts("tags")
        vhost.limits.update(item.limits("limits", VHOST_LIMITS))

    def _add_permission(self, item: Item) -> None:
        vhost, user = self._vhost_of(item), self._user_of(item)
        patterns = {right: item.pattern(right, self._node.compat) for right in ("configure", "write", "read")}
        self._node.access.set_permission(vhost.name, user.name, **patterns)

    def _add_topic_permission(self, item: Item) -> None:
        vhost, user = self._vhost_of(item), self._user_of(item)
        patterns = {right: item.pattern(right, self._node.compat) for right in ("write", "read")}
        self._node.access.set_topic_permission(vhost.name, user.name, item.text("exchange"), **patterns)

    def _add_parameter(self, item: Item) -> None:
        component = item.text("component")
        if component == OPERATOR_POLICY:
            host = self._vhost_of(item)
            value = item.inner("value", place=f"operator policy {item.text('name')!r}")
            # Only policies of users may leave it out.
            value.number("priority")
            with _naming(value):
                host.policies.operator.set(self._policy(item, value))
        elif component == VHOST_LIMITS_PARAMETER:
            self._vhost_of(item).limits.update(item.limits("value", VHOST_LIMITS))
        else:
            # Shovels, upstreams and other parameters of plugins.
            raise item.wrong(
                "component", f"is {component!r}; expected one of {OPERATOR_POLICY}, {VHOST_LIMITS_PARAMETER}"
            )

    def _add_policy(self, item: Item) -> None:
        host = self._vhost_of(item)
        with _naming(item):
            host.policies.user.set(self._policy(item, item))

    def _policy(self, item: Item, value: Item) -> Policy:
        pattern = value.text("pattern")
        try:
            name_pattern(pattern, is_pcre2=self._node.compat.has_pcre2)
        except UnsupportedError:
            raise
        except re.error:
            # The policies refuse it, in RabbitMQ's words.
            pass
        return Policy(
            item.text("name"),
            pattern,
            value.mapping("definition"),
            priority=value.number("priority", 0),
            apply_to=value.text("apply-to", "all"),
        )

    def _add_queue(self, item: Item) -> None:
        host, name = self._vhost_of(item), item.name("name")
        # RabbitMQ exports the type beside the arguments, and imports it from these alone.
        item.word("type", QUEUE_TYPES, host.default_queue_type)
        if name in host.queues or name.startswith(_RESERVED):
            return
        with _naming(item):
            host.declare_queue(
                name,
                durable=item.flag("durable", True),
                auto_delete=item.flag("auto_delete", False),
                arguments=item.table("arguments"),
            )

    def _add_exchange(self, item: Item) -> None:
        host, name = self._vhost_of(item), item.name("name")
        if name in host.exchanges or name.startswith(_RESERVED):
            return
        with _naming(item):
            host.declare_exchange(
                name,
                item.text("type"),
                durable=item.flag("durable", True),
                auto_delete=item.flag("auto_delete", False),
                internal=item.flag("internal", False),
                arguments=item.table("arguments"),
            )

    def _add_binding(self, item: Item) -> None:
        host, source = self._vhost_of(item), item.text("source")
        if not source:
            return
        if source not in host.exchanges:
            raise item.wrong("source", f"names the unknown exchange {source!r}{expected(source, host.exchanges)}")
        kind, name = item.word("destination_type", ("queue", "exchange")), item.text("destination")
        destinations: Mapping[str, Destination] = host.queues if kind == "queue" else host.exchanges
        if name not in destinations:
            raise item.wrong("destination", f"names the unknown {kind} {name!r}{expected(name, destinations)}")
        with _naming(item):
            host.bind(host.exchanges[source], destinations[name], item.name("routing_key"), item.table("arguments"))

    def _vhost_of(self, item: Item) -> VirtualHost:
        name = item.text("vhost", _MISSING if self._default_vhost is None else self._default_vhost)
        if name not in self._node.vhosts:
            raise item.wrong("vhost", f"names the unknown virtual host {name!r}{expected(name, self._node.vhosts)}")
        return self._node.vhosts[name]

    def _user_of(self, item: Item) -> User:
        name, users = item.text("user"), self._node.access.users
        if name not in users:
            raise item.wrong("user", f"names the unknown user {name!r}{expected(name, users)}")
        return users[name]


def _add_all(found: Iterable[Item], add: Callable[[Item], None]) -> None:
    """Add every object of a section that can be added, and then raise the first mistake."""
    mistakes: list[BrokerError] = []
    for item in found:
        try:
            add(item)
        except BrokerError as error:
            mistakes.append(error)
    if mistakes:
        raise mistakes[0]


def _has_null(value: object) -> bool:
    inner = value.values() if isinstance(value, Mapping) else value if isinstance(value, (list, tuple)) else ()
    return value is None or any(map(_has_null, inner))


@contextmanager
def _naming(item: Item) -> Iterator[None]:
    """Add the object to the text of a refusal."""
    try:
        yield
    except AmqpError as error:
        raise BrokerError(f"definitions: {item.place}: {error.reply_text}") from None
    except PolicyInvalid as error:
        raise BrokerError(f"definitions: {item.place}: Validation failed: {error}") from None


class Item:
    """One object of one section."""

    def __init__(self, place: str, values: Mapping[str, object]) -> None:
        """Keep the values. `place` is what error messages call the object."""
        self.place = place
        self._values = values

    def wrong(self, key: str, fault: str) -> BrokerError:
        """Return the error about the value of a key."""
        return BrokerError(f"definitions: {self.place}: {key!r} {fault}")

    def get(self, key: str, default: object = None) -> object:
        """Return the value of a key, unchecked."""
        return self._values.get(key, default)

    def text(self, key: str, default: object = _MISSING) -> str:
        """Return the string of a key."""
        value = self._typed(key, default, str, "a string")
        try:
            value.encode("utf-8", "surrogateescape")
        except UnicodeEncodeError:
            raise self.wrong(key, f"has a lone surrogate, which UTF-8 cannot encode: {value!r}") from None
        return value

    def name(self, key: str) -> str:
        """Return the string of a key that clients have to send as a short string of AMQP."""
        value = self.text(key)
        wrong = wrong_text(repr(key), value)
        if wrong is not None:
            raise BrokerError(f"definitions: {self.place}: {wrong}")
        return value

    def table(self, key: str) -> Table:
        """Return the field table of a key."""
        value = self.mapping(key, {})
        wrong = wrong_table(key, value)
        if wrong is not None:
            raise BrokerError(f"definitions: {self.place}: {wrong}")
        if _has_null(value):
            raise self.wrong(key, f"must have no null, not {value!r}; leave out what has no value")
        return Table.from_python(value)

    def flag(self, key: str, default: object = _MISSING) -> bool:
        """Return the boolean of a key."""
        return self._typed(key, default, bool, "true or false")

    def number(self, key: str, default: object = _MISSING) -> int:
        """Return the integer of a key."""
        return self._typed(key, default, int, "an integer")

    def mapping(self, key: str, default: object = _MISSING) -> Mapping[str, object]:
        """Return the object of a key."""
        # Erlang sometimes writes an empty object as an empty list.
        value = {} if self.get(key) == [] else self._value(key, default)
        if not isinstance(value, Mapping):
            raise self.wrong(key, f"must be an object, not {value!r}")
        return value

    def texts(self, key: str) -> tuple[str, ...]:
        """Return the strings of a key: a list, or one string with commas, as old versions write it."""
        value = self._value(key, ())
        if isinstance(value, str):
            return tuple(filter(None, (each.strip() for each in value.split(","))))
        if not isinstance(value, (list, tuple)) or not all(isinstance(each, str) for each in value):
            raise self.wrong(key, f"must be a list of strings, not {value!r}")
        return tuple(value)

    def pattern(self, key: str, compat: Compat) -> str:
        """Return the regular expression of a key. Raises UnsupportedError if leveret cannot match it."""
        pattern = self.text(key)
        if is_too_long(pattern, compat.max_pattern_bytes):
            raise self.wrong(key, f"must have at most {compat.max_pattern_bytes} bytes, not {len(pattern.encode())}")
        try:
            name_pattern(pattern, is_pcre2=compat.has_pcre2)
        except UnsupportedError:
            raise
        except re.error as error:
            raise self.wrong(key, f"must be a regular expression, not {pattern!r}: {error}") from None
        return pattern

    def word(self, key: str, known: Iterable[str], default: object = _MISSING) -> str:
        """Return the string of a key, which must be one of those known."""
        word = self.text(key, default)
        if word not in known:
            raise self.wrong(key, f"is {word!r}{expected(word, known)}")
        return word

    def limits(self, key: str, known: Sequence[str]) -> dict[str, int]:
        """Return the limits of a key, by name."""
        limits = self.inner(key, {})
        for name in limits._values:
            if name not in known:
                raise self.wrong(key, f"has the unknown limit {name!r}{expected(name, known)}")
        return {name: limits.number(name) for name in limits._values}

    def inner(self, key: str, default: object = _MISSING, place: str = "") -> Item:
        """Return the object of a key as an item, for errors in the same place or another one."""
        return Item(place or self.place, self.mapping(key, default))

    def _value(self, key: str, default: object) -> object:
        value = self._values.get(key, default)
        if value is _MISSING:
            raise self.wrong(key, "is missing")
        return value

    def _typed(self, key: str, default: object, kind: type[T], what: str) -> T:
        value = self._value(key, default)
        # In Python a truth value is a number.
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            raise self.wrong(key, f"must be {what}, not {value!r}")
        return value


def items(
    definitions: Mapping[str, object], section: str, what: str, named_by: Sequence[str] = ("name",)
) -> Iterator[Item]:
    """Yield the objects of one section. Raises BrokerError if the section is not a list of objects.

    `what` an object is, and the values of its keys in `named_by`, are for error messages.
    """
    objects = definitions.get(section, ())
    if not isinstance(objects, (list, tuple)):
        raise BrokerError(f"definitions: {section!r} must be a list, not {objects!r}")
    for number, values in enumerate(objects, start=1):
        place = f"number {number} of {section!r}"
        if not isinstance(values, Mapping):
            raise BrokerError(f"definitions: {place} must be an object, not {values!r}")
        names = [shown(values[key]) for key in named_by if key in values]
        yield Item(f"{what} {' '.join(names)}" if names else place, values)
