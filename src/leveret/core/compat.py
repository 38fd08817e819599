"""The named differences between RabbitMQ versions, in `Compat`. No other module compares version numbers.

A flag says since or before which version it is on. The defaults of the other fields are those of RabbitMQ 4.3, and
each older version lists how it differs from the next newer one. Other code reads each field by name, in one place.
4.3.6, 4.0.5 and 3.10.8 were compared with real brokers; 4.2.9 and 3.13.7 follow their sources, documents and release
notes.
"""

# Without `from __future__ import annotations`: a named tuple would compile each of its many annotations from text.
from collections.abc import Callable, Collection, Iterable, Mapping
from types import MappingProxyType
from typing import Final, Literal, NamedTuple, cast, get_args

from leveret.errors import unknown

# The versions, for type checkers, in the order of `VERSIONS`.
RabbitMQVersion = Literal["4.3", "4.2", "4.0", "3.13", "3.10"]
# What a broker behaves as unless a test names another version.
DEFAULT_VERSION: Final = "4.3"

MEBIBYTE: Final = 1024 * 1024
# The login mechanism by which a certificate stands for a login, and the plugin that it needs.
EXTERNAL: Final = "EXTERNAL"
CERTIFICATE_LOGINS: Final = "rabbitmq_auth_mechanism_ssl"

_IN_4_0: Final = {
    "cluster_tags": {},
    "node_tags": {},
    "default_queue_type": "classic",
    "is_op_policy_updating_enabled": True,
}
_IN_4_3: Final = {**_IN_4_0, "require_definition_json_extension": False}
_EXTERNAL: Final = {"internal": False, "internal_owner": False}
_CLASSIC_IN_4_3: Final = {"storage_version": 2}
_STREAM_IN_4_3: Final = {"segments": 1, "first_timestamp": 0}
_PAGED_OUT: Final = {"messages_paged_out": 0, "message_bytes_paged_out": 0}


class _Span(NamedTuple):
    """The versions of `RabbitMQVersion` in which a flag is on: those since one, or those before it."""

    version: RabbitMQVersion
    is_since: bool


def since(version: RabbitMQVersion) -> bool:
    """Return the default of a flag that is on in this version and the newer ones."""
    return cast("bool", _Span(version, True))


def before(version: RabbitMQVersion) -> bool:
    """Return the default of a flag that is on in the versions older than this one."""
    return cast("bool", _Span(version, False))


class Compat(NamedTuple):
    """The behaviour of one RabbitMQ version, where versions differ. `VERSIONS` has them; `_dated` sets their flags."""

    # The version, as leveret and as the broker itself name it.
    version: RabbitMQVersion = DEFAULT_VERSION
    product_version: str = "4.3.6"
    platform: str = "Erlang/OTP 29.1.2"
    copyright: str = "Copyright (c) 2007-2026 Broadcom Inc and/or its subsidiaries"

    # Connections.
    # The header offered to a client that begins with another protocol. Clients of 0-0-9 and above get 0-0-9-1.
    offered_protocol_header: bytes = b"AMQP\x03\x01\x00\x00"
    # AMQP 0-8 headers (1-1-8-0, 1-1-9-1) are accepted too.
    accepts_protocol_0_8: bool = before("3.13")
    # The smallest frame_max a client may tune to, and the largest payload before tuning ends.
    min_frame_max: int = 8192
    # In the order of connection.start. On 4.3 each build of a node has an order of its own; this is one that was seen.
    mechanisms: tuple[str, ...] = ("PLAIN", "AMQPLAIN", "ANONYMOUS", EXTERNAL)
    # A body longer than its header announced is a hard 501 at once; otherwise the content never ends, and the channel's
    # next frame that is no body is a hard 505.
    refuses_excess_body_at_once: bool = since("4.2")
    # The largest body size a header may announce (hard 501 above); None: not checked.
    max_announced_body_bytes: int | None = 512 * MEBIBYTE
    # The largest body (soft 406 above).
    max_message_size: int = 16 * MEBIBYTE
    # How the refusal of one channel too many names the user and the limit.
    user_channel_limit_text: str = "for user '{user}' has reached the maximum allowed user limit of {limit}"
    node_channel_limit_text: str = "on node '{node}' has reached the maximum allowed limit of {limit}"
    # A close text is cut to 255 characters, and cannot be sent if it is then too long in bytes: a channel answers that
    # with 541, a connection with a reset. Otherwise it is cut to 255 bytes.
    cuts_texts_by_characters: bool = since("3.13")
    # Names that are not UTF-8 are shown as Latin-1; otherwise as their bytes.
    shows_octets_as_latin1: bool = since("3.13")
    # Names may hold surrogates and, in four bytes, numbers beyond Unicode; otherwise these are a hard 501.
    accepts_nearly_utf8: bool = before("4.3")
    # A client's basic.cancel-ok out of turn is a hard 541; otherwise 503 "unimplemented method".
    crashes_on_cancel_ok: bool = since("4.3")
    # basic.credit looks up the consumer; otherwise 503 "unimplemented method".
    has_basic_credit: bool = before("4.0")

    # Rights.
    # Topic permissions are asked for CC and BCC keys too; otherwise for the publish key alone.
    topic_permission_for_every_key: bool = since("4.0")
    # In topic permissions, the name of the user and of the virtual host stand for themselves; otherwise for patterns.
    escapes_topic_values: bool = since("4.2")
    # A user of loopback_users must connect from a loopback address; otherwise to one.
    loopback_users_need_loopback_peer: bool = since("4.2")
    # Passive declares need any one right on the resource; otherwise they need none.
    passive_declare_needs_a_right: bool = since("4.2")
    # A refusal names the missing right: "configure access to ..."; otherwise "access to ...".
    names_refused_right: bool = since("3.13")

    # Policies.
    # Keys that this version does not know, and of those of operator policies.
    missing_policy_keys: tuple[str, ...] = ()
    missing_operator_keys: tuple[str, ...] = ()
    # Keys that operator policies may have besides those that are merged.
    further_operator_keys: tuple[str, ...] = ("queue-master-locator",)
    # What the key queue-master-locator may say, if it is not denied, and how any other value is refused.
    master_locators: tuple[str, ...] = ("client-local", "balanced", "random", "least-leaders", "min-masters")
    master_locator_fault: str = "is not a valid master locator"
    # The queue types to which a policy with a key does not apply, where these are others than in 4.3.
    types_unsuited_to_keys: Mapping[str, tuple[str, ...]] = MappingProxyType({})
    # A policy may apply to the queues of one type.
    policies_tell_queue_types_apart: bool = since("3.13")
    # Patterns are those of PCRE2; otherwise those of PCRE, where bytes beyond ASCII may be letters.
    has_pcre2: bool = since("4.3")
    # How many bytes the pattern of a policy or a permission may have; None: any number.
    max_pattern_bytes: int | None = 1024

    # Exchanges.
    # An unknown exchange type is a hard 503; otherwise soft 406.
    unknown_exchange_type_is_hard: bool = before("3.13")
    # Exchange types that leveret has and this version lacks.
    missing_exchange_types: tuple[str, ...] = ()
    # How many `#` words a topic binding may have; None: any number.
    max_topic_hashes: int | None = 2
    # The largest weight of a consistent-hash binding; None: any.
    max_hash_weight: int | None = 10_000
    # In a headers binding, 1 matches a header of 1.0.
    integer_equals_float_in_headers: bool = before("3.13")
    # Header timestamps in milliseconds are compared with a binding's seconds, so only T 5000 matches T 5.
    headers_compare_timestamps_in_ms: bool = since("3.13")
    # Transient exchanges and their bindings survive a restart.
    keeps_transient_exchanges: bool = since("4.2")

    # Queues.
    # A queue neither durable nor exclusive is a hard 541.
    denies_transient_nonexcl_queues: bool = since("4.3")
    # It is so because of the configuration, and the text says so.
    denies_by_configuration: bool = False
    # x-queue-type is filled in: every queue shows it, and it is compared with the default on redeclare. Otherwise only
    # in a virtual host with another default type.
    fills_in_queue_type: bool = since("4.0")
    # Values of x-queue-type that mean the default type; otherwise 406.
    default_queue_type_words: tuple[str, ...] = ("", "undefined")
    # x-queue-mode must be "default" or "lazy" and is compared on redeclare; otherwise anything is accepted.
    checks_queue_mode: bool = before("4.3")
    # Accepted values of x-queue-version.
    queue_versions: tuple[int, ...] = (2,)
    # x-queue-master-locator is a hard 541 on classic queues; otherwise accepted and compared on redeclare.
    denies_queue_master_locator: bool = since("4.3")
    # Classic queues accept x-queue-leader-locator; otherwise they refuse it.
    classic_knows_leader_locator: bool = since("4.0")
    # x-max-priority=0 gives a queue two levels, as 1 does; otherwise one.
    max_priority_of_zero_is_one: bool = since("3.13")
    # A queue beyond the limit of its vhost is refused for that before its arguments are checked; otherwise afterwards,
    # and before its flags are.
    checks_queue_limit_first: bool = before("4.0")
    # Queue arguments that this version does not know: stored, ignored, accepted on every type.
    unknown_queue_arguments: tuple[str, ...] = ()
    # Queue arguments of which a queue takes any value, and which are not compared; otherwise a 406.
    unchecked_queue_arguments: tuple[str, ...] = ()

    # Publishing.
    # A delivery mode other than 1 and 2 is a 406; otherwise accepted and not persistent.
    checks_delivery_mode: bool = before("3.13")
    # Deliveries and returns carry header names sorted, without duplicates; otherwise as published.
    sorts_header_keys: bool = since("3.13")
    # An expiration is passed on as the number it stands for: +060 becomes 60; otherwise as published.
    prints_expiration_anew: bool = since("3.13")
    # The user-id is checked after CC and BCC; otherwise before the headers.
    checks_user_id_last: bool = since("4.0")
    # A headers exchange finds 0.0 equal to -0.0, as Erlang did before OTP 27.
    zero_equals_negative_zero: bool = before("4.0")
    # A transaction whose queue was deleted before the commit: hard 506, and nothing more is published. Otherwise a hard
    # 506 for a stream, a soft 406 "partial tx completion" for a classic queue and nothing for a quorum queue, and the
    # other queues get their messages.
    commit_to_deleted_queue_is_hard: bool = since("4.3")
    # A transaction keeps the names of queues: the commit publishes to those that then exist, and a message that was
    # published to the default exchange finds queues that were declared meanwhile. Otherwise it keeps the queues.
    commit_finds_queues_by_name: bool = before("3.13")

    # Consuming.
    # basic.qos with global=true: as if false, or one limit for the channel (and quorum and stream refuse consumers).
    global_qos: Literal["per_consumer", "shared"] = "per_consumer"
    # An unacknowledged delivery times out on quorum queues only, also by an argument of the consumer, and a client that
    # supports it gets basic.cancel; otherwise on every queue, and the channel is closed.
    consumer_timeout_is_quorum_only: bool = since("4.3")
    # On streams, reject and nack return credit; otherwise hard 540.
    stream_reject_is_credit: bool = since("4.0")
    # A bad x-stream-offset, or an x-max-age that does not begin with a digit, is a hard 541; otherwise 406.
    bad_stream_offset_is_hard: bool = before("4.3")
    # A redeclaration compares x-max-age in milliseconds, so 24h equals 1D; otherwise as text.
    compares_ages_in_ms: bool = since("4.3")
    # x-stream-filter and x-stream-filter-value take effect; otherwise they are ignored.
    has_stream_filters: bool = since("3.13")
    # A stream gives every message a delivery mode, and keeps x- headers that are arrays or tables; otherwise neither.
    stream_keeps_message_containers: bool = since("3.13")
    # A stream loses messages that no channel publishes: dead letters, and what an exchange kept.
    streams_need_a_publisher: bool = before("3.13")
    # Stream consumers are refused with the texts of the first versions.
    has_first_stream_texts: bool = before("3.13")

    # Dead letters.
    # The fields of one x-death entry, in order.
    x_death_fields: tuple[str, ...] = (
        "original-expiration",
        "count",
        "reason",
        "queue",
        "time",
        "exchange",
        "routing-keys",
    )
    # An x-death entry's fields are sorted by name from its second death on.
    sorts_x_death_after_update: bool = before("3.13")
    # A headers exchange sees the x-death of a dead letter; otherwise only one that a client published.
    routes_by_x_death: bool = before("3.13")
    # x-last-death-reason, -queue and -exchange are set.
    has_x_last_death: bool = since("3.13")
    # When an x-death entry is updated, or added to others, the older ones are reversed.
    reverses_x_death_on_update: bool = before("3.13")
    # x-death and x-first-death-* of a published message count; otherwise the first death replaces them.
    published_x_death_continues: bool = before("4.0")
    # CC is removed from the headers if x-dead-letter-routing-key replaces the keys.
    cc_removed_by_dead_letter_routing_key: bool = before("3.13")
    # Where a dead letter brings its failed deliveries along, from queues of any type and to them, or only from quorum
    # queue to quorum queue. There the count goes on, and the first delivery is marked redelivered.
    failures_survive_death: Literal["everywhere", "in_quorum", "nowhere"] = "everywhere"

    # Quorum queues.
    # Redeliveries carry x-acquired-count.
    has_acquired_count: bool = since("4.3")
    # basic.get shows x-delivery-count from the first delivery, as 0; otherwise (and always to consumers) once it is
    # above 0.
    get_shows_zero_delivery_count: bool = before("4.0")
    # Every return counts in x-delivery-count and towards the delivery limit, and only a lost channel and what is not
    # requeued count as failed; otherwise basic.reject and a lost channel count as failed, and failures count there.
    counts_every_return: bool = before("4.3")
    # The delivery limit of a queue that does not set one; None: no limit.
    default_delivery_limit: int | None = 20
    # A negative delivery limit is none; otherwise no message survives its first return.
    negative_delivery_limit_is_none: bool = since("4.0")
    # A quorum queue that drops several messages at once by its limits dead-letters the last one first.
    quorum_drops_last_first: bool = before("4.2")
    # A purge drops and counts the dead letters that wait for a target.
    purges_pending_letters: bool = since("4.3")
    # A get over HTTP that gives its messages back does so by basic.nack; otherwise the end of its channel does.
    nacks_after_get: bool = since("3.13")
    # A message that a consumer returns once too often lets the consumer hold one more delivery from then on.
    giving_up_raises_limit: bool = before("3.13")
    # Returned messages go to the front, in order of return; otherwise to the back if there is no delivery limit.
    quorum_requeues_to_front: bool = since("4.3")
    # A quorum queue identifies consumers by numbers; otherwise by their tags, which affects the order of returns.
    quorum_consumers_are_numbered: bool = since("4.0")
    # A quorum queue lets the publishers that it stopped go on when it loses its limits; otherwise they stay stopped.
    losing_limits_resumes_publishers: bool = since("3.13")
    # 32 levels, of which the age of each first message is checked; or two classes (high is 5 and above, see
    # `ReadyInTwoClasses`) or none, where only the age of the next message is checked.
    quorum_priorities: Literal["levels", "two_classes", "none"] = "levels"
    # x-delayed-retry-* take effect.
    has_delayed_retry: bool = since("4.3")
    # A replay of recent history to an exchange that leads nowhere breaks the connection, with an explanation; otherwise
    # without, and the binding is not made.
    explains_replay_to_nowhere: bool = since("3.13")
    # Policies may ask for mirrors of classic queues (ha-mode).
    has_mirroring: bool = before("4.0")
    # When the single active consumer of a classic queue is cancelled, the next one gets what is ready; otherwise only
    # once a message is published or returns, or a consumer comes or goes with its channel.
    cancel_serves_next: bool = since("3.13")
    # Consumer priority decides which consumer is the single active one.
    has_priority_among_single_active: bool = since("4.0")
    # x-max-length-bytes of a quorum queue counts only the bytes of bodies; otherwise headers too.
    quorum_bytes_are_body_only: bool = before("4.3")
    # The refusal of basic.get on a quorum queue with a single active consumer names the queue type as <<"quorum">>.
    get_refusal_quotes_queue_type: bool = since("4.3")

    # Direct reply-to.
    # A mandatory reply is returned although it was delivered, and if the requester has gone.
    returns_mandatory_replies: bool = before("4.2")
    # A reply has the delivery tag that the next delivery gets too; otherwise replies count like other deliveries.
    replies_take_no_tag: bool = before("4.2")
    # A generated reply-to name is a queue, with refusals of its own, and a transaction holds what is published to it.
    # Otherwise it is a missing queue, and replies are sent at once.
    reply_names_are_queues: bool = since("4.2")
    # Only what a channel publishes reaches a requester; dead letters to its name are lost.
    replies_need_a_publisher: bool = False
    # Declaring a reply-to name without a process or a key is a hard 541; otherwise 404.
    crashes_on_reply_to_without_key: bool = since("4.2")
    # Declaring a reply-to name whose process belongs to no node is a hard 541; otherwise 404.
    crashes_on_reply_to_of_another_node: bool = True
    # A channel that declares the reply-to name it was given itself is a hard 541; otherwise 404.
    crashes_on_own_reply_to: bool = before("4.2")

    # The management API. By their sources, 4.2 answers nearly as 4.3 does, and 3.13 as 4.0.
    # Every answer names the methods of its path; otherwise only the refusal of a method does.
    names_methods_of_path: bool = since("4.2")
    # A virtual host that the user may not see does not exist for that user; otherwise the refusal says so.
    hides_vhosts: bool = since("4.2")
    # What the overview says beyond what all versions say.
    overview: Mapping[str, object] = _IN_4_3
    # What queues show of RabbitMQ's inner workings: all of them, classic queues and streams.
    queue_internals: Mapping[str, object] = _EXTERNAL
    classic_queue_internals: Mapping[str, object] = _CLASSIC_IN_4_3
    stream_internals: Mapping[str, object] = _STREAM_IN_4_3
    # A quorum queue shows its delivery limit and its single active consumer.
    shows_delivery_limit: bool = since("4.0")
    # All show where they are without statistics: streams and quorum queues their nodes, classic queues who is online.
    places_all_queues: bool = since("3.13")
    # The list of queues shows nearly all that the description of one does.
    lists_queues_in_detail: bool = before("3.13")
    # The state of a queue that is shown without statistics.
    idle_queue_state: str = "running"
    # Keys that users, nodes, connections, channels and consumers do not have, though other versions show them.
    hidden_keys: tuple[str, ...] = ("global_prefetch_count",)
    # Publishing and getting look for the virtual host, exchange or queue; otherwise a channel of RabbitMQ's own fails.
    looks_for_exchange: bool = since("3.13")
    # A wrong password is challenged again.
    challenges_again: bool = before("3.13")
    # Feature flags are shown to administrators only.
    hides_feature_flags: bool = before("3.13")
    # The list of virtual hosts heeds `columns`.
    lists_vhosts_by_columns: bool = before("4.0")
    # The keys that set the default queue type of a virtual host, and whether they change that of an existing one.
    default_queue_type_keys: tuple[str, ...] = ("default_queue_type", "defaultqueuetype")
    changes_default_queue_type: bool = since("3.13")
    # Default queue types and the number of a user's tags are checked; the metadata of a virtual host in definitions
    # precede its other keys, and a fault of a parameter in them is plain text.
    checks_operator_values: bool = since("4.2")
    # Definitions have the global parameters whose names begin with "internal".
    exports_internal_parameters: bool = before("4.2")
    # Definitions may have bindings from or to what does not exist, which are left out; otherwise they are refused.
    imports_bindings_to_nothing: bool = before("3.13")
    # Deleting several users fails if one does not exist.
    refuses_missing_users: bool = before("3.13")
    # The description of a queue without statistics has its policies.
    shows_policies_without_statistics: bool = since("4.2")
    # A consumer of a classic queue that has reached its prefetch limit is "blocked"; otherwise "up".
    names_blocked_consumers: bool = since("4.2")
    # A consumer of a stream is shown as active.
    stream_consumers_are_active: bool = since("4.2")
    # A change of a virtual host that names no queue type returns it to the default.
    resets_default_queue_type: bool = since("4.2")
    # Texts about invalid parameters are escaped for HTML.
    escapes_texts: bool = before("4.2")
    # Definitions name the type of each queue, and leave out internal exchanges. Otherwise those of a virtual host name
    # its default type, and the query may choose columns.
    definitions_name_queue_types: bool = since("4.2")
    # The definitions of a virtual host name it in each parameter and policy.
    repeats_vhost_in_definitions: bool = before("3.13")
    # Keys that definitions do not have.
    hidden_definitions: tuple[str, ...] = ()
    # The answer of /auth, None if there is none.
    auth_answer: Mapping[str, object] | None = None
    # Nodes and the overview name the version of the crypto library; nodes name that of RabbitMQ.
    names_crypto: bool = since("4.2")
    # Virtual hosts can be protected from deletion.
    protects_vhosts: bool = since("4.2")
    # A topic permission is refused for an exchange that does not exist.
    topic_permissions_need_exchange: bool = since("4.3")
    # The default queue type that is shown of a virtual host that was given none.
    unset_queue_type: str = "classic"
    # The check of a protocol names lists of protocols; otherwise one.
    lists_protocols: bool = since("4.2")
    # In a list, an invalid regular expression finds nothing, and `sort_reverse` may be anything; otherwise both are
    # refused.
    takes_any_query: bool = since("4.2")
    # The name under which definitions are downloaded must be a token (RFC 9110, 5.6.2).
    downloads_by_token: bool = since("4.2")
    # The check of a virtual host declares a queue, publishes to it and gets from it.
    publishes_to_check: bool = before("4.2")
    # A node that does not exist is unknown; otherwise, it is down.
    knows_nodes: bool = since("4.2")
    # Faults in definitions of a whole broker are texts, and that for a missing virtual host says what to do; otherwise
    # they are terms.
    prints_faults_of_definitions: bool = since("3.13")
    # The flags that queues and exchanges need in definitions; the others have a default.
    needed_in_definitions: Mapping[str, tuple[str, ...]] = MappingProxyType({})
    # A body's code points that are no characters are replaced; otherwise the body is no JSON.
    replaces_surrogates: bool = before("3.13")

    @classmethod
    def for_version(cls, version: str) -> "Compat":
        """Return the behaviour of a version such as "4.3". Raises ValueError for an unknown version."""
        if not isinstance(version, str):
            raise ValueError(number_text(version))
        try:
            return VERSIONS[version]
        except KeyError:
            versions = ", ".join(VERSIONS)
            advice = f"expected one of {versions}; take {_nearest(version)}"
            raise ValueError(f"unknown RabbitMQ version {version!r}; {advice}") from None

    def permitting(self, features: Iterable[str]) -> "Compat":
        """Return the same version with denied features permitted, like RabbitMQ's deprecated_features.permit.*.

        Raises ValueError for a feature that leveret does not have.
        """
        compat = self
        for feature in sorted(features):
            if feature not in PERMITTED:
                raise ValueError(unknown("deprecated feature", feature, PERMITTED))
            compat = PERMITTED[feature](compat)
        return compat

    def denying(self, features: Collection[str]) -> "Compat":
        """Return the same version with features of DENIABLE denied by configuration, unless it denies them anyway."""
        if "transient_nonexcl_queues" not in features or self.denies_transient_nonexcl_queues:
            return self
        return self._replace(denies_transient_nonexcl_queues=True, denies_by_configuration=True)


def _dated(profile: Compat) -> Compat:
    """Return a profile with its flags on or off as its version has them."""
    newest_first = get_args(RabbitMQVersion)
    place = newest_first.index(profile.version)
    return Compat._make(
        (place <= newest_first.index(value.version)) is value.is_since if isinstance(value, _Span) else value
        for value in profile
    )


# Compared with 4.3.6.
_V4_3: Final = Compat()

# From the sources of 4.2.9 and its release notes: 4.3 without what that adds or denies.
_V4_2: Final = _V4_3._replace(
    version="4.2",
    mechanisms=("AMQPLAIN", "ANONYMOUS", "PLAIN", EXTERNAL),
    product_version="4.2.9",
    platform="Erlang/OTP 27.3.4",
    copyright="Copyright (c) 2007-2025 Broadcom Inc and/or its subsidiaries",
    missing_exchange_types=("x-modulus-hash",),
    max_topic_hashes=None,
    queue_versions=(1, 2),
    unknown_queue_arguments=(
        "x-consumer-disconnected-timeout",
        "x-delayed-retry-type",
        "x-delayed-retry-min",
        "x-delayed-retry-max",
    ),
    unchecked_queue_arguments=("x-consumer-timeout",),
    missing_policy_keys=(
        *("consumer-disconnected-timeout", "delayed-retry-type", "delayed-retry-min", "delayed-retry-max"),
    ),
    global_qos="shared",
    failures_survive_death="in_quorum",
    quorum_priorities="two_classes",
    overview=_IN_4_0,
    classic_queue_internals={**_CLASSIC_IN_4_3, **_PAGED_OUT},
)

# Compared with 4.0.5.
_V4_0: Final = _V4_2._replace(
    version="4.0",
    product_version="4.0.5",
    platform="Erlang/OTP 27.3.4.1",
    copyright="Copyright (c) 2007-2024 Broadcom Inc and/or its subsidiaries",
    min_frame_max=4096,
    default_queue_type_words=("undefined",),
    user_channel_limit_text="for user '{node}' has reached the maximum allowed user limit of ({limit})",
    node_channel_limit_text="on node '{node}' has reached the maximum allowed limit of ({limit})",
    replies_need_a_publisher=True,
    crashes_on_reply_to_of_another_node=False,
    max_announced_body_bytes=None,
    max_pattern_bytes=None,
    max_hash_weight=None,
    unchecked_queue_arguments=("x-consumer-timeout", "x-stream-filter-size-bytes"),
    queue_internals={},
    stream_internals={"segments": 1},
    hidden_keys=(*_V4_2.hidden_keys, "cached_segments", "peer_cert_serial_number"),
    auth_answer={"oauth_enabled": False},
    needed_in_definitions={"exchange": ("durable",)},
)

# From the sources of 3.13.7 and documents: it has message containers (4.0's headers and deaths); the rest is as before
# 4.0.
_V3_13: Final = _V4_0._replace(
    version="3.13",
    product_version="3.13.7",
    platform="Erlang/OTP 26.2.5",
    offered_protocol_header=b"AMQP\x00\x00\x09\x01",
    mechanisms=("PLAIN", EXTERNAL, "AMQPLAIN"),
    max_message_size=128 * MEBIBYTE,
    missing_exchange_types=("x-modulus-hash", "x-local-random"),
    default_queue_type_words=(),
    user_channel_limit_text="for user '{user}' has reached the maximum allowed user limit of ({limit})",
    failures_survive_death="nowhere",
    default_delivery_limit=None,
    crashes_on_reply_to_of_another_node=True,
    quorum_priorities="none",
    further_operator_keys=("ha-mode", "ha-params", "ha-sync-mode"),
    types_unsuited_to_keys={"queue-leader-locator": ("classic",)},
    master_locators=("client-local", "min-masters", "random"),
    master_locator_fault="invalid queue-master-locator value",
    overview={"release_series_support_status": "supported", "is_op_policy_updating_enabled": True},
    hidden_keys=("cached_segments", "peer_cert_serial_number"),
    hidden_definitions=(
        *("rabbitmq_definition_format", "original_cluster_name", "original_vhost_name", "explanation"),
        *("metadata", "description", "tags", "limits", "default_queue_type"),
    ),
    unset_queue_type="undefined",
)

# Compared with 3.10.8.
_V3_10: Final = _V3_13._replace(
    version="3.10",
    default_queue_type_keys=("defaultqueuetype",),
    missing_policy_keys=(
        *_V3_13.missing_policy_keys,
        *("consumer-timeout", "stream-filter-size-bytes", "target-group-size"),
    ),
    missing_operator_keys=("queue-version", "overflow"),
    further_operator_keys=(),
    types_unsuited_to_keys=dict.fromkeys(("max-in-memory-length", "max-in-memory-bytes"), ("stream",))
    | {"queue-leader-locator": ("classic",)},
    product_version="3.10.8",
    platform="Erlang/OTP 25.2.3",
    copyright="Copyright (c) 2007-2022 VMware, Inc. or its affiliates.",
    unknown_queue_arguments=(*_V3_13.unknown_queue_arguments, "x-stream-filter-size-bytes", "x-consumer-timeout"),
    unchecked_queue_arguments=(),
    replies_need_a_publisher=False,
    x_death_fields=("count", "reason", "queue", "time", "exchange", "routing-keys", "original-expiration"),
    stream_internals={},
    classic_queue_internals=_PAGED_OUT,
    idle_queue_state="live",
    hidden_keys=(*_V3_13.hidden_keys, "consumer_timeout", "is_internal_user", "being_drained"),
    auth_answer={"enable_uaa": False, "uaa_client_id": "", "uaa_location": ""},
    overview={"release_series_support_status": "supported"},
    needed_in_definitions={"exchange": ("durable",), "queue": ("durable", "auto_delete")},
)

VERSIONS: Final[dict[str, Compat]] = {each.version: _dated(each) for each in (_V4_3, _V4_2, _V4_0, _V3_13, _V3_10)}
V4_3: Final = VERSIONS[DEFAULT_VERSION]
# For what some versions have and others lack.
ALL: Final = tuple(VERSIONS)
_AFTER_4_2, _AFTER_4, _AFTER_3_13 = (ALL.index(version) + 1 for version in ("4.2", "4.0", "3.13"))
SINCE_4_2, BEFORE_4_2 = ALL[:_AFTER_4_2], ALL[_AFTER_4_2:]
SINCE_4, BEFORE_4 = ALL[:_AFTER_4], ALL[_AFTER_4:]
SINCE_3_13: Final = ALL[:_AFTER_3_13]

# For the series between two profiles: which one to take, and why.
BETWEEN: Final = {
    (4, 1): "'4.0', because direct reply-to changed with 4.2, or '4.2' for its smallest frame_max of 8192 bytes",
    (3, 12): "'3.10', because headers and dead letters changed with 3.13",
    (3, 11): "'3.10', because headers and dead letters changed with 3.13",
}


def number_text(version: object) -> str:
    """Return the error for a version that is a number, which may have lost a 0 at its end: 3.10 is 3.1."""
    return f"rabbitmq={version!r} is a number; write the version as a string: rabbitmq={_nearest(str(version))}"


def _nearest(version: str) -> str:
    """Return which profile to take for a version without one, such as a patch release or an image's tag, and why."""
    import re

    newest, *_, oldest = VERSIONS.values()
    numbers = re.search(r"(\d+)(?:\.(\d+))?", version)
    if numbers is None:
        return f"'{newest.version}', the newest"
    series = int(numbers[1]), int(numbers[2] or -1)
    for name, profile in VERSIONS.items():
        if numbers[0] == name:
            return f"'{name}', which behaves as {profile.product_version}"
        if numbers[0] == name.partition(".")[0]:
            return f"'{name}', the newest of {numbers[0]}.x"
    if series in BETWEEN:
        return BETWEEN[series]
    if series > tuple(map(int, newest.version.split("."))):
        return f"'{newest.version}', the newest that leveret behaves as"
    return f"'{oldest.version}', the oldest that leveret behaves as"


# The features that deprecated_features.permit.* = false may name.
DENIABLE: Final = frozenset({"transient_nonexcl_queues"})
# What changes when a deprecated feature is permitted.
PERMITTED: Final[dict[str, Callable[[Compat], Compat]]] = {
    "transient_nonexcl_queues": lambda compat: compat._replace(denies_transient_nonexcl_queues=False),
    "queue_master_locator": lambda compat: compat._replace(denies_queue_master_locator=False),
    "global_qos": lambda compat: compat._replace(global_qos="shared"),
}
