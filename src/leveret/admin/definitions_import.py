"""The import of definitions: RabbitMQ's definitions.json, read into a node.

It takes a whole broker or one virtual host, as `rabbitmqctl export_definitions` and the management API write them.
Existing queues, exchanges and bindings stay as they are. Users, permissions, limits and policies take the new values.
The order is RabbitMQ's (rabbit_definitions), and names that begin with `amq.` are skipped, as its clients may not
declare them. As there, what comes before a mistake has been done, and the objects of the same section too, unless they
are policies or parameters.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from leveret.admin.values import Item, UnmatchableValue, WrongValue, octets_of
from leveret.core.compat import Compat
from leveret.core.model.errors import AmqpError
from leveret.core.model.operators.access import RIGHTS, USER_LIMITS, VHOST_LIMITS, User
from leveret.core.model.operators.passwords import ALGORITHMS, DEFAULT_ALGORITHM, PasswordHash
from leveret.core.model.operators.policy import Policy, PolicyInvalid
from leveret.core.model.operators.policy_keys import printed
from leveret.core.model.queues.queue_types import QUEUE_TYPES
from leveret.core.wire import erlang
from leveret.engine.elsewhere import warn
from leveret.errors import BrokerError, did_you_mean, expected
from leveret.observe.calls.calls import shown

if TYPE_CHECKING:
    from leveret.core.compat import Compat
    from leveret.core.model.binding import Destination
    from leveret.core.model.node import Node
    from leveret.core.model.vhost import VirtualHost

OPERATOR_POLICY: Final = "operator_policy"
VHOST_LIMITS_PARAMETER: Final = "vhost-limits"
# The only name that the parameter of limits may have.
_LIMITS: Final = "limits"
# The parameters of plugins, and the keys of policies, that a file of production may have and leveret has not.
_OF_PLUGINS: Final = {
    "shovel": "shovels",
    "federation": "federation",
    "federation-upstream": "federation",
    "federation-upstream-set": "federation",
    "federation-upstream-pattern": "federation",
}
# The component that is none, and RabbitMQ's text about it.
POLICY: Final = "policy"
NO_PARAMETER: Final = "policies may not be set using this method"
# An export of "/" holds amq.rabbitmq.log, so without this it could not be read into another virtual host.
_RESERVED: Final = "amq."
_ONE_VHOST: Final = "single_virtual_host"
# leveret ignores RabbitMQ's name of the format, and what its plugins and features add.
_SECTIONS: Final = (
    *("users", "vhosts", "permissions", "topic_permissions", "parameters", "global_parameters", "policies"),
    *("queues", "exchanges", "bindings"),
)
# The versions whose files do not name the algorithm of a password's hash, which was this one.
_MD5_VERSIONS: Final = tuple(f"3.{minor}." for minor in range(6))
TOPIC_RIGHTS: Final = ("write", "read")
_MD5: Final = ALGORITHMS[-1]
_USER_TAGS_MAX: Final = 32
# What RabbitMQ says of a policy that lacks a key.
_MISSING_OF_POLICY: Final = {
    "definition": "parse error while reading policy definition: undefined. Validator: policy_validator.",
    "pattern": "pattern should be a binary but was undefined",
}


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


def load(
    node: Node,
    definitions: Mapping[str, object],
    vhost: str | None = None,
    user: str | None = None,
    *,
    refuses_plugins: bool = False,
) -> list[str]:
    """Add what the definitions describe, and return the objects that were left out, with the reason of each.

    With `vhost`, take what belongs in a virtual host only, and put it there. `user` gets every right in new virtual
    hosts. What needs a plugin that leveret has not is left out, or refused as by a RabbitMQ without the plugin. Raises
    BrokerError with the object and key of a mistake.
    """
    loading = _Loading(node, definitions, vhost, user, {} if refuses_plugins else _OF_PLUGINS)
    loading.run()
    return loading.left_out


def default_vhost(definitions: Mapping[str, object]) -> str | None:
    """Return where definitions go that name no virtual host, None if they are those of a whole broker."""
    return "/" if definitions.get("rabbitmq_definition_format") == _ONE_VHOST else None


def warn_of(left_out: list[str]) -> None:
    """Warn of each object that an import has left out."""
    for text in left_out:
        warn(text)


class _Section(NamedTuple):
    """One section of definitions: what an object is, and the keys that name it in error messages."""

    name: str
    what: str
    named_by: tuple[str, ...]
    add: Callable[[Item], None]
    # Whether it is read for a single virtual host too.
    is_in_vhost: bool = False
    # Whether a mistake ends the section; otherwise the objects beside it are added.
    ends_at_mistake: bool = False


class _Loading:
    """One import of one set of definitions."""

    def __init__(
        self,
        node: Node,
        definitions: Mapping[str, object],
        vhost: str | None,
        user: str | None,
        left_out_plugins: Mapping[str, str],
    ) -> None:
        self._node = node
        self._left_out_plugins = left_out_plugins
        self._user = user
        self._definitions = definitions
        self._vhost = vhost
        self.left_out: list[str] = []

    def run(self) -> None:
        for key in self._definitions:
            hint = "" if key in _SECTIONS else did_you_mean(key, _SECTIONS)
            if hint:
                self.left_out.append(f"definitions have no section {key!r}, so RabbitMQ ignores it{hint}")
        places = ("source", "destination", "routing_key")
        policies = _Section("policies", "policy", ("name",), self._add_policy, True, True)
        parameters = _Section("parameters", "parameter", ("component", "name"), self._add_parameter, True, True)
        is_of_one = self._vhost is not None
        for section in (
            _Section("users", "user", ("name",), self._add_user),
            _Section("vhosts", "vhost", ("name",), self._add_vhost),
            _Section("permissions", "permission of", ("user", "vhost"), self._add_permission),
            _Section("exchanges", "exchange", ("name",), self._add_exchange, True),
            _Section(
                *("topic_permissions", "topic permission of", ("user", "vhost", "exchange")),
                self._add_topic_permission,
            ),
            _Section("global_parameters", "global parameter", ("name",), self._add_global_parameter, False, True),
            *((parameters, policies) if is_of_one else (policies, parameters)),
            _Section("queues", "queue", ("name",), self._add_queue, True),
            _Section("bindings", "binding of", places, self._add_binding, True),
        ):
            if section.is_in_vhost or not is_of_one:
                self._add_all(section)
            if section.name == "vhosts":
                self._refuse_queues_beyond_limits()

    def _add_all(self, section: _Section) -> None:
        """Add every object of a section that can be added, and then raise the first mistake."""
        mistakes: list[BrokerError] = []
        for item in items(self._definitions, section.name, section.what, section.named_by):
            try:
                section.add(item)
            except (UnmatchableValue, _LeftOut) as why:
                self.left_out.append(f"definitions: {item.place} is left out: {why}")
            except BrokerError as error:
                mistakes.append(error)
                if section.ends_at_mistake:
                    break
        if section.name in ("policies", "parameters"):
            for vhost in self._node.vhosts.values():
                vhost.policies_changed()
        if mistakes:
            raise mistakes[0]

    def _refuse_queues_beyond_limits(self) -> None:
        """Refuse everything that is left if a virtual host has no room for its new queues (validate_limits)."""
        for host in self._node.vhosts.values():
            limit, count = host.limits.get("max-queues", -1), len(host.queues)
            if limit < 0 or self._vhost not in (None, host.name):
                continue
            new = sum(
                (self._vhost or it.get("vhost")) == host.name and it.get("name") not in host.queues
                for it in items(self._definitions, "queues", "queue")
            )
            if new and limit < count + new:
                excess = (
                    f'Adding {new} queue(s) to virtual host "{host.name}" would exceed the limit of {limit} queue(s).'
                )
                state = f"This virtual host currently has {count} queue(s) defined."
                raise WrongValue(
                    f"definitions: {excess}\n\n{state}\n\nImport aborted!", f"{excess}\n\n{state}\n\nImport aborted!"
                )

    def _add_user(self, item: Item) -> None:
        version = str(self._definitions.get("rabbitmq_version", self._definitions.get("rabbit_version", "")))
        algorithm = _MD5 if version.startswith(_MD5_VERSIONS) else DEFAULT_ALGORITHM
        put(self._node, user_of(item, item.text("name"), self._node.compat, algorithm))

    def _add_vhost(self, item: Item) -> None:
        metadata = Item({}) if item.get("metadata") == [] else item.inner("metadata", {})
        compat, name = self._node.compat, item.name("name")
        kind = (
            None
            if metadata.get("default_queue_type") == ""
            else queue_type_of(metadata, compat, ("default_queue_type",))
        )
        if self._user is not None and name not in self._node.vhosts:
            self._node.access.set_permission(name, self._user)
        first, then = (metadata, item) if compat.checks_operator_values else (item, metadata)
        described = Item({key: it.get(key) for it in (then, first) for key in ("description", "tags") if key in it})
        vhost = put_vhost(self._node, name, kind, described, self._user)
        if "protected_from_deletion" in metadata and compat.protects_vhosts:
            vhost.is_protected = metadata.flag("protected_from_deletion")
        if "tracing" in item:
            (vhost.trace_on if item.parsed_flag("tracing") else vhost.trace_off)()

    def _add_permission(self, item: Item) -> None:
        patterns = patterns_of(item, RIGHTS, self._node.compat)
        vhost, user = self._vhost_of(item), self._user_of(item)
        self._node.access.set_permission(vhost.name, user.name, **patterns)

    def _add_topic_permission(self, item: Item) -> None:
        vhost, user, exchange = self._vhost_of(item), self._user_of(item), item.text("exchange")
        if exchange not in vhost.exchanges and self._node.compat.topic_permissions_need_exchange:
            fault = f"names the unknown exchange {exchange!r}{expected(exchange, vhost.exchanges)}"
            raise item.wrong("exchange", fault, ["no_such_exchange", exchange])
        patterns = patterns_of(item, TOPIC_RIGHTS, self._node.compat)
        self._node.access.set_topic_permission(vhost.name, user.name, exchange, **patterns)

    def _add_parameter(self, item: Item) -> None:
        component, name = item.text("component"), item.text("name")
        if component == POLICY:
            reason = self._located(NO_PARAMETER, self._vhost or item.text("vhost"), (component, name))
            raise item.wrong("component", f"is {POLICY!r}; policies have a section of their own", reason)
        host = self._vhost_of(item)
        if component in self._left_out_plugins:
            raise _LeftOut(f"leveret has no {self._left_out_plugins[component]}")
        with self._naming(item, host, component, name):
            if component == OPERATOR_POLICY:
                host.policies.operator.set(self._policy(name, operator_value_of(item, name)))
            elif component == VHOST_LIMITS_PARAMETER:
                host.limits = vhost_limits_of(item, name)
            else:
                # Shovels, upstreams and other parameters of plugins.
                known = f"{OPERATOR_POLICY}, {VHOST_LIMITS_PARAMETER}"
                reason = f"component {component} not found"
                raise item.wrong("component", f"is {component!r}; expected one of {known}", reason)

    def _add_global_parameter(self, item: Item) -> None:
        self._node.set_global_parameter(item.text("name"), item.get("value"))

    def _add_policy(self, item: Item) -> None:
        host, name = self._vhost_of(item), item.text("name")
        definition = item.get("definition")
        if isinstance(definition, Mapping) and (keys := definition.keys() & self._left_out_plugins.keys()):
            texts = [f"{key!r}, as leveret has no {self._left_out_plugins[key]}" for key in sorted(keys)]
            if keys == definition.keys():
                raise _LeftOut(f"it sets only {', '.join(texts)}")
            self.left_out.append(f"definitions: of {item.place}, a key is left out: {', '.join(texts)}")
            rest = {key: value for key, value in definition.items() if key not in keys}
            item = Item({**{key: item.get(key) for key in item}, "definition": rest}, item.place)
        with self._naming(item, host, name):
            host.policies.user.set(self._policy(name, item))

    def _policy(self, name: str, value: Item) -> Policy:
        try:
            value.pattern("pattern", self._node.compat)
        except UnmatchableValue:
            raise
        except WrongValue:
            # The policies refuse it, in RabbitMQ's words.
            pass
        return policy_of(name, value)

    def _add_queue(self, item: Item) -> None:
        # RabbitMQ exports the type beside the arguments, and imports it from these alone.
        host, name = self._vhost_of(item), item.name("name")
        if not name or name in host.queues or name.startswith(_RESERVED):
            return
        arguments = item.sendable_table("arguments")
        durable = self._flag(item, "queue", "durable", True)
        auto_delete = self._flag(item, "queue", "auto_delete", False)
        with self._naming(item, host):
            host.declare_queue(name, durable=durable, auto_delete=auto_delete, arguments=arguments)

    def _add_exchange(self, item: Item) -> None:
        host, name = self._vhost_of(item), item.name("name")
        if name in host.exchanges or name.startswith(_RESERVED):
            return
        with self._naming(item, host):
            host.declare_exchange(
                name,
                item.text("type"),
                durable=self._flag(item, "exchange", "durable", True),
                auto_delete=item.flag("auto_delete", False),
                internal=item.flag("internal", False),
                arguments=item.sendable_table("arguments"),
            )

    def _flag(self, item: Item, kind: str, key: str, default: bool) -> bool:
        needed = self._node.compat.needed_in_definitions.get(kind, ())
        return item.flag(key) if key in needed else item.flag(key, default)

    def _add_binding(self, item: Item) -> None:
        source, name = item.text("source"), item.text("destination")
        kind, vhost = item.word("destination_type", ("queue", "exchange")), self._vhost or item.text("vhost")
        if vhost not in self._node.vhosts:
            if self._node.compat.imports_bindings_to_nothing:
                return
            raise self._no_vhost(item, vhost, _missing_text(vhost, [("exchange", source), (kind, name)]))
        host = self._node.vhosts[vhost]
        destinations: Mapping[str, Destination] = host.queues if kind == "queue" else host.exchanges
        missing = [("exchange", source)] * (source not in host.exchanges) + [(kind, name)] * (name not in destinations)
        if missing:
            if self._node.compat.imports_bindings_to_nothing:
                return
            reason = _missing_text(vhost, missing)
            if source not in host.exchanges:
                fault = f"names the unknown exchange {source!r}{expected(source, host.exchanges)}"
                raise item.wrong("source", fault, reason)
            fault = f"names the unknown {kind} {name!r}{expected(name, destinations)}"
            raise item.wrong("destination", fault, reason)
        if source:
            with self._naming(item, host):
                arguments = item.sendable_table("arguments")
                host.bind(host.exchanges[source], destinations[name], item.name("routing_key"), arguments)

    def _vhost_of(self, item: Item) -> VirtualHost:
        name = self._vhost or item.text("vhost")
        if name not in self._node.vhosts:
            explained = f'Please create virtual host "{name}" prior to importing definitions.'
            is_explained = self._node.compat.prints_faults_of_definitions
            raise self._no_vhost(item, name, explained if is_explained else ["no_such_vhost", name])
        return self._node.vhosts[name]

    def _no_vhost(self, item: Item, name: str, reason: object) -> WrongValue:
        fault = f"names the unknown virtual host {name!r}{expected(name, self._node.vhosts)}"
        return item.wrong("vhost", fault, reason)

    def _user_of(self, item: Item) -> User:
        name, users = item.text("user"), self._node.access.users
        if name not in users:
            fault = f"names the unknown user {name!r}{expected(name, users)}"
            raise item.wrong("user", fault, ["no_such_user", name])
        return users[name]

    @contextmanager
    def _naming(self, item: Item, host: VirtualHost, *names: str) -> Iterator[None]:
        """Add the object to the text of a refusal. The names are those of a policy or parameter."""
        try:
            yield
        except AmqpError as error:
            if error.is_returned:
                raise _LeftOut(error.reply_text) from None
            reason = f"{error.name.lower()}: {error.explanation}"
            raise item.refused(error.reply_text, reason) from None
        except PolicyInvalid as error:
            reason = self._located(self._validation_text(error), host.name, names)
            raise item.refused(f"Validation failed: {error}", reason) from None
        except WrongValue as error:
            if names:
                error.reason = self._located(self._validation_text(error.reason), host.name, names)
            raise

    def _validation_text(self, fault: object) -> str:
        text = escape(str(fault), quote=False) if self._node.compat.escapes_texts else fault
        return f"Validation failed\n\n{text}\n"

    def _located(self, text: str, vhost: str, names: tuple[str, ...]) -> str:
        """Return RabbitMQ's text about a policy of a name, or about a parameter of a component and a name."""
        compat = self._node.compat
        if not compat.checks_operator_values:
            located = f"{text} ({'/'.join((vhost, *names))})"
            is_printed = self._vhost is not None or compat.prints_faults_of_definitions
            return erlang.utf8_binary(located.encode()) if is_printed else located
        if len(names) == 1:
            return f'{text} (vhost: "{vhost}" key: "{names[0]}")'
        return f'{text} (vhost: "{vhost}" / component: "{names[0]}" / key: "{names[1]}")'


class _LeftOut(Exception):
    """An object that RabbitMQ leaves out; the text says why."""


def vhost_limits_of(item: Item, name: str) -> dict[str, int]:
    """Return the limits that the value of the parameter of this name sets. RabbitMQ crashes on other names."""
    limits = Item({"value": _value_of(item, name)}, item.place).limits("value", VHOST_LIMITS, name)
    if name != _LIMITS:
        raise item.refused(f"the limits of a virtual host are the parameter {_LIMITS!r}, not {name!r}")
    return limits


def operator_value_of(item: Item, name: str) -> Item:
    """Return the value of the parameter of an operator policy. Only policies of users may leave something out."""
    value = Item(_value_of(item, name), f"operator policy {name!r}")
    missing = [key for key in ("definition", "pattern", "priority") if key not in value]
    if missing:
        reason = "\n".join(f'Key "{key}" not found in {name}' for key in missing)
        raise value.wrong(missing[0], "is missing", reason)
    return value


def _value_of(item: Item, name: str) -> Mapping[str, object]:
    """Return the object that a parameter has as its value. Erlang writes none as an empty list."""
    value = item.required("value")
    if value == []:
        return {}
    if isinstance(value, Mapping):
        return value
    fault = "Unrecognised terms {0} in {1}" if isinstance(value, list) else "{1} not a list {0}"
    raise item.wrong("value", f"must be an object, not {value!r}", fault.format(printed(value), name))


def policy_of(name: str, value: Item) -> Policy:
    """Return the policy that an object describes. `PolicySet.check` checks the types of its values."""
    for key, reason in _MISSING_OF_POLICY.items():
        if key not in value:
            raise value.wrong(key, "is missing", reason)
    definition = value.get("definition")
    return Policy(
        name,
        value.get("pattern"),  # type: ignore[arg-type]
        # Erlang sometimes writes an empty object as an empty list.
        {} if definition == [] else definition,  # type: ignore[arg-type]
        priority=value.get("priority", 0),  # type: ignore[arg-type]
        apply_to=value.get("apply-to", "all"),  # type: ignore[arg-type]
    )


def _missing_text(vhost: str, missing: list[tuple[str, str]]) -> str:
    """Return RabbitMQ's term for the ends that a binding lacks, broken into lines as Erlang does."""
    terms = [f"{{not_found,{{resource,{printed(vhost)},{kind},{printed(name)}}}}}" for kind, name in missing]
    head = "{resources_missing,["
    for lines in (
        [f"{head}{','.join(terms)}]}}"],
        f"{head}{f',{chr(10)}{chr(32) * len(head)}'.join(terms)}]}}".split("\n"),
        f"{head[:-1]}\n    [{f',{chr(10)}     '.join(terms)}]}}".split("\n"),
    ):
        if max(map(len, lines)) <= erlang.LINE_WIDTH:
            break
    return "\n".join(lines)


def put(node: Node, user: User) -> bool:
    """Add a user, or replace one, who keeps other limits. Return whether the user was known."""
    old = node.access.users.get(user.name)
    if old is not None:
        user.limits = {**old.limits, **user.limits}
        if old.password and user.password_hash and user.password_hash.matches(old.password):
            # The password is the same. A test is better served by the one that can be read.
            user.password, user.password_hash = old.password, None
    node.access.put_user(user)
    return old is not None


def user_of(item: Item, name: str, compat: Compat, algorithm: str = DEFAULT_ALGORITHM) -> User:
    """Return the user that an object describes. `algorithm` is that of a hash which names none."""
    if not ("tags" in item or "administrator" in item):
        raise item.wrong("tags", "is missing", "tags_not_present")
    if "password" in item and "password_hash" in item:
        raise item.refused("it has both a password and a password_hash", "both_password_and_password_hash_are_provided")
    if "tags" in item:
        # Of a text, what stands between two commas.
        tags = tuple([tag for tag in item.texts("tags") if tag or not isinstance(item.get("tags"), str)])
    else:
        tags = ("administrator",) if item.parsed_flag("administrator") else ()
    if len(tags) > _USER_TAGS_MAX and compat.checks_operator_values:
        reason = f"A user can have at most {_USER_TAGS_MAX} tags (received {len(tags)})"
        raise item.wrong("tags", f"has {len(tags)} tags; RabbitMQ takes at most {_USER_TAGS_MAX}", reason)
    user = User(name, tags=tags, limits=item.limits("limits", USER_LIMITS, "user-limits"))
    if "password" in item:
        user.password = item.text("password") or None
    elif item.get("password_hash", "") != "":
        not_base64: object = ["not_base64", item.get("password_hash")]
        try:
            digest = octets_of(item.text("password_hash", reason=not_base64))
        except ValueError as error:
            raise item.wrong("password_hash", f"is not base64: {error}", not_base64) from None
        user.password_hash = PasswordHash(digest, item.word("hashing_algorithm", ALGORITHMS, algorithm))
    return user


def queue_type_of(item: Item, compat: Compat, keys: Sequence[str]) -> str | None:
    """Return the default queue type of a virtual host by the first of these keys, None if it is left open."""
    key = next((each for each in keys if each in item), keys[0])
    kind = item.get(key)
    if kind is None or kind == "undefined":
        return None
    for name, row in QUEUE_TYPES.items():
        if kind in (name, row.erlang_name):
            return name
    if not compat.checks_operator_values:
        return None
    fault = f"is {kind!r}{expected(str(kind), QUEUE_TYPES)}"
    if kind == "":
        raise item.wrong(key, fault, "default_queue_type must not be an empty string")
    if not isinstance(kind, str | bool):
        raise item.wrong(key, fault, f"{printed(kind)} is not a valid default_queue_type value")
    raise item.wrong(key, fault, f"{kind if isinstance(kind, str) else printed(kind)} is not a valid queue type")


def put_vhost(node: Node, name: str, kind: str | None, item: Item, maker: str | None) -> VirtualHost:
    """Add a virtual host, or change one, with its default queue type, and with the tags and description of an object.

    Each of them may be None. What is left out returns to its default.
    """
    description = None if item.get("description", "") is None else item.text("description", "")
    tags = () if item.get("tags") is None else item.texts("tags")
    vhost = node.vhosts.get(name)
    if vhost is None:
        vhost = node.add_vhost(name, default_queue_type=kind or "classic", description=description, tags=tags)
        vhost.maker = maker
    elif node.compat.changes_default_queue_type and (kind or node.compat.resets_default_queue_type):
        vhost.default_queue_type = kind or "classic"
    vhost.description, vhost.tags = description, tags
    return vhost


def patterns_of(item: Item, rights: Iterable[str], compat: Compat) -> dict[str, str]:
    """Return the regular expressions of a permission, by right."""
    return {right: item.pattern(right, compat, has_codes=rights is RIGHTS) for right in rights}


def items(
    definitions: Mapping[str, object], section: str, what: str, named_by: Sequence[str] = ("name",)
) -> Iterator[Item]:
    """Yield the objects of one section; only RabbitMQ's check of limits refuses anything else, among the queues.

    Raises BrokerError if the section is not a list.

    `what` an object is, and the values of its keys in `named_by`, are for error messages.
    """
    objects = definitions.get(section, ())
    if not isinstance(objects, (list, tuple)):
        raise BrokerError(f"definitions: {section!r} must be a list, not {objects!r}")
    for number, values in enumerate(objects, start=1):
        place = f"number {number} of {section!r}"
        if isinstance(values, Mapping):
            names = [shown(values[key]) for key in named_by if key in values]
            yield Item(values, f"{what} {' '.join(names)}" if names else place)
        elif section == "queues":
            raise BrokerError(f"definitions: {place} must be an object, not {values!r}")
