"""The names that other tools have for what leveret has: what to use instead of each.

The tools are pika, kombu, aio-pika, rabbitmqctl, RabbitMQ's management API, toxiproxy, testcontainers, pytest-rabbitmq,
freezegun, time-machine and mock libraries. An answer is the name of ours, or what to do. It never destroys anything
that the foreign name does not, and never says the opposite. A name that `nearest_call` leads to the answer is not here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_READY: Final = "the messages are broker.queue(name).ready, and len() counts them"
_PAGE: Final = "to see the state, print broker.queues or broker.connections; save_page() writes a page"
_FRESH: Final = "each test has a fresh broker; to forget what has happened, broker.events.clear()"
_ENDED: Final = "the broker ends with its `with` block or its test, or by stop()"
_RUNNING: Final = "a broker runs from start(), or the beginning of its `with` block, to its end"
_LOOKED_AT: Final = "a view only shows; take messages with broker.consume(queue)"
_RULES: Final = "a fault ends with its rule: rule.remove(), or the `with` block of the rule"
_TEST_ITSELF: Final = "a test needs no channel; call the broker itself, or let a client connect to broker.url"
_PASSWORDS: Final = "broker.url has user and password, and broker.url_for(user=..., vhost=...) those of another user"
_ABSENT: Final = "for a message that must not come, pass times=0, as in assert_published(..., times=0)"
_NOT_THERE: Final = "leveret is one node in this process, and has no such command"

_OF_BROKER: Final = {
    "queue_declare make_queue add_queue": "declare_queue",
    "exchange_declare make_exchange add_exchange": "declare_exchange",
    "queue_bind bind create_binding add_binding": "bind_queue",
    "exchange_bind": "bind_exchange",
    "queue_unbind unbind": "unbind_queue",
    "exchange_unbind": "unbind_exchange",
    "queue_delete remove_queue": "delete_queue",
    "exchange_delete remove_exchange": "delete_exchange",
    "queue_purge purge empty_queue clear_queue": "purge_queue",
    "send send_message put produce emit enqueue publish_message producer post": "publish",
    "default_exchange": 'publish to a queue: broker.publish("", queue, body)',
    "start_consuming subscribe listen receive on_message consumer": "consume",
    "basic_get get pop get_message read": (
        "look at broker.queue(name).ready, or take messages with broker.consume(name)"
    ),
    "basic_ack basic_nack basic_reject ack nack reject": (
        "broker.consume(queue) returns a consumer, and it has ack(), nack() and reject()"
    ),
    "basic_qos set_qos prefetch_count qos": (
        "the test's own consumer takes prefetch=: broker.consume(queue, prefetch=1)"
    ),
    "queue_info": "queue",
    "list_queues": "queues",
    "list_exchanges": "exchanges",
    "list_connections": "connections",
    "list_consumers": "consumers",
    "channel create_channel open_channel confirm_delivery confirm_select tx_select": _TEST_ITSELF,
    "connect connect_robust connection create_connection new_connection client get_client": (
        "let a client connect to broker.url; the open connections are broker.connections"
    ),
    "channels list_channels": "the channels are those of broker.connections",
    "bindings list_bindings": "a queue's bindings are broker.queue(name).bindings",
    "add_on_return_callback returned_messages": "assert_returned",
    "drain_events process_data_events wait join wait_until_idle wait_for_idle settle idle drain flush "
    "wait_for_logs": "wait_idle",
    "wait_until_consuming": "wait_for_consumer",
    "wait_for wait_until eventually": (
        'wait with an assertion: assert_acked("orders", timeout=5), or with wait_idle()'
    ),
    "wait_for_message wait_for_messages wait_for_message_count": (
        'wait with an assertion: assert_ready("orders", times=3, timeout=5), or assert_delivered()'
    ),
    "wait_for_ack wait_for_acks": "wait with an assertion: assert_acked(queue, timeout=5)",
    "wait_until_empty wait_for_empty": "wait with an assertion: assert_empty(queue, timeout=5)",
    "wait_for_connection wait_until_connected": "wait_for_consumer() waits for a worker; see broker.connections",
    "amqp_url uri dsn broker_url connection_url connection_string get_url get_amqp_url get_connection_url as_uri "
    "address amqp_uri": "url",
    "get_connection_params connection_params connection_parameters parameters": (
        "make them of the URL: pika.URLParameters(broker.url)"
    ),
    "get_exposed_port rabbitmq_port amqp_port": "port",
    "hostname get_container_host_ip ip": "the host is in broker.url",
    "user username password credentials virtual_host vhost": _PASSWORDS,
    "api api_url http_url http_api ui": "management_url",
    "version rabbitmq_version server_version": "rabbitmq",
    "ssl tls_context certificates": "tls",
    "assert_called assert_called_with assert_any_call assert_sent assert_emitted assert_produced assert_routed": (
        "assert_published"
    ),
    "assert_called_once assert_called_once_with assert_published_once": (
        "count with times=, as in assert_published(exchange, times=1)"
    ),
    "assert_nothing_published assert_no_messages": "assert_not_published",
    "assert_received assert_got assert_arrived": "assert_delivered",
    "assert_consumed assert_processed assert_handled": "use assert_delivered() or assert_acked()",
    "assert_rejected": 'use reason=, as in assert_dead_lettered(queue, reason="rejected") or assert_dropped(...)',
    "assert_expired": 'use reason=, as in assert_dead_lettered(queue, reason="expired") or assert_dropped(...)',
    "assert_unroutable assert_unrouted": 'assert_dropped(exchange, reason="no route"), or assert_returned()',
    "assert_redelivered assert_retried": "assert_requeued(queue), or assert_delivered(queue, redelivered=True)",
    "assert_unacked": "compare broker.queue(name).unacked",
    "assert_enqueued assert_queued assert_queue_length assert_queue_depth assert_message_count assert_count "
    "assert_depth assert_length assert_in_queue assert_not_empty": "assert_ready",
    "assert_drained": "assert_empty",
    "assert_closed assert_error assert_channel_closed": "assert_refused",
    "assert_connected": "wait_for_consumer() waits for a worker; see broker.connections",
    "assert_declared assert_queue_exists assert_exists queue_exists has_queue": (
        "broker.queue(name) raises NotDeclaredError if it does not exist"
    ),
    "assert_bound": "compare broker.queue(name).bindings",
    "assert_none assert_never assert_no": _ABSENT,
    "messages get_messages peek browse queue_contents": _READY,
    "depth length message_count queue_length get_message_count queue_depth queue_size": _READY,
    "call_count mock_calls call_args call_args_list called history calls published published_messages "
    "received received_messages trace log logs get_logs method_calls": "the events are broker.events",
    "reset_mock clear clear_all flush_all reset_history": _FRESH,
    "purge_all": "each test has a fresh broker; one queue is emptied by purge_queue()",
    "return_value side_effect mock stub rpc reply when on_request": "respond",
    "report state status dump show debug inspect stats overview snapshot info": _PAGE,
    "close shutdown terminate kill quit exit": _ENDED,
    "is_running is_alive running started is_open is_started is_ready ready ping": _RUNNING,
    "reboot crash": "restart",
    "disconnect disconnect_all drop_connections kill_connections close_connections disconnect_clients": (
        "use broker.faults.reset_peer(), or broker.admin.close_all_connections(reason)"
    ),
    "resume unpause": "time runs on after broker.clock.release(); a fault ends with rule.remove()",
    "pause suspend": "time stands still after broker.clock.hold(); broker.faults.stall() holds back what is sent",
    "fail inject inject_fault add_fault toxics add_toxic toxic chaos": "faults",
    "time timer": "clock",
    "exec exec_in_container rabbitmqctl rabbitctl_output ctl": "what rabbitmqctl does is broker.admin",
    "users": "use broker.admin.list_users()",
    "vhosts": "use broker.admin.list_vhosts()",
    "definitions policies permissions": "they are in broker.admin.export_definitions()",
    "node nodes cluster join_cluster rotate_logs eval": _NOT_THERE,
    "explore": "it is a function of the module: write `from leveret import explore`, and call explore(scenario)",
}
# Answers by foreign names, which are separated by spaces, for each kind of object.
OTHER_NAMES: Final[Mapping[str, Mapping[str, str]]] = {
    "Broker": _OF_BROKER,
    "Aio": {
        "publish declare_queue declare_exchange bind_queue purge_queue restart reset queue url consume respond": (
            "it does not wait for clients: call it on the broker, without await"
        ),
        **_OF_BROKER,
    },
    "Admin": {
        "list_queues": "the queues are broker.queues",
        "list_exchanges": "the exchanges are broker.exchanges",
        "list_bindings": "a queue's bindings are broker.queue(name).bindings",
        "list_connections": "the connections are broker.connections",
        "list_channels": "the channels are those of broker.connections",
        "list_consumers": "the consumers are broker.consumers",
        "list_policies policies": 'they are in export_definitions()["policies"]',
        "list_operator_policies list_parameters": 'they are in export_definitions()["parameters"]',
        "list_permissions list_user_permissions permissions": 'they are in export_definitions()["permissions"]',
        "list_topic_permissions": 'they are in export_definitions()["topic_permissions"]',
        "list_user_limits": 'they are in export_definitions()["users"]',
        "list_vhost_limits": 'they are in export_definitions()["vhosts"]',
        "authenticate_user": "let a client log in, and see broker.assert_refused(403)",
        "create_user put_user": "add_user",
        "remove_user": "delete_user",
        "users": "list_users",
        "create_vhost put_vhost": "add_vhost",
        "remove_vhost": "delete_vhost",
        "vhosts": "list_vhosts",
        "add_policy put_policy create_policy policy": "set_policy",
        "delete_policy remove_policy": "clear_policy",
        "grant add_permissions grant_permissions permit": "set_permissions",
        "revoke delete_permissions": "clear_permissions",
        "set_tags add_tags": "set_user_tags",
        "close_connections disconnect disconnect_all kill_connections": "close_all_connections",
        "definitions get_definitions export": "export_definitions",
        "load_definitions put_definitions load import_": "import_definitions",
        "set_vm_memory_high_watermark set_disk_free_limit": "set_alarm",
        "status report ping environment": "to see the state, print broker.queues or broker.connections",
        "declare_queue create_queue": "use broker.declare_queue()",
        "declare_exchange create_exchange": "use broker.declare_exchange()",
        "delete_queue": "use broker.delete_queue()",
        "purge_queue": "use broker.purge_queue()",
        "stop_app": "use broker.stop()",
        "start_app": "use broker.start()",
        "reset": "use broker.reset()",
        "join_cluster cluster_status forget_cluster_node eval rotate_logs list_feature_flags enable_feature_flag": (
            _NOT_THERE
        ),
    },
    "Clock": {
        "tick shift travel sleep move forward fast_forward move_forward skip jump step elapse": "advance",
        "move_to travel_to set goto set_time": "advance() takes how far to go: clock.advance(then - clock.now)",
        "freeze freeze_time pause stop_time": "hold",
        "unfreeze resume run start unpause stop": "release",
        "time time_ns monotonic utcnow today current_time": "now",
        "frozen is_frozen paused is_paused": "is_held",
        "auto_tick autotick autojump_clock": "autojump",
        "aio": "use broker.aio.clock",
    },
    "FaultPlan": {
        "latency slow jitter slow_down": "delay",
        "timeout partition network_partition packet_loss hang black_hole": "blackhole",
        "throttle rate rate_limit": "bandwidth",
        "slow_close": "half_close",
        "down disable refuse reject_connections unavailable": "refuse_connections",
        "disconnect reset reset_connection drop_connection kill_connection connection_reset": "reset_peer",
        "close channel_error": "close_channel",
        "lose lose_message drop_message": "drop",
        "nack reject_publish nack_publish": "nack_publishes",
        "lose_confirms no_confirms drop_confirms": "withhold_confirms",
        "redelivery requeue": "redeliver",
        "block blocked block_connection connection_blocked": "block_publishers",
        "cancel cancel_consumer": "cancel_consumers",
        "crash reboot kill": "restart",
        "corrupt_data garbage": "corrupt",
        "slice": "slicer",
        "freeze pause": "stall",
        "toxic add_toxic inject fail add_fault": "add",
        "toxics list": "rules",
        "remove remove_all clear enable stop remove_toxic destroy delete resume up end disable_all": _RULES,
    },
    "QueueView": {
        "messages ready_messages get_messages messages_ready peek": "ready",
        "depth length size qsize count message_count": "len(queue.ready) counts the messages",
        "unacknowledged messages_unacknowledged in_flight unacked_messages": "unacked",
        "is_empty empty": "compare queue.ready and queue.unacked with [], or use broker.assert_empty(name)",
        "get pop ack nack": _LOOKED_AT,
        "args": "arguments",
        "ttl max_length message_ttl": "queue.arguments has what it was declared with",
        "routing_keys": "bindings",
        "purge": "use broker.purge_queue(name)",
        "delete": "use broker.delete_queue(name)",
        "bind": "use broker.bind_queue(name, exchange, routing_key)",
        "unbind": "use broker.unbind_queue(name, exchange, routing_key)",
        "publish put": 'publish to a queue: broker.publish("", queue, body)',
        "consume subscribe": "use broker.consume(name)",
        "queue_type": "type",
        "virtual_host": "vhost",
    },
    "ExchangeView": {
        "kind exchange_type": "type",
        "args": "arguments",
        "publish": "use broker.publish(exchange, routing_key, body)",
        "virtual_host": "vhost",
    },
    "BindingView": {
        "queue queue_name": "destination",
        "exchange exchange_name": "source",
        "key binding_key": "routing_key",
        "args": "arguments",
    },
    "ConnectionView": {
        "client client_name connection_name": "name",
        "username": "user",
        "host ip address port": "peer",
        "virtual_host": "vhost",
        "id": "number",
        "close disconnect": "a view only shows; use broker.admin.close_connection(name, reason)",
        "is_open closed is_closed": "broker.connections has the open ones",
        "channel_count": "len(connection.channels) counts them",
    },
    "ChannelView": {
        "confirm_mode": "confirming",
        "id channel_number": "number",
    },
    "ConsumerView": {
        "consumer_tag": "tag",
        "queue_name": "queue",
    },
    "MessageView": {
        "payload data content value msg message": "body",
        "decode body_text": "text",
        "key": "routing_key",
        "ttl": "expiration",
        "id": "message_id",
        "persistent": "delivery_mode",
        "attempts retries delivery_attempts attempt": "delivery_count",
        "delivery_tag ack nack reject": _LOOKED_AT,
    },
    "ScriptedConsumer": {
        "get receive recv pop next_message wait": "next",
        "acknowledge basic_ack": "ack",
        "basic_nack": "nack",
        "basic_reject": "reject",
        "received": "messages",
        "stop": "cancel",
    },
    "Responder": {"calls mock_calls": "requests", "call_count": "count", "stop close": "remove"},
}

# What a fixture of another plugin returns, in words of ours.
FIXTURES: Final[Mapping[str, str]] = {
    "broker rabbitmq rabbit rabbitmq_broker amqp_broker amqp_server": "leveret",
    "rabbitmq_proc rabbitmq_nooproc rabbitmq_container rabbitmq_service rabbitmq_server": "leveret_session",
    "amqp_url rabbitmq_url broker_url rabbit_url amqp_uri": "leveret.url",
    "rabbitmq_port amqp_port": "leveret.port",
}
