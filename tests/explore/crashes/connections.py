"""Bugs that a lost connection finds. The services run on threads of the test, with pika."""

from __future__ import annotations

from uuid import uuid4

from pika.exceptions import AMQPError

from tests.explore.crashes.planted import Planted


class DatabaseBeforeBroker(Planted):
    """A dual write, database first: a redelivered order is skipped, so its event may never be published."""

    tables = "create table paid (id text primary key)"

    @staticmethod
    def bug(shop):
        def pay(order):
            if shop.write("insert or ignore into paid values (?)", order.id):
                shop.send("shipped", order.id)
            shop.ack(order)

        shop.consume(pay)

    @staticmethod
    def twin(shop):
        def pay(order):
            shop.write("insert or ignore into paid values (?)", order.id)
            shop.send("shipped", order.id)
            shop.ack(order)

        shop.consume(pay)

    @staticmethod
    def holds(after):
        assert set(after.bodies("shipped")) == set(after.rows("select id from paid")) == {"1"}


class BrokerBeforeDatabase(Planted):
    """A dual write, broker first: a redelivered order is announced again, under a new id."""

    tables = "create table paid (id text primary key, event text)"

    @staticmethod
    def bug(shop):
        def pay(order):
            event = str(uuid4())
            shop.send("shipped", order.id, id=event)
            shop.write("insert or replace into paid values (?, ?)", order.id, event)
            shop.ack(order)

        shop.consume(pay)

    @staticmethod
    def twin(shop):
        def pay(order):
            event = f"paid {order.id}"
            shop.send("shipped", order.id, id=event)
            shop.write("insert or replace into paid values (?, ?)", order.id, event)
            shop.ack(order)

        shop.consume(pay)

    @staticmethod
    def holds(after):
        assert set(after.ids("shipped")) == set(after.rows("select event from paid"))


class AckBeforePublish(Planted):
    """The order is acknowledged before its event is published."""

    @staticmethod
    def bug(shop):
        def ship(order):
            shop.ack(order)
            shop.send("shipped", order.id)

        shop.consume(ship)

    @staticmethod
    def twin(shop):
        def ship(order):
            shop.send("shipped", order.id)
            shop.ack(order)

        shop.consume(ship)

    @staticmethod
    def holds(after):
        assert set(after.bodies("shipped")) == {"1"}


class AckWithoutIdempotence(Planted):
    """The order is acknowledged after its commit, and a redelivered one is written again."""

    tables = "create table paid (id text)"

    @staticmethod
    def bug(shop):
        def pay(order):
            shop.write("insert into paid values (?)", order.id)
            shop.ack(order)

        shop.consume(pay)

    @staticmethod
    def twin(shop):
        def pay(order):
            shop.write("insert into paid select ? where not exists (select 1 from paid where id = ?)", *[order.id] * 2)
            shop.ack(order)

        shop.consume(pay)

    @staticmethod
    def holds(after):
        assert after.rows("select id from paid") == ["1"]


class HooksAfterCommit(Planted):
    """Events are published by hooks that run after the commit, and the commit acknowledges."""

    tables = "create table paid (id text primary key)"

    @staticmethod
    def bug(shop):
        def pay(order):
            hooks = [lambda: shop.send("shipped", order.id)]
            shop.write("insert or ignore into paid values (?)", order.id)
            shop.ack(order)
            for hook in hooks:
                hook()

        shop.consume(pay)

    @staticmethod
    def twin(shop):
        def pay(order):
            hooks = [lambda: shop.send("shipped", order.id)]
            shop.write("insert or ignore into paid values (?)", order.id)
            for hook in hooks:
                hook()
            shop.ack(order)

        shop.consume(pay)

    @staticmethod
    def holds(after):
        assert set(after.bodies("shipped")) == {"1"}


class PublisherWithoutConfirms(Planted):
    """A second connection publishes without confirms: its loss goes unnoticed, and the order is acknowledged."""

    @staticmethod
    def bug(shop):
        publisher = shop.publisher()

        def ship(order):
            shop.send("shipped", order.id, channel=publisher)
            shop.ack(order)

        shop.consume(ship)

    @staticmethod
    def twin(shop):
        publisher = shop.publisher(confirm=True)

        def ship(order):
            shop.send("shipped", order.id, channel=publisher)
            shop.ack(order)

        shop.consume(ship)

    @staticmethod
    def holds(after):
        assert set(after.bodies("shipped")) == {"1"}


class ResendAfterLostConfirm(Planted):
    """A publish is repeated when its confirm is lost, and the copy looks like another event."""

    @staticmethod
    def bug(shop):
        def ship(order):
            while True:
                try:
                    shop.send("shipped", order.id, id=str(uuid4()), channel=shop.publisher(confirm=True))
                except AMQPError:
                    continue
                break
            shop.ack(order)

        shop.consume(ship)

    @staticmethod
    def twin(shop):
        def ship(order):
            event = f"shipped {order.id}"
            while True:
                try:
                    shop.send("shipped", order.id, id=event, channel=shop.publisher(confirm=True))
                except AMQPError:
                    continue
                break
            shop.ack(order)

        shop.consume(ship)

    on = ("conn publisher*basic.publish #*",)

    @staticmethod
    def holds(after):
        assert len(set(after.ids("shipped"))) == 1


class DedupByDeliveryTag(Planted):
    """Orders are recognised by their delivery tags, which begin at 1 again on each connection."""

    orders = ("1", "2")
    tables = "create table paid (tag int primary key, id text unique)"

    @staticmethod
    def bug(shop):
        def pay(order):
            shop.write("insert or ignore into paid values (?, ?)", order.tag, order.id)
            shop.ack(order)

        shop.channel.basic_qos(prefetch_count=1)
        shop.consume(pay)

    @staticmethod
    def twin(shop):
        def pay(order):
            shop.write("insert or ignore into paid select coalesce(max(tag), 0) + 1, ? from paid", order.id)
            shop.ack(order)

        shop.channel.basic_qos(prefetch_count=1)
        shop.consume(pay)

    @staticmethod
    def holds(after):
        assert after.rows("select id from paid order by id") == ["1", "2"]


class RedeliveredMeansDone(Planted):
    """A redelivered order is believed done, although its first delivery may never have arrived."""

    on = ("basic.deliver",)
    tables = "create table paid (id text primary key)"

    @staticmethod
    def bug(shop):
        def pay(order):
            if not order.is_redelivered:
                shop.write("insert into paid values (?)", order.id)
            shop.ack(order)

        shop.consume(pay)

    @staticmethod
    def twin(shop):
        def pay(order):
            shop.write("insert or ignore into paid values (?)", order.id)
            shop.ack(order)

        shop.consume(pay)

    @staticmethod
    def holds(after):
        assert after.rows("select id from paid") == ["1"]


class RedeliveredMeansPoison(Planted):
    """A redelivered order is believed poisonous and put aside, although only a connection was lost."""

    queues = ("orders", "shipped", "poison")

    @staticmethod
    def bug(shop):
        def ship(order):
            shop.send("poison" if order.is_redelivered else "shipped", order.id)
            shop.ack(order)

        shop.consume(ship)

    tables = "create table tries (id text primary key, count int)"

    @staticmethod
    def twin(shop):
        def ship(order):
            shop.write("insert into tries values (?, 1) on conflict do update set count = count + 1", order.id)
            (count,) = shop.rows("select count from tries where id = ?", order.id)
            shop.send("poison" if count > 3 else "shipped", order.id)
            shop.ack(order)

        shop.consume(ship)

    @staticmethod
    def holds(after):
        assert after.bodies("poison") == []


class RedeliveredGoesToTheEnd(Planted):
    """A redelivered order is put at the end of the queue, behind younger orders."""

    orders = ("1", "2")
    on = ("basic.deliver",)

    @staticmethod
    def bug(shop):
        def ship(order):
            shop.send("orders" if order.is_redelivered else "shipped", order.id, id=order.id)
            shop.ack(order)

        shop.channel.basic_qos(prefetch_count=1)
        shop.consume(ship)

    @staticmethod
    def twin(shop):
        def ship(order):
            shop.send("shipped", order.id, id=order.id)
            shop.ack(order)

        shop.channel.basic_qos(prefetch_count=1)
        shop.consume(ship)

    # Without it, a consumer whose connection hangs may keep an order back, and the next one gets a younger order first.
    is_single_active = True

    @staticmethod
    def holds(after):
        assert list(dict.fromkeys(after.bodies("shipped"))) == ["1", "2"]


class AckOfTheRest(Planted):
    """One order waits for the next, whose ack with multiple=True covers both before the first is done."""

    orders = ("1", "2")

    @staticmethod
    def bug(shop):
        waiting = []

        def ship(order):
            if order.number == 1:
                waiting.append(order)
                return
            shop.send("shipped", order.id)
            shop.ack(order, multiple=True)
            for earlier in waiting:
                shop.send("shipped", earlier.id)

        shop.consume(ship)

    @staticmethod
    def twin(shop):
        publisher = shop.publisher(confirm=True)
        waiting = []

        def ship(order):
            if order.id in shop.memory:
                shop.ack(order)
                return
            waiting.append(order)
            if {each.id for each in waiting} == {"1", "2"}:
                for each in waiting:
                    shop.send("shipped", each.id, channel=publisher)
                shop.memory |= {each.id: "shipped" for each in waiting}
                shop.ack(order, multiple=True)
                waiting.clear()

        shop.consume(ship)

    @staticmethod
    def holds(after):
        assert set(after.bodies("shipped")) == {"1", "2"}


class RequeueWithoutLimit(Planted):
    """A second insert of the same key fails for ever, and the order goes back each time."""

    tables = "create table paid (id text primary key); create table tries (id text)"

    @staticmethod
    def bug(shop):
        def pay(order):
            shop.write("insert into tries values (?)", order.id)
            try:
                shop.write("insert into paid values (?)", order.id)
            except Exception:
                shop.channel.basic_nack(order.tag, requeue=len(shop.rows("select id from tries")) < 30)
            else:
                shop.ack(order)

        shop.consume(pay)

    @staticmethod
    def twin(shop):
        def pay(order):
            shop.write("insert into tries values (?)", order.id)
            try:
                shop.write("insert into paid values (?)", order.id)
            except Exception:
                if not shop.rows("select id from paid where id = ?", order.id):
                    raise
            shop.ack(order)

        shop.consume(pay)

    @staticmethod
    def holds(after):
        assert len(after.rows("select id from tries")) < 5


class DropOnError(Planted):
    """An order whose event cannot be published is rejected for good, without a dead-letter exchange."""

    @staticmethod
    def bug(shop):
        publisher = shop.publisher(confirm=True)

        def ship(order):
            try:
                shop.send("shipped", order.id, channel=publisher)
            except AMQPError:
                shop.channel.basic_nack(order.tag, requeue=False)
            else:
                shop.ack(order)

        shop.consume(ship)

    @staticmethod
    def twin(shop):
        publisher = shop.publisher(confirm=True)

        def ship(order):
            try:
                shop.send("shipped", order.id, channel=publisher)
            except AMQPError:
                shop.channel.basic_nack(order.tag, requeue=True)
                raise
            shop.ack(order)

        shop.consume(ship)

    @staticmethod
    def holds(after):
        assert set(after.bodies("shipped")) == {"1"}


class CacheBeforeWork(Planted):
    """The cache of finished orders is filled before the work, and survives the connection."""

    @staticmethod
    def bug(shop):
        def ship(order):
            if order.id not in shop.memory:
                shop.memory[order.id] = "shipped"
                shop.send("shipped", order.id)
            shop.ack(order)

        shop.consume(ship)

    @staticmethod
    def twin(shop):
        publisher = shop.publisher(confirm=True)

        def ship(order):
            if order.id not in shop.memory:
                shop.send("shipped", order.id, channel=publisher)
            shop.ack(order)
            shop.memory[order.id] = "shipped"

        shop.consume(ship)

    @staticmethod
    def holds(after):
        assert set(after.bodies("shipped")) == {"1"}


class ReadModifyWrite(Planted):
    """The stock is read, changed and written for each delivery, not for each order."""

    tables = "create table stock (count int); insert into stock values (10); create table taken (id text primary key)"

    @staticmethod
    def bug(shop):
        def reserve(order):
            (count,) = shop.rows("select count from stock")
            shop.write("update stock set count = ?", count - order.number)
            shop.ack(order)

        shop.consume(reserve)

    @staticmethod
    def twin(shop):
        def reserve(order):
            with shop.db:
                if shop.db.execute("insert or ignore into taken values (?)", (order.id,)).rowcount:
                    shop.db.execute("update stock set count = count - ?", (order.number,))
            shop.ack(order)

        shop.consume(reserve)

    @staticmethod
    def holds(after):
        assert after.rows("select count from stock") == [9]


class RetryByRepublishing(Planted):
    """A failed order is acknowledged first and then published again with a higher count."""

    queues = ("orders", "retries")

    @staticmethod
    def bug(shop):
        def fail(order):
            shop.ack(order)
            shop.send("retries", f"{order.id} 2")

        shop.consume(fail)

    @staticmethod
    def twin(shop):
        def fail(order):
            shop.send("retries", f"{order.id} 2")
            shop.ack(order)

        shop.consume(fail)

    @staticmethod
    def holds(after):
        assert set(after.bodies("retries")) == {"1 2"}


class AutoAck(Planted):
    """Orders are consumed with auto_ack=True, so the broker forgets them once they are sent."""

    on = ("basic.deliver", "basic.publish")
    last = "shipped"

    @staticmethod
    def bug(shop):
        shop.consume(lambda order: shop.send("shipped", order.id), auto_ack=True)

    @staticmethod
    def twin(shop):
        def ship(order):
            shop.send("shipped", order.id)
            shop.ack(order)

        shop.consume(ship)

    @staticmethod
    def holds(after):
        assert set(after.bodies("shipped")) == {"1"}


class ReservationStays(Planted):
    """A saga without compensation: the order is rejected when its charge fails, and its reservation stays."""

    queues = ("orders", "charges", "rejected")
    tables = "create table reserved (id text primary key)"

    @staticmethod
    def bug(shop):
        bank = shop.publisher(confirm=True)

        def sell(order):
            shop.write("insert or ignore into reserved values (?)", order.id)
            try:
                shop.send("charges", order.id, channel=bank)
            except AMQPError:
                shop.send("rejected", order.id)
            shop.ack(order)

        shop.consume(sell)

    @staticmethod
    def twin(shop):
        bank = shop.publisher(confirm=True)

        def sell(order):
            shop.write("insert or ignore into reserved values (?)", order.id)
            try:
                shop.send("charges", order.id, channel=bank)
            except AMQPError:
                shop.write("delete from reserved where id = ?", order.id)
                shop.send("rejected", order.id)
            shop.ack(order)

        shop.consume(sell)

    on = ("conn publisher*basic.publish #*",)

    @staticmethod
    def holds(after):
        assert not after.bodies("rejected") or after.rows("select id from reserved") == []


class OutboxDeletedFirst(Planted):
    """The outbox deletes its rows before it publishes them."""

    tables = "create table outbox (id text); insert into outbox values ('a'), ('b')"
    orders = ("tick",)

    @staticmethod
    def bug(shop):
        def relay(tick):
            events = shop.rows("select id from outbox")
            shop.write("delete from outbox")
            for event in events:
                shop.send("shipped", event, id=event)
            shop.ack(tick)

        shop.consume(relay)

    @staticmethod
    def twin(shop):
        publisher = shop.publisher(confirm=True)

        def relay(tick):
            for event in shop.rows("select id from outbox order by id"):
                shop.send("shipped", event, id=event, channel=publisher)
                shop.write("delete from outbox where id = ?", event)
            shop.ack(tick)

        shop.consume(relay)

    @staticmethod
    def holds(after):
        assert set(after.bodies("shipped")) == {"a", "b"}


class OutboxOutOfOrder(Planted):
    """The outbox goes on with the next row when one cannot be published, and comes back to it later."""

    tables = "create table outbox (id text); insert into outbox values ('a'), ('b')"
    orders = ("tick",)
    on = ("conn publisher*basic.publish #*",)

    @staticmethod
    def bug(shop):
        def relay(tick):
            while events := shop.rows("select id from outbox order by id"):
                for event in events:
                    try:
                        shop.send("shipped", event, id=event, channel=shop.publisher(confirm=True))
                    except AMQPError:
                        continue
                    shop.write("delete from outbox where id = ?", event)
            shop.ack(tick)

        shop.consume(relay)

    @staticmethod
    def twin(shop):
        def relay(tick):
            while events := shop.rows("select id from outbox order by id limit 1"):
                try:
                    shop.send("shipped", *events, id=events[0], channel=shop.publisher(confirm=True))
                except AMQPError:
                    continue
                shop.write("delete from outbox where id = ?", *events)
            shop.ack(tick)

        shop.consume(relay)

    @staticmethod
    def holds(after):
        assert list(dict.fromkeys(after.bodies("shipped"))) == ["a", "b"]


class QueueOfItsConnection(Planted):
    """The queue of replies is deleted with its last consumer, and with it what waits there."""

    on = ("*client->server basic.ack #*", "basic.publish")
    queues = ("orders", "shipped")

    @staticmethod
    def bug(shop):
        shop.channel.queue_declare("replies", exclusive=True)
        QueueOfItsConnection.ask(shop)

    @staticmethod
    def twin(shop):
        shop.channel.queue_declare("replies", durable=True)
        QueueOfItsConnection.ask(shop)

    @staticmethod
    def ask(shop):
        """Send each order to the queue of replies, and ship what comes back from there."""

        def ask(order):
            shop.send("replies", order.id, id=order.id)
            shop.ack(order)

        def ship(reply):
            shop.send("shipped", reply.id)
            shop.ack(reply)

        shop.consume(ship, "replies")
        shop.consume(ask)

    @staticmethod
    def holds(after):
        assert set(after.bodies("shipped")) == {"1"}


class ConsumesOnlyOnce(Planted):
    """The service consumes when it starts and forgets it when it connects again."""

    @staticmethod
    def bug(shop):
        def ship(order):
            shop.send("shipped", order.id)
            shop.ack(order)

        if "consumes" not in shop.memory:
            shop.consume(ship)
        shop.memory["consumes"] = True

    @staticmethod
    def twin(shop):
        def ship(order):
            shop.send("shipped", order.id)
            shop.ack(order)

        shop.consume(ship)

    @staticmethod
    def holds(after):
        assert not after.broker.queue("orders").ready


class CursorBeforePublish(Planted):
    """An export advances its cursor before the line is published."""

    orders = ("tick",)

    @staticmethod
    def bug(shop):
        publisher = shop.publisher(confirm=True)

        def export(tick):
            while shop.memory.setdefault("line", 0) < 3:
                shop.memory["line"] += 1
                shop.send("shipped", str(shop.memory["line"]), channel=publisher)
            shop.ack(tick)

        shop.consume(export)

    @staticmethod
    def twin(shop):
        publisher = shop.publisher(confirm=True)

        def export(tick):
            while shop.memory.setdefault("line", 0) < 3:
                shop.send("shipped", str(shop.memory["line"] + 1), channel=publisher)
                shop.memory["line"] += 1
            shop.ack(tick)

        shop.consume(export)

    @staticmethod
    def holds(after):
        assert set(after.bodies("shipped")) == {"1", "2", "3"}


class HalfOfTwoEvents(Planted):
    """Two events and an ack belong together, and only the first two of the three may arrive."""

    queues = ("orders", "shipped", "invoices")

    @staticmethod
    def bug(shop):
        def sell(order):
            shop.send("shipped", order.id)
            shop.send("invoices", order.id)
            shop.ack(order)

        shop.consume(sell)

    @staticmethod
    def twin(shop):
        def sell(order):
            shop.send("shipped", order.id)
            shop.send("invoices", order.id)
            shop.ack(order)
            shop.channel.tx_commit()

        shop.channel.tx_select()
        shop.consume(sell)

    on = ("basic.publish", "*client->server basic.ack #*", "tx.commit")

    @staticmethod
    def holds(after):
        assert after.bodies("shipped") == after.bodies("invoices") != []


class StatusInProgress(Planted):
    """An order in progress is left to the service that began it, which has lost its connection."""

    tables = "create table work (id text primary key, status text)"

    @staticmethod
    def bug(shop):
        def ship(order):
            if shop.write("insert or ignore into work values (?, 'in progress')", order.id):
                shop.send("shipped", order.id)
                shop.write("update work set status = 'done' where id = ?", order.id)
            shop.ack(order)

        shop.consume(ship)

    @staticmethod
    def twin(shop):
        publisher = shop.publisher(confirm=True)

        def ship(order):
            shop.write("insert or ignore into work values (?, 'in progress')", order.id)
            if shop.rows("select status from work where id = ?", order.id) == ["in progress"]:
                shop.send("shipped", order.id, channel=publisher)
                shop.write("update work set status = 'done' where id = ?", order.id)
            shop.ack(order)

        shop.consume(ship)

    @staticmethod
    def holds(after):
        assert set(after.bodies("shipped")) == {"1"}


class GetWithAutoAck(Planted):
    """A nightly job empties a queue with basic.get and auto_ack=True."""

    orders = ("tick",)
    queues = ("orders", "backlog", "shipped")
    on = ("basic.publish", "basic.get-ok")

    @classmethod
    def prepare(cls, broker):
        """Fill the queue that the job empties."""
        for order in "12":
            broker.publish("", "backlog", order.encode(), message_id=order, delivery_mode=2)

    @staticmethod
    def bug(shop):
        def empty(tick):
            while (got := shop.channel.basic_get("backlog", auto_ack=True))[0] is not None:
                shop.send("shipped", got[1].message_id)
            shop.ack(tick)

        shop.consume(empty)

    @staticmethod
    def twin(shop):
        def empty(tick):
            while (got := shop.channel.basic_get("backlog"))[0] is not None:
                shop.send("shipped", got[1].message_id)
                shop.channel.basic_ack(got[0].delivery_tag)
            shop.ack(tick)

        shop.consume(empty)

    @staticmethod
    def holds(after):
        assert set(after.bodies("shipped")) == {"1", "2"}


class KeyOfTheAttempt(Planted):
    """The bank recognises a repeated charge by its key, and each delivery makes a new key."""

    tables = "create table charges (key text primary key)"

    @staticmethod
    def bug(shop):
        def charge(order):
            shop.write("insert or ignore into charges values (?)", str(uuid4()))
            shop.ack(order)

        shop.consume(charge)

    @staticmethod
    def twin(shop):
        def charge(order):
            shop.write("insert or ignore into charges values (?)", order.id)
            shop.ack(order)

        shop.consume(charge)

    @staticmethod
    def holds(after):
        assert len(after.rows("select key from charges")) == 1


class ScheduleMovedFirst(Planted):
    """A job's next time is moved on before the job is published."""

    tables = "create table jobs (id text, due int); insert into jobs values ('report', 1)"
    orders = ("tick",)

    @staticmethod
    def bug(shop):
        def tick(tick):
            for job in shop.rows("select id from jobs where due = 1"):
                shop.write("update jobs set due = 2 where id = ?", job)
                shop.send("shipped", job)
            shop.ack(tick)

        shop.consume(tick)

    @staticmethod
    def twin(shop):
        publisher = shop.publisher(confirm=True)

        def tick(tick):
            for job in shop.rows("select id from jobs where due = 1"):
                shop.send("shipped", job, channel=publisher)
                shop.write("update jobs set due = 2 where id = ?", job)
            shop.ack(tick)

        shop.consume(tick)

    @staticmethod
    def holds(after):
        assert set(after.bodies("shipped")) == {"report"}


class CheckpointFirst(Planted):
    """The highest number seen is kept, and what is not above it is skipped, done or not."""

    orders = ("1", "2")
    tables = "create table checkpoint (number int); insert into checkpoint values (0); create table done (id text)"

    @staticmethod
    def bug(shop):
        def ship(order):
            if shop.write("update checkpoint set number = ?1 where number < ?1", order.number):
                shop.send("shipped", order.id)
            shop.ack(order)

        shop.consume(ship)

    @staticmethod
    def twin(shop):
        publisher = shop.publisher(confirm=True)

        def ship(order):
            if not shop.rows("select id from done where id = ?", order.id):
                shop.send("shipped", order.id, channel=publisher)
                shop.write("insert into done values (?)", order.id)
            shop.ack(order)

        shop.consume(ship)

    @staticmethod
    def holds(after):
        assert set(after.bodies("shipped")) == {"1", "2"}
