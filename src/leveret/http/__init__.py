"""HTTP beside AMQP: one optional port for RabbitMQ's management API, the control API, metrics and the live page.

`server` moves bytes, `conversation` speaks HTTP, and `site` decides which app answers. An app turns a `Request` into a
`Response` and knows no sockets. Only a broker with `management=True` imports this package. It needs h11, the extra
`leveret[http]`.
"""
