"""How the management API of each RabbitMQ version differs. `Compat` holds what AMQP clients see; this is about HTTP.

The defaults of the fields are those of 4.3. 4.3, 4.0 and 3.10 were compared with real brokers; 4.2 answers as 4.0 does,
and 3.13 as 3.10.
"""

from __future__ import annotations

from typing import Final, NamedTuple

Described = dict[str, object]

_IN_4_3: Final[Described] = {
    "cluster_tags": {},
    "node_tags": {},
    "default_queue_type": "classic",
    "is_op_policy_updating_enabled": True,
    "require_definition_json_extension": False,
}
_IN_4_0: Final[Described] = {
    "cluster_tags": {},
    "node_tags": {},
    "default_queue_type": "classic",
    "is_op_policy_updating_enabled": True,
}
_IN_3_10: Final[Described] = {"release_series_support_status": "supported"}


class Dialect(NamedTuple):
    """The differences of one version."""

    # Every answer names the methods of its path; otherwise only the refusal of a method does.
    names_methods: bool = True
    # The answer to a user who may not open the virtual host at all.
    access_refused: str = "Access refused."
    # What the overview says beyond what all versions say.
    overview: Described = _IN_4_3
    # What a channel shows of RabbitMQ's inner workings.
    channel: Described = {"pending_raft_commands": 0, "cached_segments": 0}  # noqa: RUF012
    # The keys that a publish must have.
    publish_keys: tuple[str, ...] = ("routing_key", "properties", "payload", "payload_encoding")
    # The recorded version whose feature flags are listed.
    features: str = "4.3"
    # The answer of /auth, None if there is none.
    auth: Described | None = None
    # whoami says whether the user is one of the broker's own.
    names_internal_users: bool = True
    # Nodes and the overview name the version of the crypto library; nodes name that of RabbitMQ.
    names_crypto: bool = True
    # Nodes say whether they are being drained.
    names_drained: bool = True
    # Virtual hosts can be protected from deletion.
    protects_vhosts: bool = True
    # The list of queues with totals only names who is online.
    totals_show_online: bool = True
    # A queue shows which exchanges its messages come from.
    shows_routes: bool = False
    # A topic permission is refused for an exchange that does not exist.
    topic_permissions_need_exchange: bool = True
    # The default queue type of a virtual host that was given none.
    default_queue_type: str = "classic"
    # What the check of a protocol names as missing, and names if it passes.
    lists_protocols: bool = True

    def shown_queue_type(self, queue_type: str) -> str:
        """Return the default queue type of a virtual host, as it is shown."""
        return self.default_queue_type if queue_type == "classic" else queue_type

    def shown_metadata(self, metadata: Described) -> Described:
        """Return the metadata of a virtual host, as it is shown."""
        if self.default_queue_type == "classic" or metadata["default_queue_type"] != "classic":
            return metadata
        return {name: value for name, value in metadata.items() if name != "default_queue_type"}

    def listening(self, protocol: str, protocols: list[str]) -> Described:
        """Return the answer of the check of a protocol that passes."""
        if self.lists_protocols:
            return {"status": "ok", "protocols": protocols}
        return {"status": "ok", "protocol": protocol}

    def missing(self, protocol: str) -> object:
        """Return how the check of a protocol names one that is missing."""
        return [protocol] if self.lists_protocols else protocol


_4_3: Final = Dialect()
_4_0: Final = _4_3._replace(
    overview=_IN_4_0,
    features="4.0",
    auth={"oauth_enabled": False},
    names_crypto=False,
    protects_vhosts=False,
    topic_permissions_need_exchange=False,
)
_3_10: Final = _4_0._replace(
    names_methods=False,
    overview=_IN_3_10,
    features="3.10",
    auth={"enable_uaa": False, "uaa_client_id": "", "uaa_location": ""},
    names_internal_users=False,
    names_drained=False,
    default_queue_type="undefined",
)
_DIALECTS: Final[dict[str, Dialect]] = {"4.3": _4_3, "4.2": _4_0, "4.0": _4_0, "3.13": _3_10, "3.10": _3_10}


def dialect_of(version: str) -> Dialect:
    """Return the dialect of a version."""
    return _DIALECTS[version]
