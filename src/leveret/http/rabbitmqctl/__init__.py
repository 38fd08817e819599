"""rabbitmqctl and rabbitmq-diagnostics: command lines, answered as RabbitMQ's own tools answer them.

`commands.json` is what the tools of RabbitMQ 4.3.6 say of their commands: usage, number of words, switches, banner.
`line` reads a command line by it, and `running` refuses what they refuse. `table` joins what each command does or
lists, from `operators`, `listings` and `node`, for a `call`. `printing` makes text of that.
"""
