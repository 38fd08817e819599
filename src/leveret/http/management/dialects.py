"""How the management API of each RabbitMQ version differs. `Compat` holds what AMQP clients see; this is about HTTP.

The defaults of the fields are those of 4.3. 4.3, 4.0 and 3.10 were compared with real brokers; 4.2 answers as 4.0 does,
and 3.13 as 3.10.
"""

from __future__ import annotations

from html import escape
from typing import Final, NamedTuple

from leveret.admin.definitions_export import Extent

Described = dict[str, object]

# The versions of leveret's profiles, for endpoints that not all of them have.
BEFORE_4: Final = ("3.10", "3.13")
SINCE_4_3: Final = ("4.3",)
SINCE_4: Final = ("4.0", "4.2", *SINCE_4_3)
BEFORE_4_3: Final = (*BEFORE_4, "4.0", "4.2")
ALL: Final = (*BEFORE_4, *SINCE_4)

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


_EXTERNAL: Final[Described] = {"internal": False, "internal_owner": False}
_OLD_TLS_KEYS: Final = (
    *("peer_cert_subject", "peer_cert_issuer", "peer_cert_validity"),
    *("ssl_protocol", "ssl_key_exchange", "ssl_cipher", "ssl_hash"),
)
_TLS_KEYS: Final = (*_OLD_TLS_KEYS, "peer_cert_serial_number")


# What definitions have since 3.13.
_NOT_IN_3_10: Final = (
    *("rabbitmq_definition_format", "original_cluster_name", "original_vhost_name", "explanation"),
    *("metadata", "description", "limits", "default_queue_type"),
)


class Dialect(NamedTuple):
    """The differences of one version."""

    # Every answer names the methods of its path; otherwise only the refusal of a method does.
    names_methods: bool = True
    # The answer to a user who may not open the virtual host at all.
    access_refused: str = "Access refused."
    # A virtual host that the user may not see does not exist for that user; otherwise the refusal says so.
    hides_vhosts: bool = True
    # What the overview says beyond what all versions say.
    overview: Described = _IN_4_3
    # What queues show of RabbitMQ's inner workings: all of them, classic queues and streams.
    queue: Described = _EXTERNAL
    classic_queue: Described = {"storage_version": 2}  # noqa: RUF012
    stream: Described = {"segments": 1, "first_timestamp": 0}  # noqa: RUF012
    # A quorum queue shows its delivery limit and its single active consumer.
    shows_limit: bool = True
    # A stream shows where it is even without statistics.
    places_streams: bool = True
    # The list of queues shows nearly all that the description of one does.
    lists_queues_in_detail: bool = False
    # The state of a queue that is shown without statistics.
    idle_state: str = "running"
    # Classic queues can be mirrored, so there are actions for that.
    mirrors_queues: bool = False
    # A channel shows the limit that its consumers share.
    shows_global_prefetch: bool = False
    # A consumer shows how long it may hold a delivery.
    shows_consumer_timeout: bool = True
    # Publishing and getting look for the virtual host, exchange or queue; otherwise a channel of RabbitMQ's own fails.
    looks_for_exchange: bool = True
    # A wrong password is challenged again.
    challenges_again: bool = False
    # Feature flags are shown to administrators only.
    hides_feature_flags: bool = False
    # The list of virtual hosts heeds `columns`.
    lists_vhosts_by_columns: bool = False
    # The default queue type of a virtual host can be set.
    sets_queue_type: bool = True
    # Deleting several users fails if one does not exist.
    refuses_missing_users: bool = False
    # A quorum queue shows what it delays.
    shows_delays: bool = True
    # The description of a queue without statistics has its policies.
    shows_policies_without_statistics: bool = True
    # A consumer that has reached its prefetch limit is "blocked"; otherwise "up".
    names_blocked_consumers: bool = True
    # A change of a virtual host that names no queue type returns it to the default.
    resets_queue_type: bool = True
    # Texts about invalid parameters are escaped for HTML.
    escapes_texts: bool = False
    # Definitions name the type of each queue; otherwise, in those of a virtual host, only its default type.
    has_new_definitions: bool = True
    # What definitions hold beyond those of rabbitmqctl.
    extent: Extent = Extent(has_transient=True)
    # Keys that definitions do not have.
    hidden_definitions: tuple[str, ...] = ()
    # What a connection shows of TLS.
    tls_keys: tuple[str, ...] = _TLS_KEYS
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
    # A topic permission is refused for an exchange that does not exist.
    topic_permissions_need_exchange: bool = True
    # The default queue type of a virtual host that was given none.
    default_queue_type: str = "classic"
    # What the check of a protocol names as missing, and names if it passes.
    lists_protocols: bool = True
    # An invalid regular expression finds nothing in a list; otherwise it is refused.
    hides_invalid_patterns: bool = True
    # The name under which definitions are downloaded must be a token (RFC 9110, 5.6.2).
    downloads_by_token: bool = True
    # The check of a virtual host declares a queue, publishes to it and gets from it.
    publishes_to_check: bool = False
    # A node that does not exist is unknown; otherwise, it is down.
    knows_nodes: bool = True
    # A body's code points that are no characters are replaced; otherwise the body is no JSON.
    replaces_surrogates: bool = False

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

    def shown_text(self, text: str) -> str:
        """Return a text about an invalid parameter, as it is shown."""
        return escape(text, quote=False) if self.escapes_texts else text

    def shown_definitions(self, definitions: Described) -> Described:
        """Return the definitions of the broker or of a virtual host, as they are shown."""
        if self.has_new_definitions:
            return definitions
        queues, metadata = definitions["queues"], definitions.get("metadata")
        assert isinstance(queues, list)
        found: Described = {
            **definitions,
            "queues": [{name: value for name, value in queue.items() if name != "type"} for queue in queues],
        }
        if isinstance(metadata, dict):
            found |= {"default_queue_type": metadata["default_queue_type"], "limits": definitions["limits"] or []}
        if not self.hidden_definitions:
            return found
        hidden = self.hidden_definitions
        if metadata is not None:
            hidden = (*hidden, "product_name", "product_version", "rabbitmq_version")
            for section in ("parameters", "policies"):
                items = definitions[section]
                assert isinstance(items, list)
                found[section] = [{**item, "vhost": definitions["original_vhost_name"]} for item in items]
        return {name: value for name, value in found.items() if name not in hidden}

    def missing(self, protocol: str) -> object:
        """Return how the check of a protocol names one that is missing."""
        return [protocol] if self.lists_protocols else protocol


_4_3: Final = Dialect()
_4_0: Final = _4_3._replace(
    names_methods=False,
    hides_vhosts=False,
    overview=_IN_4_0,
    features="4.0",
    auth={"oauth_enabled": False},
    names_crypto=False,
    protects_vhosts=False,
    queue={},
    classic_queue={"storage_version": 2, "messages_paged_out": 0, "message_bytes_paged_out": 0},
    stream={"segments": 1},
    shows_delays=False,
    shows_policies_without_statistics=False,
    names_blocked_consumers=False,
    resets_queue_type=False,
    escapes_texts=True,
    has_new_definitions=False,
    extent=Extent(has_transient=True, has_internal=True),
    tls_keys=_OLD_TLS_KEYS,
    channel={"pending_raft_commands": 0},
    lists_protocols=False,
    hides_invalid_patterns=False,
    downloads_by_token=False,
    publishes_to_check=True,
    knows_nodes=False,
    topic_permissions_need_exchange=False,
)
_3_10: Final = _4_0._replace(
    overview=_IN_3_10,
    features="3.10",
    auth={"enable_uaa": False, "uaa_client_id": "", "uaa_location": ""},
    names_internal_users=False,
    names_drained=False,
    default_queue_type="undefined",
    classic_queue={"messages_paged_out": 0, "message_bytes_paged_out": 0},
    stream={},
    shows_limit=False,
    places_streams=False,
    lists_queues_in_detail=True,
    idle_state="live",
    mirrors_queues=True,
    shows_global_prefetch=True,
    shows_consumer_timeout=False,
    looks_for_exchange=False,
    challenges_again=True,
    hides_feature_flags=True,
    lists_vhosts_by_columns=True,
    sets_queue_type=False,
    refuses_missing_users=True,
    totals_show_online=False,
    replaces_surrogates=True,
    hidden_definitions=_NOT_IN_3_10,
)
_DIALECTS: Final[dict[str, Dialect]] = {"4.3": _4_3, "4.2": _4_0, "4.0": _4_0, "3.13": _3_10, "3.10": _3_10}


def dialect_of(version: str) -> Dialect:
    """Return the dialect of a version."""
    return _DIALECTS[version]
