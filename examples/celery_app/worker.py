"""The application for `celery --app examples.celery_app.worker worker`, with the broker's URL in AMQP_URL."""

from __future__ import annotations

import os

from examples.celery_app.tasks import create_app

app = create_app(os.environ["AMQP_URL"])
