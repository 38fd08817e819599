"""HTTP beside AMQP: one optional port for RabbitMQ's management API, the control API, metrics and the live page.

`server` moves bytes, `conversation` speaks HTTP, and `site` decides which app answers. An app turns a `Request` into a
`Response` and knows no sockets. Only a broker with `management=True` imports `server`, which needs h11, the extra
`leveret[http]`. `rabbitmqctl` answers the commands of RabbitMQ's tools without a port.
"""
