"""The application for `celery --app tests.clients.celery_app.worker worker`, with the broker's URL in AMQP_URL."""

from __future__ import annotations

import os

from tests.clients.celery_app.tasks import create_app

app = create_app(os.environ["AMQP_URL"])
