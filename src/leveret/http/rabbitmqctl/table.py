"""What each command of rabbitmqctl and rabbitmq-diagnostics does or lists, by its name.

A row calls `admin`, or reads what the management API shows. It returns what the formatter prints, and raises Stopped
where RabbitMQ's command ends with another exit code than 0. Texts and codes are those of RabbitMQ 4.3.6.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from leveret.http.rabbitmqctl.call import Action
from leveret.http.rabbitmqctl.listings import LISTINGS
from leveret.http.rabbitmqctl.node import NODE
from leveret.http.rabbitmqctl.operators import OPERATORS

TABLE: Final[Mapping[str, Action]] = {**OPERATORS, **LISTINGS, **NODE}
