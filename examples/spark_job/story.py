"""a Spark job crashes in the middle of its orders, is started again, and every order gets its invoice"""

from __future__ import annotations

from tempfile import TemporaryDirectory

from examples.telling import print_messages
from leveret import Broker


def tell() -> None:
    """Run the job until a publish is nacked, then run it again."""
    from examples.spark_job.invoices import INVOICES, ORDERS, start
    from leveret.pipeline.computing.spark_session import session
    from leveret.spark import register

    with Broker() as broker, TemporaryDirectory() as checkpoint, session("test") as spark:
        register(spark)
        # Spark logs a failed task at length. One line is enough here.
        spark.sparkContext.setLogLevel("OFF")
        broker.declare_queue(ORDERS)
        broker.declare_queue(INVOICES)
        for number in range(3):
            order = {"id": number, "items": [{"price": 20, "count": number + 1}]}
            broker.publish("", ORDERS, json=order, message_id=f"order-{number}")
        broker.faults.nack_publishes(routing_key=INVOICES, after=2, times=1)
        for attempt in (1, 2):
            query = start(spark, broker.url, checkpoint)
            try:
                query.awaitTermination()
                print(f"  attempt {attempt}: done")
            except Exception as error:
                reason = next(line for line in str(error).splitlines() if "the broker nacked" in line)
                print(f"  attempt {attempt}: {reason.strip()}")
        print_messages(broker)
