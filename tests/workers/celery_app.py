"""A Celery application of a user, for a worker with prefork children."""

from __future__ import annotations

import os

from celery import Celery

app = Celery("shop", broker=os.environ["AMQP_URL"])
app.conf.task_default_queue = "shop"
app.conf.worker_enable_remote_control = False
app.conf.task_acks_late = True


@app.task(name="bill")
def bill(number):
    print(f"billed {number}", flush=True)
