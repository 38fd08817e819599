"""Bugs that only the death of a process finds. The services run as workers, with pika."""

from __future__ import annotations

from tests.explore.crashes.planted import KILLED, Planted


class AckBeforeCommit(Planted):
    """The order is acknowledged before its payment is committed."""

    found_by = KILLED
    tables = "create table paid (id text primary key)"

    @staticmethod
    def bug(shop):
        def pay(order):
            shop.ack(order)
            shop.publisher().connection.close()
            shop.write("insert or ignore into paid values (?)", order.id)

        shop.consume(pay)

    @staticmethod
    def twin(shop):
        def pay(order):
            shop.publisher().connection.close()
            shop.write("insert or ignore into paid values (?)", order.id)
            shop.ack(order)

        shop.consume(pay)

    @staticmethod
    def holds(after):
        assert after.rows("select id from paid") == ["1"]


class DedupInMemory(Planted):
    """The ids of finished orders are kept in memory, which dies with the process."""

    found_by = KILLED
    tables = "create table paid (id text)"

    @staticmethod
    def bug(shop):
        def pay(order):
            if order.id not in shop.memory:
                shop.write("insert into paid values (?)", order.id)
                shop.memory[order.id] = True
            shop.ack(order)

        shop.consume(pay)

    @staticmethod
    def twin(shop):
        def pay(order):
            if not shop.rows("select id from paid where id = ?", order.id):
                shop.write("insert into paid values (?)", order.id)
            shop.ack(order)

        shop.consume(pay)

    @staticmethod
    def holds(after):
        assert after.rows("select id from paid") == ["1"]


class DedupAfterAck(Planted):
    """The id of an order is noted once its ack is sent, in a transaction of its own."""

    found_by = KILLED
    tables = "create table paid (id text); create table done (id text primary key)"

    @staticmethod
    def bug(shop):
        def pay(order):
            if not shop.rows("select id from done where id = ?", order.id):
                shop.write("insert into paid values (?)", order.id)
            shop.ack(order)
            shop.publisher().connection.close()
            shop.write("insert or ignore into done values (?)", order.id)

        shop.consume(pay)

    @staticmethod
    def twin(shop):
        def pay(order):
            with shop.db:
                if shop.db.execute("insert or ignore into done values (?)", (order.id,)).rowcount:
                    shop.db.execute("insert into paid values (?)", (order.id,))
            shop.ack(order)

        shop.consume(pay)

    # The ack is lost with the process, which then has to die before it notes the order.
    on = ("*client->server basic.ack #*", "basic.publish")

    @staticmethod
    def holds(after):
        assert after.rows("select id from paid") == ["1"]


class SequenceInMemory(Planted):
    """Invoices are numbered by a counter in memory, which begins again with each process."""

    found_by = KILLED
    orders = ("1", "2")
    tables = "create table invoices (id text primary key, number int)"

    @staticmethod
    def bug(shop):
        def bill(order):
            shop.memory["number"] = shop.memory.get("number", 0) + 1
            shop.write("insert or ignore into invoices values (?, ?)", order.id, shop.memory["number"])
            shop.ack(order)

        shop.channel.basic_qos(prefetch_count=1)
        shop.consume(bill)

    @staticmethod
    def twin(shop):
        def bill(order):
            shop.write("insert or ignore into invoices select ?, coalesce(max(number), 0) + 1 from invoices", order.id)
            shop.ack(order)

        shop.consume(bill)

    @staticmethod
    def holds(after):
        assert sorted(after.rows("select number from invoices")) == [1, 2]


class RetriesInMemory(Planted):
    """A bank that declines is asked three times at most, by a count that dies with the process."""

    found_by = KILLED
    queues = ("orders", "failed")
    tables = "create table asked (id text)"
    on = ("basic.nack",)

    @staticmethod
    def bug(shop):
        def charge(order):
            shop.memory[order.id] = shop.memory.get(order.id, 0) + 1
            shop.write("insert into asked values (?)", order.id)
            if shop.memory[order.id] < 3:
                shop.channel.basic_nack(order.tag, requeue=True)
            else:
                shop.send("failed", order.id)
                shop.ack(order)

        shop.consume(charge)

    @staticmethod
    def twin(shop):
        def charge(order):
            if len(shop.rows("select id from asked where id = ?", order.id)) < 3:
                shop.write("insert into asked values (?)", order.id)
                shop.channel.basic_nack(order.tag, requeue=True)
            else:
                shop.send("failed", order.id)
                shop.ack(order)

        shop.consume(charge)

    @staticmethod
    def holds(after):
        assert len(after.rows("select id from asked")) <= 3


class ReplyBeforeCommit(Planted):
    """The caller has its reply before the payment is committed."""

    found_by = KILLED
    tables = "create table paid (id text primary key)"

    @staticmethod
    def bug(shop):
        def pay(request):
            shop.ack(request)
            shop.send("shipped", "paid", id=request.id)
            shop.publisher().connection.close()
            shop.write("insert or ignore into paid values (?)", request.id)

        shop.consume(pay)

    @staticmethod
    def twin(shop):
        def pay(request):
            shop.write("insert or ignore into paid values (?)", request.id)
            shop.send("shipped", "paid", id=request.id)
            shop.ack(request)

        shop.consume(pay)

    @staticmethod
    def holds(after):
        assert set(after.ids("shipped")) <= set(after.rows("select id from paid"))


class BufferedBatch(Planted):
    """Orders are acknowledged as they come and written two at a time."""

    found_by = KILLED
    orders = ("1", "2")
    tables = "create table paid (id text primary key)"

    @staticmethod
    def bug(shop):
        def pay(order):
            buffer = shop.memory.setdefault("buffer", [])
            buffer.append(order.id)
            shop.ack(order)
            if len(buffer) == 2:
                with shop.db:
                    shop.db.executemany("insert or ignore into paid values (?)", [(id,) for id in buffer])

        shop.channel.basic_qos(prefetch_count=1)
        shop.consume(pay)

    @staticmethod
    def twin(shop):
        buffer = []

        def pay(order):
            buffer.append(order.id)
            if len({*buffer, *shop.rows("select id from paid")}) == 2:
                with shop.db:
                    shop.db.executemany("insert or ignore into paid values (?)", [(id,) for id in buffer])
                shop.ack(order, multiple=True)

        shop.consume(pay)

    @staticmethod
    def holds(after):
        assert after.rows("select id from paid order by id") == ["1", "2"]


class FlushAtExit(Planted):
    """What is acknowledged is written when the process ends, if it ends by itself."""

    found_by = KILLED
    tables = "create table paid (id text primary key)"

    @staticmethod
    def bug(shop):
        buffer = shop.memory.setdefault("buffer", [])

        def pay(order):
            buffer.append(order.id)
            shop.ack(order)

        def flush():
            for id in buffer:
                shop.write("insert or ignore into paid values (?)", id)

        shop.at_exit = flush
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


class HalvesInMemory(Planted):
    """An order of two parts waits in memory for its second part, the first being acknowledged."""

    found_by = KILLED
    orders = ("1", "2")
    tables = "create table parts (id text primary key)"

    @staticmethod
    def bug(shop):
        def join(part):
            shop.memory[part.id] = True
            if len(shop.memory) == 2:
                shop.send("shipped", "whole", id="whole")
            shop.ack(part)

        shop.channel.basic_qos(prefetch_count=1)
        shop.consume(join)

    @staticmethod
    def twin(shop):
        def join(part):
            shop.write("insert or ignore into parts values (?)", part.id)
            if len(shop.rows("select id from parts")) == 2:
                shop.send("shipped", "whole", id="whole")
            shop.ack(part)

        shop.consume(join)

    @staticmethod
    def holds(after):
        assert set(after.ids("shipped")) == {"whole"}


class LockStays(Planted):
    """A lock is freed in a finally clause, and stays when the process dies."""

    found_by = KILLED
    tables = "create table locks (id text primary key)"

    @staticmethod
    def bug(shop):
        publisher = shop.publisher(confirm=True)

        def ship(order):
            if shop.write("insert or ignore into locks values (?)", order.id):
                try:
                    shop.send("shipped", order.id, channel=publisher)
                finally:
                    shop.write("delete from locks where id = ?", order.id)
            shop.ack(order)

        shop.consume(ship)

    @staticmethod
    def twin(shop):
        def ship(order):
            shop.db.execute("begin immediate")
            try:
                shop.send("shipped", order.id)
            finally:
                shop.db.rollback()
            shop.ack(order)

        shop.consume(ship)

    @staticmethod
    def holds(after):
        assert set(after.bodies("shipped")) == {"1"}


class ClaimCheckWrittenLast(Planted):
    """A message refers to a file that is written after it is published."""

    found_by = KILLED

    @staticmethod
    def bug(shop):
        def store(order):
            shop.send("shipped", f"{order.id}.pdf")
            shop.ack(order)
            shop.publisher().connection.close()
            (shop.folder / f"{order.id}.pdf").write_text("invoice")

        shop.consume(store)

    @staticmethod
    def twin(shop):
        def store(order):
            (shop.folder / f"{order.id}.pdf").write_text("invoice")
            shop.send("shipped", f"{order.id}.pdf")
            shop.ack(order)

        shop.consume(store)

    @staticmethod
    def holds(after):
        assert all((after.folder / name).exists() for name in after.bodies("shipped"))


class OutboxClaimStays(Planted):
    """A relay claims the rows of the outbox before it publishes them, and a dead one never gives them back."""

    found_by = KILLED
    orders = ("tick",)
    tables = "create table outbox (id text, claimed int); insert into outbox values ('a', 0)"

    @staticmethod
    def bug(shop):
        def relay(tick):
            rows = shop.rows("select id from outbox where claimed = 0")
            shop.write("update outbox set claimed = 1")
            try:
                for row in rows:
                    shop.send("shipped", row)
            except Exception:
                shop.write("update outbox set claimed = 0")
                raise
            shop.ack(tick)

        shop.consume(relay)

    @staticmethod
    def twin(shop):
        shop.write("update outbox set claimed = 0 where claimed = 1")
        publisher = shop.publisher(confirm=True)

        def relay(tick):
            rows = shop.rows("select id from outbox where claimed = 0")
            shop.write("update outbox set claimed = 1")
            for row in rows:
                shop.send("shipped", row, channel=publisher)
            shop.write("update outbox set claimed = 2")
            shop.ack(tick)

        shop.consume(relay)

    @staticmethod
    def holds(after):
        assert set(after.bodies("shipped")) == {"a"}


class FileWrittenInPlace(Planted):
    """A report is written in place, around a publish, and a file that exists is believed whole."""

    found_by = KILLED

    @staticmethod
    def bug(shop):
        publisher = shop.publisher(confirm=True)

        def write(order):
            path = shop.folder / "report.txt"
            if not path.exists():
                with path.open("w") as report:
                    report.write("head\n")
                    report.flush()
                    shop.send("shipped", "begun", channel=publisher)
                    report.write("foot\n")
            shop.ack(order)

        shop.consume(write)

    @staticmethod
    def twin(shop):
        def write(order):
            path = shop.folder / "report.txt"
            if not path.exists():
                unfinished = path.with_suffix(".tmp")
                with unfinished.open("w") as report:
                    report.write("head\n")
                    shop.send("shipped", "begun")
                    report.write("foot\n")
                unfinished.replace(path)
            shop.ack(order)

        shop.consume(write)

    @staticmethod
    def holds(after):
        assert (after.folder / "report.txt").read_text() == "head\nfoot\n"
