"""Tables are complete: what stands in one has its code, its test and its line of documentation, and the reverse."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from leveret.core.compat import DEFAULT_VERSION, VERSIONS, Compat
from leveret.core.model.exchanges import EXCHANGE_TYPES
from leveret.core.model.queues.arguments import QUEUE_ARGUMENTS
from leveret.core.model.queues.queue_types import QUEUE_TYPES
from leveret.core.protocol.handlers import CONTROL_HANDLERS, HANDLERS
from leveret.core.wire.methods import METHODS
from leveret.pipeline.kernel.codes import OUTCOMES
from leveret.story.words import ENDS, KINDS
from leveret.trace import events
from tests.house.repository import SourceFile, without_house

# Methods a client may send that have no row in a table of handlers, and what becomes of them.
WITHOUT_HANDLER = {
    "basic.publish": "called with its content, once that is complete",
    "channel.close-ok": "ends a channel that is closing, see protocol.dispatch",
    "connection.secure-ok": "refused with 504: the broker asks for no second response",
    "channel.flow-ok": "refused with 503: the broker never asks for it",
}
# The plugin tells these, not the core.
TOLD_ELSEWHERE = (events.TEST_START, events.TEST_END)

# Differences that are written down and have no effect yet. This list only gets shorter.
NOT_YET_ASKED = ()

# Files beside the exchange types that are none: the default exchange has no name that a client could declare.
OF_NO_TYPE = ("__init__", "default", "exchange")

# Without effect, and checked by the code that checks its neighbour.
UNTESTED = ("x-max-in-memory-bytes",)


# A queue argument that RabbitMQ does not have, as a further row; and what it does by that row alone.
FURTHER_ROW = """
    _with_key("x-colour", not_negative, _CLASSIC, integer_from(3), "colour", operator="lower"),"""
USE_OF_FURTHER_ROW = """
from leveret.core.compat import Compat
from leveret.core.model.operators import policy
from leveret.core.model.errors import PreconditionFailed
from leveret.core.model.operators.policy import Policies, Policy, PolicyInvalid
from leveret.core.model.queues.arguments import refuse_invalid_values, refuse_unknown_to_type
from leveret.core.model.queues.queue_types import QUEUE_TYPES
from leveret.core.wire.values import Field, Table

compat = Compat.for_version("4.3")
colour = Table((("x-colour", Field("I", -1)),))
for name in ("classic", "stream"):
    known = QUEUE_TYPES[name].known_arguments(compat)
    try:
        refuse_invalid_values(colour, "queue 'q'", known, compat)
        refuse_unknown_to_type(colour, "queue 'q'", known, QUEUE_TYPES[name].erlang_name, compat)
    except PreconditionFailed as refusal:
        print(refusal)
policies = Policies()
try:
    policies.user.set(Policy("p", "", {"colour": 2}))
except PolicyInvalid as refusal:
    print(refusal)
policies.user.set(Policy("p", "", {"colour": 5}))
policies.operator.set(Policy("o", "", {"colour": 4}))
print(policies.effective_for_queue("q", "classic"), dict(policies.effective_for_queue("q", "quorum")))
"""

# Two further kinds: a copy comes back to its queue, and a copy is lost; and what is known of them by their rows alone.
FURTHER_KINDS = """
    "parked": Kind("copy", (*_COPY, "reason"), ("parked",), stand="ready"),
    "lapsed": Kind("copy", _COPY, stand="gone", is_loss=True),"""
USE_OF_FURTHER_KINDS = """
import importlib.util, sys
import leveret.trace

spec = importlib.util.spec_from_file_location("leveret.trace.events", sys.argv[1])
events = leveret.trace.events = sys.modules["leveret.trace.events"] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(events)

from leveret.observe.assertions.searching import HAPPENINGS
from leveret.page.queues import queues_of
from leveret.page.readings.reading import Reading
from leveret.story.timeline import Timeline
from leveret.trace.recorded_rows import raw_events

timeline = Timeline()
for at, kind in enumerate(("enqueued", "delivered", "parked", "delivered", "parked", "lapsed")):
    row = {"kind": kind, "ts": at, "msg": 1, "copy": 1, "queue": "q"}
    timeline.take(raw_events([row]))
    queue = timeline.queues["/", "q"]
    if at in (2, 5):
        print(f"{timeline.copies[1].stand} {len(queue.ready)} ready {len(queue.unacked)} unacked")
print("parked" in HAPPENINGS)
print([point[2:4] for point in queues_of(Reading(timeline, lambda fact: (fact.at, None)))["/", "q"].series(
    {queue: list(timeline.copies.values())}, lambda place: (place, None), has_acks=True)])
print(events.reason_of("lapsed", None))
"""


def test_the_page_of_the_command_line_shows_the_commands_as_they_are(root: Path) -> None:
    generator = [sys.executable, str(root / "tools/command_line_page.py"), "--check"]
    environ = {**os.environ, "PYTHONPATH": str(root / "src")}

    ran = subprocess.run(generator, env=environ, capture_output=True, text=True, timeout=60)

    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_every_method_of_a_client_has_a_handler() -> None:
    handled = {method.NAME for method in (*HANDLERS, *CONTROL_HANDLERS)}
    names = {method.NAME for method in METHODS.values() if "C" in method.SENDERS}

    missing = sorted(names - handled - set(WITHOUT_HANDLER))

    assert missing == [], "src/leveret/core/protocol/handlers/__init__.py has no line for these"
    assert handled & set(WITHOUT_HANDLER) == set()


def test_every_difference_between_versions_is_asked_for(source_files: list[SourceFile]) -> None:
    files = [file for file in source_files if file.path != "src/leveret/core/compat.py"]

    missing = [name for name in Compat._fields if not is_read_in(name, files)]

    assert missing == list(NOT_YET_ASKED), "nothing reads these fields of Compat in src/leveret/core/compat.py"


def test_the_default_version_is_named_once(source_files: list[SourceFile], root: Path) -> None:
    # The plugin says it in its help, and does not import leveret for that.
    options = (root / "pytest_plugin/pytest_leveret/options/table.py").read_text(encoding="utf-8")
    naming = [file for file in source_files if f'"{DEFAULT_VERSION}"' in file.text]
    named = [file.path for file in naming if DEFAULT_VERSION in constants_of(file)]

    assert next(iter(VERSIONS)) == DEFAULT_VERSION
    assert f"(default: {DEFAULT_VERSION})" in options
    # The versions that were recorded are another fact.
    assert named == ["src/leveret/core/compat.py"]


def test_every_kind_of_event_is_told_by_the_core(core_files: list[SourceFile], source_files: list[SourceFile]) -> None:
    constants = {value: name for name, value in vars(events).items() if name.isupper() and isinstance(value, str)}
    files = [file for file in source_files if file.path != "src/leveret/trace/events.py"]

    missing = [kind for kind in events.KINDS if kind not in TOLD_ELSEWHERE and not is_read_in(constants[kind], files)]

    assert missing == [], "nothing in src/leveret/core records these"


def test_every_kind_of_event_and_every_end_of_a_copy_has_words() -> None:
    missing = [kind for kind in events.KINDS if kind not in KINDS] + [kind for kind in events.ENDS if kind not in ENDS]

    assert missing == [], "src/leveret/story/words.py has no words for these"
    assert sorted(set(events.ENDS) - set(OUTCOMES)) == [], "src/leveret/pipeline/kernel/codes.py does not rank these"


def test_every_kind_about_messages_has_a_mark_in_the_viewer(root: Path) -> None:
    marks = (root / "src/leveret/page/assets/marks.js").read_text(encoding="utf-8")

    missing = [kind for kind in events.ABOUT_MESSAGES if f"\n  {kind}: {{ icon: " not in marks]

    assert missing == [], "src/leveret/page/assets/marks.js has no mark for these"


def test_a_kind_that_moves_copies_is_known_by_its_row_alone(root: Path, tmp_path: Path) -> None:
    table = (root / "src/leveret/trace/events.py").read_text(encoding="utf-8")
    (tmp_path / "events.py").write_text(table.replace("\n    REQUEUED: Kind(", f"{FURTHER_KINDS}\n    REQUEUED: Kind("))

    ran = subprocess.run(
        [sys.executable, "-c", USE_OF_FURTHER_KINDS, str(tmp_path / "events.py")],
        env={**os.environ, "PYTHONPATH": str(root / "src")},
        capture_output=True,
        text=True,
        timeout=60,
    )

    assert ran.stderr == ""
    assert ran.stdout.splitlines() == [
        "undecided 1 ready 0 unacked",
        "lapsed 0 ready 0 unacked",
        "True",
        "[[1, 0], [0, 1], [1, 0], [0, 1], [1, 0], [0, 0]]",
        "lapsed",
    ]


def test_every_kind_of_event_has_a_test(python_files: list[SourceFile]) -> None:
    text = "".join(file.text for file in python_files if file.path.startswith("tests/trace/"))

    missing = [kind for kind in events.KINDS if f'"{kind}"' not in text]

    assert missing == [], "no file of tests/trace looks for these"


def test_a_queue_argument_and_its_policy_key_are_one_row(root: Path, tmp_path: Path) -> None:
    shutil.copytree(root / "src", tmp_path / "src")
    table = tmp_path / "src/leveret/core/model/queues/arguments.py"
    text = table.read_text(encoding="utf-8")
    table.write_text(text.replace("_ROWS: Final = (", "_ROWS: Final = (" + FURTHER_ROW, 1), encoding="utf-8")

    program = [sys.executable, "-c", USE_OF_FURTHER_ROW]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "src")}
    ran = subprocess.run(program, env=environment, capture_output=True, text=True, timeout=60, check=True)

    assert ran.stdout.splitlines() == [
        "invalid arg 'x-colour' for queue 'q': {value_negative,-1}",
        "invalid arg 'x-colour' for queue 'q' of queue type rabbit_stream_queue",
        "2 is not a valid colour",
        "{'colour': 4} {}",
    ]


def test_the_documentation_lists_every_kind_of_event_by_its_category(root: Path) -> None:
    page = (root / "docs/reference/trace-format.md").read_text(encoding="utf-8")
    by_category: dict[str, list[str]] = {}
    for name, kind in events.TABLE.items():
        by_category.setdefault(kind.category, []).append(f"`{name}`")

    missing = [
        row for row in (f"| {key} | {', '.join(names)} |" for key, names in by_category.items()) if row not in page
    ]

    assert missing == [], "docs/reference/trace-format.md and TABLE in src/leveret/trace/events.py list different kinds"


def test_every_exchange_type_has_its_file_and_every_file_its_type(root: Path) -> None:
    folder = root / "src/leveret/core/model/exchanges"
    modules = [home.partition(".")[0] for home in EXCHANGE_TYPES.values()]
    files = [path.stem for path in sorted(folder.glob("*.py")) if path.stem not in OF_NO_TYPE]

    offences = [f"EXCHANGE_TYPES names a file that is missing: {home(name)}" for name in modules if name not in files]
    offences += [
        f"EXCHANGE_TYPES in {home('__init__')} has no row for {home(name)}" for name in files if name not in modules
    ]

    assert offences == []


def home(module: str) -> str:
    """Return the path of a module of exchanges."""
    return f"src/leveret/core/model/exchanges/{module}.py"


def test_every_exchange_type_and_queue_argument_is_documented(root: Path) -> None:
    documented = words_in((root / "docs/reference/arguments.md").read_text(encoding="utf-8"))

    missing = [word for word in (*EXCHANGE_TYPES, *QUEUE_ARGUMENTS) if word not in documented]

    assert missing == [], "docs/reference/arguments.md has no line for these"


def test_the_documentation_says_which_queue_types_know_an_argument(root: Path) -> None:
    row = re.compile(r"^\| `(x-[\w-]+)` \| (yes|-) \| (yes|-) \| (yes|-) \|", re.MULTILINE)
    written = row.findall((root / "docs/reference/arguments.md").read_text(encoding="utf-8"))

    wrong = [
        (argument, queue_type)
        for argument, *columns in written
        for queue_type, column in zip(("classic", "quorum", "stream"), columns, strict=True)
        if (column == "yes") != (argument in QUEUE_TYPES[queue_type].arguments)
    ]

    assert written
    assert wrong == []


def test_every_exchange_type_and_queue_argument_has_a_test(text_files: list[SourceFile]) -> None:
    tests = [file.text for file in without_house(text_files) if file.path.startswith("tests/")]

    missing = [word for word in (*EXCHANGE_TYPES, *QUEUE_ARGUMENTS) if not any(map(word_in(word), tests))]

    assert missing == list(UNTESTED), "no test below tests/model or tests/semantics says these"


def constants_of(file: SourceFile) -> set[object]:
    """Return the constants of a file."""
    return {node.value for node in file.nodes(ast.Constant)}


def is_read_in(name: str, files: list[SourceFile]) -> bool:
    """Tell whether any of these files has an attribute of this name."""
    # To parse a file takes long.
    return any(name in file.attributes for file in files if f".{name}" in file.text)


def word_in(word: str) -> Callable[[str], bool]:
    """Return what tells whether a text has this word; to find all words of a text takes a hundred times as long."""
    whole = re.compile(rf"(?<![\w-]){re.escape(word)}(?![\w-])")
    return lambda text: word in text and whole.search(text) is not None


def words_in(text: str) -> set[str]:
    """Return the words of a text; a hyphen joins two parts of one."""
    return set(re.findall(r"[\w-]+", text))
