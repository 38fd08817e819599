"""What a worker's command line names: `celery --app examples.celery_app.worker worker`, with its broker in AMQP_URL."""

from __future__ import annotations

import os

from examples.celery_app.tasks import create_app

app = create_app(os.environ["AMQP_URL"])
