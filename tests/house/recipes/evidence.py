"""What proves that leveret behaves as RabbitMQ does, and what is told of a run: features, scenarios, tables, rules."""

from __future__ import annotations

from tests.house.copies import Tree
from tests.house.recipes import recipe
from tests.house.recipes.protocol import FAST, add_feature

FEATURE_TEST = '''\
"""Bodies that are empty."""

from __future__ import annotations

from leveret import Broker


def test_an_empty_body_is_kept() -> None:
    with Broker() as broker:
        broker.declare_queue("q")
        broker.publish("", "q", b"")

        assert broker.queue("q").ready[0].body == b""
'''


@recipe(
    "a feature",
    only=FAST,
    also_named={"tools/features.toml": "test_the_page_is_that_of_the_table_and_the_transcripts"},
)
def add_row_of_features(tree: Tree) -> None:
    tree.create("tests/protocol/test_empty_bodies.py", FEATURE_TEST)
    add_feature(tree, "Wire", "empty bodies that a test publishes", "tests/protocol/test_empty_bodies.py")


SCENARIO = """

@scenario(versions=("4.3",))
def a_message_id_may_be_long(s: Run) -> None:
    comes_back(s, message_id="m" * 200)
"""
# In place of a real server, which a test does not have, leveret gives the transcript.
RECORD = """
from tests.semantics import scenarios, target
from tests.semantics.scenario import SCENARIOS, run, transcripts
scenarios.load_all()
it = SCENARIOS["values/a_message_id_may_be_long"]
with target.leveret("4.3", has_settings=False) as endpoint:
    answer = run(it, endpoint)
transcripts.save("4.3", it.area, {it.name: answer}, SCENARIOS.of_area(it.area))
"""


@recipe("a behaviour of RabbitMQ", apart=("tools/features.toml",))
def add_scenario(tree: Tree) -> None:
    name = "values/a_message_id_may_be_long"
    tree.append("tests/semantics/scenarios/values.py", SCENARIO)
    tree.generate("-c", RECORD, writes=["tests/semantics/transcripts/4.3/values.json"])
    tree.replace(
        "tools/features.toml",
        '"values/any_priority_comes_back"',
        f'"values/any_priority_comes_back", "{name}"',
    )
    tree.generate("-m", "tests.features", writes=["docs/reference/features.md"])


TABLE = '''\

def busy_queues(rows: TestQueues) -> pa.Table:
    """Return the table `busy_queues`: how many copies each queue of a run had."""
    events = rows.copies.events
    place = rows.copies.place_event
    groups = numbered(events.day.codes[place], events.queue.codes[place])
    first = place[groups.first]
    columns = {**events.run_of(first), **events.names_of(first, "queue"), "copies": groups.sums(rows.columns["copies"])}
    return table(schema.BUSY_QUEUES, columns)
'''
TABLE_ROW = '        "busy_queues": queues.busy_queues(all_queues),\n'
TABLE_PLAIN = """

def _busy_queues(queues: list[Row]) -> list[Row]:
    groups = _grouped(queues, "day", "run", "queue")
    keys = ("day", "run", "queue")
    return [{**dict(zip(keys, key)), "copies": sum(row["copies"] for row in rows)} for key, rows in groups.items()]
"""
TABLE_PAGE = """
## busy_queues

Key: day, run, queue. What each queue had.

| column | meaning |
| --- | --- |
| copies | how many copies it had |

"""
TABLE_TEST = '''\
"""The table busy_queues."""

from __future__ import annotations

from leveret.pipeline.kernel.schema import TABLES
from tests.pipeline.plain import _busy_queues


def test_copies_of_all_tests_are_added() -> None:
    rows = [{"day": 1, "run": "r", "queue": "q", "copies": copies} for copies in (2, 3)]

    assert _busy_queues(rows) == [{"day": 1, "run": "r", "queue": "q", "copies": 5}]
    assert TABLES["busy_queues"].names == ["day", "run", "queue", "copies"]
'''


@recipe("a table of the pipeline", apart=("src/leveret/pipeline/kernel/schema.py",))
def add_table(tree: Tree) -> None:
    tree.insert("src/leveret/pipeline/kernel/tables.py", before='        "queue_stats": ', text=TABLE_ROW)
    tree.append("src/leveret/pipeline/kernel/subjects/queues.py", TABLE)
    columns = 'BUSY_QUEUES: Final = pa.schema({**_RUN, "queue": TEXT, **_longs("copies")})\n\n'
    tree.insert("src/leveret/pipeline/kernel/schema.py", before="RUN_COVERAGE: Final = ", text=columns)
    row = '    "busy_queues": BUSY_QUEUES,\n'
    tree.insert("src/leveret/pipeline/kernel/schema.py", before='    "queue_stats": QUEUE_STATS,', text=row)
    tree.append("docs/reference/pipeline-tables.md", TABLE_PAGE)
    tree.insert(
        "tests/pipeline/plain.py",
        before='    found["lineage"] =',
        text='    found["busy_queues"] = _busy_queues(found["test_queues"])\n',
    )
    tree.insert("tests/pipeline/plain.py", before="\n\ndef _lineage(", text=TABLE_PLAIN)
    tree.show("tests/pipeline/test_busy_queues.py", TABLE_TEST)


RULE = '''\
def acked_thrice(run: Run) -> Broken:
    """Find copies with more than two acks."""
    acks = run.copies.count("acked")
    rows = np.flatnonzero(acks > 2)
    return Broken(rows, {"acks": acks[rows]})


'''
RULE_PLANT = """\
    def _plant_acked_thrice(self) -> bool:
        if not self._plant_acked_twice():
            return False
        test, queue, msg, copy, _ = next(each for each in self.planted if each[-1] == "acked_twice")
        self.planted.add((test, queue, msg, copy, "acked_thrice"))
        return True

"""
RULE_TEST = '''\
"""The rule acked_thrice, by the plain computation."""

from __future__ import annotations

from datetime import date

from tests.pipeline import plain


def test_three_acks_of_a_copy_break_the_rule() -> None:
    copy = {"test": "t", "vhost": "/", "queue": "q", "msg": 1, "copy": 1}
    kinds = ("enqueued", "delivered", "acked", "acked", "acked")
    events = [{"seq": seq, "ts": seq, "kind": kind, **copy} for seq, kind in enumerate(kinds)]

    rows = plain.tables([plain.Trace("r", "main", date(2026, 1, 1), events)])["violations"]

    assert "acked_thrice" in {row["rule"] for row in rows}
'''


@recipe("a rule of the pipeline")
def add_rule(tree: Tree) -> None:
    row = '    TraceRule("acked_thrice", acked_thrice, "acknowledged {acks} times"),\n'
    tree.insert("src/leveret/pipeline/kernel/rules.py", before='    TraceRule("delivered_after_ack"', text=row)
    tree.insert("src/leveret/pipeline/kernel/rules.py", before="def delivered_after_ack(", text=RULE)
    words = '    "acked_thrice": ("A message was acknowledged three times.", "Find out who settles it again."),\n'
    tree.insert("src/leveret/pipeline/report/words.py", before='    "delivered_after_ack": (', text=words)
    line = "| acked_thrice | a copy with more than two acks |\n"
    tree.append("docs/reference/pipeline-tables.md", line)
    tree.insert(
        "tests/pipeline/plain.py",
        before="        if acks and any(seq < acks[0] for seq in seqs) and any(",
        text='        if len(acks) > 2:\n            yield "acked_thrice", f"acknowledged {len(acks)} times"\n',
    )
    tree.insert("tests/pipeline/random_traces.py", before='    "confirm_missing",\n)', text='    "acked_thrice",\n')
    tree.insert("tests/pipeline/random_traces.py", before="    def _plant_delivered_after_ack", text=RULE_PLANT)
    tree.show("tests/pipeline/test_acked_thrice.py", RULE_TEST)
