"""Bugs of small services, each with a plain test that fails because of it, and what must be said of the cause.

`cause` is a pattern that one of the sentences about the cause matches: it names the client, the queue and the message.
`true` has patterns of other sentences that are true of the same failure; any sentence that matches none of these is
wrong.
"""

from __future__ import annotations

from typing import NamedTuple


class Bug(NamedTuple):
    """A failing test with a bug, and what must be said about it."""

    source: str
    cause: str
    true: tuple[str, ...]


BUGS: dict[str, Bug] = {}


def bug(name: str, source: str, cause: str, *true: str) -> None:
    assert name not in BUGS
    BUGS[name] = Bug(source, cause, true)


# Messages that are gone.
bug(
    "a payment is rejected and there is no dead-letter exchange",
    """
    import json
    import threading
    import pika

    class Payments:
        def __init__(self, url):
            parameters = pika.URLParameters(url)
            parameters.client_properties = {"connection_name": "payment service"}
            self.connection = pika.BlockingConnection(parameters)
            self.channel = self.connection.channel()
            self.channel.queue_declare("payments", durable=True)
            self.paid = []
            self.channel.basic_consume("payments", self.handle)

        def handle(self, channel, method, properties, body):
            payment = json.loads(body)
            if payment["amount"] < 0:
                channel.basic_reject(method.delivery_tag, requeue=False)
                return
            self.paid.append(payment["id"])
            channel.basic_ack(method.delivery_tag)

        def work(self, seconds):
            self.connection.process_data_events(seconds)

    def test_every_payment_is_booked_or_kept(leveret):
        service = Payments(leveret.url)
        for number, amount in ((70, 5), (71, -5), (72, 9)):
            leveret.publish("", "payments", json.dumps({"id": number, "amount": amount}).encode())
        while len(service.paid) < 2:
            service.work(0.01)
        assert service.paid == [70, 71, 72]
    """,
    r"payment service.* rejected #2 .*payments.*no dead-letter exchange",
)
bug(
    "an offer expires and nothing takes it",
    """
    import pika

    def offer(url, text):
        with pika.BlockingConnection(pika.URLParameters(url)) as connection:
            channel = connection.channel()
            channel.queue_declare("offers", durable=True, arguments={"x-message-ttl": 60_000})
            channel.basic_publish("", "offers", text)

    def take(url):
        with pika.BlockingConnection(pika.URLParameters(url)) as connection:
            return connection.channel().basic_get("offers", auto_ack=True)[2]

    def test_an_offer_is_there_after_two_minutes(leveret):
        offer(leveret.url, b"tea")
        leveret.clock.advance(minutes=2)
        assert take(leveret.url) == b"tea"
    """,
    r"#1 .*(expired|lived longer).*offers.*no dead-letter exchange|#1 expired in .*offers",
)
bug(
    "a queue of three drops its oldest",
    """
    import pika

    def log(url, lines):
        with pika.BlockingConnection(pika.URLParameters(url)) as connection:
            channel = connection.channel()
            channel.queue_declare("log", durable=True, arguments={"x-max-length": 3})
            for line in lines:
                channel.basic_publish("", "log", line)

    def test_all_lines_are_kept(leveret):
        log(leveret.url, [b"1", b"2", b"3", b"4"])
        leveret.wait_idle()
        assert [message.body for message in leveret.queue("log").ready] == [b"1", b"2", b"3", b"4"]
    """,
    r"log.*(dropped|maxlen|max-length|limit).*#1|#1.*(dropped|maxlen).*log",
)
bug(
    "a routing key with a typo",
    """
    from client import connect

    class Shop:
        def __init__(self, url):
            self.connection = connect(url, "shop")
            self.channel = self.connection.channel()
            self.channel.exchange_declare("shop", "topic", durable=True)

        def order(self, number):
            self.channel.basic_publish("shop", "odrer.created", b"%d" % number)

    def test_an_order_reaches_billing(leveret):
        leveret.declare_exchange("shop", "topic")
        leveret.declare_queue("billing")
        leveret.bind_queue("billing", "shop", "order.*")
        shop = Shop(leveret.url)
        shop.order(7)
        shop.connection.close()
        assert [message.text for message in leveret.queue("billing").ready] == ["7"]
    """,
    r"#1 .*'odrer\.created'.*(matches|fits) no binding|#1 .*reached no queue.*odrer\.created",
)
bug(
    "a queue's name with a typo",
    """
    from client import connect

    def send(url, body):
        connection = connect(url, "mailer")
        connection.channel().basic_publish("", "mails.outgoin", body)
        connection.close()

    def test_a_mail_is_queued(leveret):
        leveret.declare_queue("mails.outgoing")
        send(leveret.url, b"hello")
        leveret.wait_idle()
        assert len(leveret.queue("mails.outgoing").ready) == 1
    """,
    r"#1 .*mails\.outgoin\b.*(no queue|mails\.outgoing)",
)
bug(
    "a pattern that takes one word less",
    """
    from client import connect

    def audit(url):
        channel = connect(url, "audit").channel()
        channel.exchange_declare("events", "topic", durable=True)
        channel.queue_declare("audit", durable=True)
        channel.queue_bind("audit", "events", "order.*")
        return channel

    def test_every_event_is_audited(leveret):
        channel = audit(leveret.url)
        publisher = connect(leveret.url, "shop").channel()
        for key in ("order.created", "order.created.v2"):
            publisher.basic_publish("events", key, key.encode())
        seen = [channel.basic_get("audit", auto_ack=True)[2] for _ in range(2)]
        assert seen == [b"order.created", b"order.created.v2"]
    """,
    r"#2 .*'order\.created\.v2'.*(matches|fits) no binding",
)
bug(
    "headers that must all match",
    """
    from client import connect
    import pika

    def test_urgent_mails_arrive(leveret):
        leveret.declare_queue("urgent")
        leveret.bind_queue("urgent", "amq.headers", arguments={"x-match": "all", "kind": "mail", "urgent": True})
        channel = connect(leveret.url, "mailer").channel()
        properties = pika.BasicProperties(headers={"kind": "mail"})
        channel.basic_publish("amq.headers", "", b"hurry", properties)
        leveret.wait_idle()
        assert [message.body for message in leveret.queue("urgent").ready] == [b"hurry"]
    """,
    r"#1 .*(reached no queue|no binding|unroutable|no queue)",
)
bug(
    "an event that is published before its queue is bound",
    """
    from client import connect

    class Subscriber:
        def __init__(self, url):
            self.connection = connect(url, "subscriber")
            self.channel = self.connection.channel()

        def start(self):
            self.channel.queue_declare("news", durable=True)
            self.channel.queue_bind("news", "amq.fanout")

        def next(self):
            return self.channel.basic_get("news", auto_ack=True)[2]

    def test_the_subscriber_gets_the_news(leveret):
        subscriber = Subscriber(leveret.url)
        publisher = connect(leveret.url, "publisher").channel()
        publisher.basic_publish("amq.fanout", "", b"spring")
        subscriber.start()
        assert subscriber.next() == b"spring"
    """,
    r"#1 was published .*before .*news.* was bound",
    r"#1 .*(reached no queue|no binding)",
)
bug(
    "a transaction that nobody commits",
    """
    from client import connect

    def save(url, bodies):
        connection = connect(url, "importer")
        channel = connection.channel()
        channel.tx_select()
        for body in bodies:
            channel.basic_publish("", "imports", body)
        connection.close()

    def test_all_rows_are_queued(leveret):
        leveret.declare_queue("imports")
        save(leveret.url, [b"1", b"2"])
        leveret.wait_idle()
        assert len(leveret.queue("imports").ready) == 2
    """,
    r"importer.*(never committed|not committed|rolled back|transaction)",
)
bug(
    "an exclusive queue that goes with its connection",
    """
    from client import connect

    def set_up(url):
        connection = connect(url, "set-up")
        connection.channel().queue_declare("orders", exclusive=True)
        connection.close()

    def test_an_order_waits(leveret):
        set_up(leveret.url)
        connection = connect(leveret.url, "shop")
        connection.channel().basic_publish("", "orders", b"7")
        connection.close()
        leveret.wait_idle()
        assert "orders" in [queue.name for queue in leveret.queues]
    """,
    r"orders.*(exclusive|was deleted|went).*set-up|set-up.*orders|#1 .*orders.*no queue",
)
bug(
    "one of five thousand messages is rejected into nothing",
    """
    from client import connect

    class Counter:
        def __init__(self, url):
            self.connection = connect(url, "counter")
            self.channel = self.connection.channel()
            self.channel.basic_qos(prefetch_count=500)
            self.count = 0
            self.channel.basic_consume("numbers", self.handle)

        def handle(self, channel, method, properties, body):
            if body == b"3141":
                channel.basic_nack(method.delivery_tag, requeue=False)
            else:
                self.count += 1
                channel.basic_ack(method.delivery_tag)

    def test_all_numbers_are_counted(leveret):
        leveret.declare_queue("numbers")
        for number in range(5000):
            leveret.publish("", "numbers", b"%d" % number)
        counter = Counter(leveret.url)
        while leveret.queue("numbers").ready or leveret.queue("numbers").unacked:
            counter.connection.process_data_events(0.01)
        assert counter.count == 5000
    """,
    r"counter.* rejected #3142 .*numbers.*no dead-letter exchange",
)

# Messages that come again, or not at all.
bug(
    "a forgotten ack and a prefetch of one",
    """
    from client import connect

    class Invoices:
        def __init__(self, url):
            self.connection = connect(url, "invoice writer")
            self.channel = self.connection.channel()
            self.channel.basic_qos(prefetch_count=1)
            self.written = []
            self.channel.basic_consume("invoices", self.handle)

        def handle(self, channel, method, properties, body):
            self.written.append(body)
            if body != b"2":
                channel.basic_ack(method.delivery_tag)

    def test_all_invoices_are_written(leveret):
        leveret.declare_queue("invoices")
        for number in (b"1", b"2", b"3"):
            leveret.publish("", "invoices", number)
        service = Invoices(leveret.url)
        while len(service.written) < 2:
            service.connection.process_data_events(0.01)
        assert service.written == [b"1", b"2", b"3"]
    """,
    r"invoice writer held #2 .*prefetch of 1 kept #3 back",
    r"invoice writer (never acked|held) #2",
)
bug(
    "an ack that never arrived",
    """
    import threading
    from client import connect
    import pika

    class Billing(threading.Thread):
        def __init__(self, url):
            super().__init__(daemon=True)
            self.url = url
            self.billed = []

        def run(self):
            while len(self.billed) < 2:
                try:
                    channel = connect(self.url, "billing").channel()
                    for method, _, body in channel.consume("orders"):
                        self.billed.append(body)
                        channel.basic_ack(method.delivery_tag)
                        channel.connection.process_data_events(0.01)
                        if len(self.billed) == 2:
                            return
                except pika.exceptions.AMQPError:
                    continue

    def test_an_order_is_billed_once(leveret):
        leveret.declare_queue("orders")
        leveret.publish("", "orders", b"7")
        leveret.faults.reset_peer(on="basic.ack")
        billing = Billing(leveret.url)
        billing.start()
        billing.join(30)
        assert billing.billed == [b"7"]
    """,
    r"#1 was delivered again.*before its ack arrived",
)
bug(
    "a poison message that is requeued for ever",
    """
    from client import connect

    def test_a_bad_order_does_not_come_back(leveret):
        leveret.declare_queue("orders")
        leveret.publish("", "orders", b"not json")
        connection = connect(leveret.url, "order service")
        channel = connection.channel()
        tries = []

        def handle(channel, method, properties, body):
            tries.append(body)
            channel.basic_nack(method.delivery_tag, requeue=True)

        channel.basic_consume("orders", handle)
        while len(tries) <= 120:
            connection.process_data_events(0.001)
        assert len(tries) == 1
    """,
    r"order service.*(requeued|put back|came back).*#1.*orders|#1 .*(requeued|came back|redelivered).*order service",
)
bug(
    "two workers of which each should get everything",
    """
    from client import connect

    class Cache:
        def __init__(self, url, name):
            self.connection = connect(url, name)
            self.channel = self.connection.channel()
            self.channel.queue_declare("invalidations", durable=True)
            self.channel.queue_bind("invalidations", "amq.fanout")
            self.seen = []
            self.channel.basic_consume("invalidations", self.handle, auto_ack=True)

        def handle(self, channel, method, properties, body):
            self.seen.append(body)

    def test_each_cache_hears_of_each_change(leveret):
        caches = [Cache(leveret.url, "cache one"), Cache(leveret.url, "cache two")]
        for key in (b"a", b"b"):
            leveret.publish("amq.fanout", "", key)
        while sum(len(cache.seen) for cache in caches) < 2:
            for cache in caches:
                cache.connection.process_data_events(0.005)
        assert [cache.seen for cache in caches] == [[b"a", b"b"], [b"a", b"b"]]
    """,
    r"cache one.* and .*cache two.* (share|shared|compete).*invalidations",
)
bug(
    "a second consumer of a queue with a single active one",
    """
    from client import connect

    class Worker:
        def __init__(self, url, name):
            self.connection = connect(url, name)
            self.channel = self.connection.channel()
            self.channel.basic_qos(prefetch_count=1)
            self.done = []
            self.channel.basic_consume("jobs", self.handle)

        def handle(self, channel, method, properties, body):
            self.done.append(body)
            channel.basic_ack(method.delivery_tag)

    def test_both_workers_get_jobs(leveret):
        leveret.declare_queue("jobs", arguments={"x-single-active-consumer": True})
        one, two = workers = [Worker(leveret.url, "one"), Worker(leveret.url, "two")]
        for number in range(6):
            leveret.publish("", "jobs", b"%d" % number)
        while sum(len(worker.done) for worker in workers) < 6:
            for worker in workers:
                worker.connection.process_data_events(0.005)
        assert one.done
        assert two.done
    """,
    r"jobs.*single active consumer.*(one|two)|two.*(waits|is not active|got nothing).*jobs",
)
bug(
    "a dead letter that comes back to another queue",
    """
    from client import connect

    def test_a_mail_is_tried_again(leveret):
        leveret.declare_queue("newsletters")
        leveret.declare_queue("retry", arguments={
            "x-message-ttl": 30_000, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "newsletters",
        })
        leveret.declare_queue("mails", arguments={
            "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "retry",
        })
        leveret.publish("", "mails", b"hello")
        connection = connect(leveret.url, "mailer")
        channel = connection.channel()
        method, _, body = channel.basic_get("mails")
        channel.basic_reject(method.delivery_tag, requeue=False)
        connection.close()
        leveret.wait_idle()
        leveret.clock.advance(30)
        assert [message.body for message in leveret.queue("mails").ready] == [b"hello"]
    """,
    r"#1 left .*mails.*(came back|came) to .*newsletters",
)
bug(
    "a retry that waits ten times as long as the others",
    """
    from client import connect
    import pika

    DELAYS_MS = (1_000, 2_000, 30_000)

    def retry(channel, body, attempt):
        properties = pika.BasicProperties(expiration=str(DELAYS_MS[attempt]), headers={"attempt": attempt})
        channel.basic_publish("", "retry", body, properties)

    def test_three_retries_take_seven_seconds(leveret):
        leveret.declare_queue("retry", arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "work"})
        leveret.declare_queue("work")
        channel = connect(leveret.url, "retrier").channel()
        leveret.clock.hold()
        tried = []
        for attempt in range(3):
            retry(channel, b"job", attempt)
            leveret.wait_idle()
            leveret.clock.advance(DELAYS_MS[1] / 1000 * 2)
            method, properties, body = channel.basic_get("work", auto_ack=True)
            tried.append(body)
        assert tried == [b"job", b"job", b"job"]
    """,
    r"#3 waits in 'retry' for \d+ s more",
)

# Requests and replies.
bug(
    "a reply to a client that has left",
    """
    from client import connect
    import pika

    class Prices:
        def __init__(self, url):
            self.connection = connect(url, "price service")
            self.channel = self.connection.channel()
            self.channel.queue_declare("prices", durable=True)

        def answer_one(self):
            method, properties, body = self.channel.basic_get("prices", auto_ack=True)
            reply = pika.BasicProperties(correlation_id=properties.correlation_id)
            self.channel.basic_publish("", properties.reply_to, b"9.90", reply)

    def ask(url):
        connection = connect(url, "shop")
        channel = connection.channel()
        queue = channel.queue_declare("", exclusive=True).method.queue
        properties = pika.BasicProperties(reply_to=queue, correlation_id="1")
        channel.basic_publish("", "prices", b"tea", properties)
        connection.close()
        return queue

    def test_the_price_arrives(leveret):
        prices = Prices(leveret.url)
        queue = ask(leveret.url)
        prices.answer_one()
        leveret.wait_idle()
        assert queue in [each.name for each in leveret.queues]
    """,
    r"reply #2 of price service to #1 .*shop.*(left|closed|gone)|queue 'amq.* was deleted when .*shop.* closed",
    r"#2 .*no queue",
)
bug(
    "a reply with a correlation id of its own",
    """
    from client import connect
    import pika

    def serve_one(url):
        channel = connect(url, "stock service").channel()
        method, properties, body = channel.basic_get("stock", auto_ack=True)
        reply = pika.BasicProperties(correlation_id="stock-1")
        channel.basic_publish("", properties.reply_to, b"12", reply)

    class Caller:
        def __init__(self, url):
            self.channel = connect(url, "caller").channel()
            self.queue = self.channel.queue_declare("", exclusive=True).method.queue

        def ask(self):
            properties = pika.BasicProperties(reply_to=self.queue, correlation_id="request-1")
            self.channel.basic_publish("", "stock", b"tea", properties)

        def answer(self):
            method, properties, body = self.channel.basic_get(self.queue, auto_ack=True)
            return body if properties.correlation_id == "request-1" else None

    def test_the_stock_is_known(leveret):
        leveret.declare_queue("stock")
        caller = Caller(leveret.url)
        caller.ask()
        serve_one(leveret.url)
        assert caller.answer() == b"12"
    """,
    r"#2 .*correlation.id 'stock-1'.*(fits|matches) no request",
)
bug(
    "a request that nobody answers, and a test that hangs",
    """
    from client import connect
    import pika
    import pytest

    def ask(url):
        channel = connect(url, "shop").channel()
        channel.basic_consume("amq.rabbitmq.reply-to", lambda *_: None, auto_ack=True)
        channel.basic_publish("", "prices", b"tea", pika.BasicProperties(reply_to="amq.rabbitmq.reply-to"))
        for method, _, body in channel.consume("answers"):
            return body

    @pytest.mark.timeout(3)
    def test_the_price_is_known(leveret):
        leveret.declare_queue("prices")
        leveret.declare_queue("answers")
        assert ask(leveret.url) == b"9.90"
    """,
    r"#1 .*prices.*(no consumer|nobody consumes|waits)|prices.*no consumer.*#1",
)

# Clients that fail silently.
bug(
    "publishes without confirms on a connection that breaks",
    """
    from client import connect
    import pika

    def export(url, rows):
        connection = connect(url, "exporter")
        channel = connection.channel()
        for row in rows:
            try:
                channel.basic_publish("", "rows", row)
                connection.process_data_events(0.01)
            except pika.exceptions.AMQPError:
                connection = connect(url, "exporter")
                channel = connection.channel()
        connection.close()

    def test_all_rows_arrive(leveret):
        leveret.declare_queue("rows")
        leveret.faults.reset_peer(on="basic.publish", after=1)
        export(leveret.url, [b"1", b"2", b"3"])
        leveret.wait_idle()
        assert [message.body for message in leveret.queue("rows").ready] == [b"1", b"2", b"3"]
    """,
    r"exporter.*(without confirm|no confirms?).*(reset|broke|lost)",
)
bug(
    "an error that is swallowed, and no consumer after it",
    """
    import asyncio
    import contextlib
    import aio_pika

    class Mailer:
        def __init__(self):
            self.sent = []

        async def start(self, url):
            self.connection = await aio_pika.connect(url, client_properties={"connection_name": "mailer"})
            channel = await self.connection.channel()
            with contextlib.suppress(Exception):
                queue = await channel.declare_queue("mails", durable=True, arguments={"x-max-length": 10})
                await queue.consume(self.handle)

        async def handle(self, message):
            self.sent.append(message.body)
            await message.ack()

    def test_a_mail_is_sent(leveret):
        leveret.declare_queue("mails")

        async def scenario():
            mailer = Mailer()
            await mailer.start(leveret.url)
            leveret.publish("", "mails", b"hello")
            await asyncio.to_thread(leveret.wait_idle)
            await mailer.connection.close()
            return mailer.sent

        assert asyncio.run(scenario()) == [b"hello"]
    """,
    r"mails.*has no consumer: mailer got 406",
    r"mailer.*(406|PRECONDITION_FAILED)",
)
bug(
    "a consumer's thread that dies of a KeyError",
    """
    import json
    import threading
    from client import connect

    class Totals(threading.Thread):
        def __init__(self, url):
            super().__init__(name="totals", daemon=True)
            self.channel = connect(url, "totals").channel()
            self.total = 0
            self.channel.basic_consume("orders", self.handle)

        def handle(self, channel, method, properties, body):
            self.total += json.loads(body)["amount"]
            channel.basic_ack(method.delivery_tag)

        def run(self):
            self.channel.start_consuming()

    def test_the_total_is_right(leveret):
        leveret.declare_queue("orders")
        for order in ({"amount": 5}, {"amuont": 6}, {"amount": 7}):
            leveret.publish("", "orders", json.dumps(order).encode())
        totals = Totals(leveret.url)
        totals.start()
        totals.join(30)
        assert totals.total == 18
    """,
    r"totals.*KeyError.*#2|#2.*totals.*KeyError|totals.*(died|ended).*KeyError",
    r"totals held #\\d",
    r"totals held",
)
bug(
    "a task that dies of a ValueError",
    """
    import asyncio
    import aio_pika

    async def work(url, done):
        connection = await aio_pika.connect(url, client_properties={"connection_name": "parser"})
        channel = await connection.channel()
        await channel.set_qos(1)
        queue = await channel.get_queue("numbers")
        async with queue.iterator() as messages:
            async for message in messages:
                done.append(int(message.body))
                await message.ack()

    def test_all_numbers_are_parsed(leveret):
        leveret.declare_queue("numbers")
        for body in (b"1", b"two", b"3"):
            leveret.publish("", "numbers", body)

        async def scenario():
            done = []
            task = asyncio.create_task(work(leveret.url, done))
            await asyncio.wait([task], timeout=30)
            return done

        assert asyncio.run(scenario()) == [1, 2, 3]
    """,
    r"#3 waits in 'numbers', which has no consumer: task .* died of ValueError",
    r"parser held #2",
)
bug(
    "an ack that is sent twice",
    """
    from client import connect

    class Worker:
        def __init__(self, url):
            self.connection = connect(url, "worker")
            self.channel = self.connection.channel()
            self.channel.basic_qos(prefetch_count=1)
            self.done = []
            self.channel.basic_consume("jobs", self.handle)

        def handle(self, channel, method, properties, body):
            self.done.append(body)
            channel.basic_ack(method.delivery_tag)
            channel.basic_ack(method.delivery_tag)

    def test_all_jobs_are_done(leveret):
        leveret.declare_queue("jobs")
        for body in (b"1", b"2", b"3"):
            leveret.publish("", "jobs", body)
        worker = Worker(leveret.url)
        try:
            while worker.channel.is_open:
                worker.connection.process_data_events(0.01)
        except Exception:
            pass
        assert worker.done == [b"1", b"2", b"3"]
    """,
    r"worker.*(406|PRECONDITION_FAILED).*unknown delivery tag 1",
)
bug(
    "a passive declare that closes the channel",
    """
    from client import connect
    import pika

    def publish(url, body):
        connection = connect(url, "reporter")
        channel = connection.channel()
        try:
            channel.queue_declare("reports", passive=True)
            channel.basic_publish("", "reports", body)
        except pika.exceptions.AMQPError:
            pass
        connection.close()

    def test_a_report_waits(leveret):
        publish(leveret.url, b"monday")
        leveret.declare_queue("reports")
        assert [message.body for message in leveret.queue("reports").ready] == [b"monday"]
    """,
    r"reporter.*(404|NOT_FOUND).*reports",
)

# Frameworks.
bug(
    "a Celery task for a queue that no worker takes",
    """
    import celery
    from pytest_leveret.celery import running_worker

    app = celery.Celery("shop", set_as_current=False)
    app.conf.task_default_queue = "shop"
    app.conf.worker_enable_remote_control = False
    app.conf.task_routes = {"shop.bill": {"queue": "billing"}}
    done = []

    @app.task(name="shop.bill", shared=False)
    def bill(number):
        done.append(number)

    def test_a_bill_is_written(leveret):
        app.conf.broker_url = leveret.url
        with running_worker(app, queues=["shop"]):
            bill.delay(7)
            leveret.wait_idle(timeout=5)
        assert done == [7]
    """,
    r"#1 .*billing.*(no consumer|nobody consumes|waits)|billing.*no consumer.*#1",
)
bug(
    "a FastStream handler that raises",
    """
    import asyncio
    from faststream.rabbit import RabbitBroker, RabbitQueue

    def test_every_order_is_kept(leveret):
        kept = []

        async def scenario():
            broker = RabbitBroker(leveret.url)

            @broker.subscriber(RabbitQueue("orders", durable=True))
            async def order(body: dict):
                if body["id"] == 2:
                    raise ValueError("no stock")
                kept.append(body["id"])

            async with broker:
                await broker.start()
                for number in (1, 2, 3):
                    await broker.publish({"id": number}, "orders")
                await asyncio.to_thread(leveret.wait_idle)

        asyncio.run(scenario())
        assert kept == [1, 2, 3]
    """,
    r"rejected #2 .*orders.*no dead-letter exchange",
    r"ValueError",
)
bug(
    "a kombu consumer that refuses pickles",
    """
    import kombu
    from kombu.mixins import ConsumerMixin

    class Worker(ConsumerMixin):
        def __init__(self, connection):
            self.connection = connection
            self.done = []

        def get_consumers(self, consumer, channel):
            queue = kombu.Queue("jobs", durable=True)
            return [consumer(queues=[queue], callbacks=[self.handle], accept=["json"])]

        def on_decode_error(self, message, exc):
            message.reject()

        def handle(self, body, message):
            self.done.append(body)
            message.ack()

    def test_a_job_is_done(leveret):
        with kombu.Connection(leveret.url) as connection:
            kombu.enable_insecure_serializers(["pickle"])
            producer = connection.Producer()
            queue = kombu.Queue("jobs", durable=True)
            producer.publish({"id": 1}, routing_key="jobs", serializer="pickle", declare=[queue])
            worker = Worker(connection)
            list(worker.consume(limit=1, timeout=0.5))
        assert worker.done == [{"id": 1}]
    """,
    r"rejected #1 .*jobs.*no dead-letter exchange",
)

# Several brokers.
bug(
    "a relay between two brokers that uses the wrong key",
    """
    from client import connect

    def relay(source, target):
        taken = connect(source, "relay").channel()
        given = connect(target, "relay").channel()
        method, properties, body = taken.basic_get("outbox")
        given.basic_publish("", "inbocks", body)
        taken.basic_ack(method.delivery_tag)
        taken.connection.close()
        given.connection.close()

    def test_a_letter_gets_to_rome(make_leveret):
        paris, rome = make_leveret(), make_leveret()
        paris.declare_queue("outbox")
        rome.declare_queue("inbox")
        paris.publish("", "outbox", b"ciao")
        relay(paris.url, rome.url)
        rome.wait_idle()
        assert [message.body for message in rome.queue("inbox").ready] == [b"ciao"]
    """,
    r"#1 .*no queue .*inbocks",
)
