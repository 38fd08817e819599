"""The Python of the playground: each step of the reader is lines of a program, which are run as they are shown.

`act` takes a call of the page as JSON and returns what the page shows, as JSON. The program is what the reader could
run elsewhere: leveret with pika beside it.
"""

from __future__ import annotations

import contextlib
import inspect
import io
import json
import pprint
import textwrap
import traceback
from collections import defaultdict
from typing import Any, NoReturn

from leveret import Broker
from leveret.broker import BUILT_IN
from leveret.page.formats.html import page_of
from leveret.page.readings.live import test_of
from leveret.page.story import story_of
from leveret.trace.events import DELIVERIES
from leveret.trace.recorded_rows import content_of

FILE = "program.py"
CHANNEL = "channel = connection.channel()\nchannel.confirm_delivery()\n"
STEPS = ("begin", "run", "use", "publish", "get", "settle", "advance", "disconnect")
# The most characters of what a program prints, the most of a body, and the most messages that the page shows.
OUTPUT_MAX = 20_000
BODY_MAX = 1_000
MESSAGES_MAX = 200
# The plugin of RabbitMQ that each exchange type needs.
PLUGIN_OF = {kind: plugin for plugin, kind in BUILT_IN.items()}


class Printed(io.StringIO):
    """What a program prints, up to a limit."""

    left_out = 0

    def write(self, text: str) -> int:
        """Keep what there is room for, and count the rest."""
        kept = text[: max(OUTPUT_MAX - self.tell(), 0)]
        self.left_out += len(text) - len(kept)
        super().write(kept)
        return len(text)

    def text(self) -> str:
        """Return what was printed, and how much was left out."""
        return self.getvalue() + (f"\n... and {self.left_out:,} more characters" if self.left_out else "")


class Session:
    """A program as far as it has been run, with its broker and its client."""

    def __init__(self) -> None:
        self.names: dict[str, Any] = {"__name__": "__main__", "input": refuse_input}
        self.program = ""
        # What the client holds: the names of deliveries in the program, with the numbers of their messages.
        self.held: dict[str, int] = {}
        self.got_count = 0
        self.vhost = "/"
        self.error = ""
        self.output = ""
        # Whether the last step asked a queue that has no message.
        self.is_empty = False
        # What happened to each message before the last step.
        self.ways: dict[int, list[str]] = {}

    @property
    def broker(self) -> Broker | None:
        """The broker of the program, the last one it has made."""
        return next((it for it in reversed([*self.names.values()]) if isinstance(it, Broker)), None)

    def end(self) -> None:
        """Stop all brokers."""
        for it in self.names.values():
            if isinstance(it, Broker):
                it.stop()

    def _execute(self, code: str) -> bool:
        """Run lines of a program, then its tests. Return whether no error came."""
        printed = Printed()
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
            try:
                exec(compile(code, FILE, "exec"), self.names)
                for name in [name for name in self.names if name.startswith("test_")]:
                    self._run_test(name)
            except BaseException as error:
                self.error = error_text(error)
                return False
            finally:
                self.output += printed.text()
        return True

    def _run_test(self, name: str) -> None:
        """Call a test, whose only fixture is `leveret`, as pytest would."""
        function = self.names.pop(name)
        if not inspect.isfunction(function):
            return
        broker = self.names["leveret"] = Broker().start()
        function(*[broker for _ in inspect.signature(function).parameters])
        print(f"{name} passed")

    def add(self, code: str) -> bool:
        """Run lines, and add them to the program. Return whether no error came.

        If one came, the program goes on behind it as well.
        """
        is_done = self._execute("\n" * (self.program.count("\n") + 1) + code)
        if not is_done:
            tried = textwrap.indent(code, "    ")
            code = f"try:\n{tried}except Exception as error:\n    print('refused:', error)\n"
        self.program += code
        self._renew()
        return is_done

    def _renew(self) -> None:
        """Give a client that has lost its channel or connection another one."""
        connection, channel = self.names.get("connection"), self.names.get("channel")
        is_connected = getattr(connection, "is_open", True)
        if is_connected and getattr(channel, "is_open", True):
            return
        self.held.clear()
        code = CHANNEL if is_connected else self._connect()
        self.program += code
        self._execute(code)

    def _connect(self) -> str:
        where = "broker.url" if self.vhost == "/" else f"broker.url_for({self.vhost!r})"
        return f"connection = pika.BlockingConnection(pika.URLParameters({where}))\n{CHANNEL}"

    @property
    def is_ready(self) -> bool:
        """Whether the program has a broker and a channel, so that steps can follow."""
        broker, channel = self.names.get("broker"), self.names.get("channel")
        return (
            isinstance(broker, Broker)
            and broker._engine.loop.is_running
            and {"connection", "pika"} <= self.names.keys()
            and getattr(channel, "is_open", False)
        )

    def begin(self, definitions: str) -> None:
        """Start a broker that has these definitions."""
        meant = object_of("definitions.json", definitions)
        vhosts = [name for name in names_in(meant, "vhosts", "name") if name != "/"]
        self.vhost = next(iter([*names_in(meant, "queues", "vhost"), *vhosts]), "/")
        # The user guest may do everything there.
        more = f", vhosts={vhosts!r}" if vhosts else ""
        shown = pprint.pformat(meant, width=100, sort_dicts=False)
        self.run(
            f"import pika\nfrom leveret import Broker\n\nDEFINITIONS = {shown}\n\n"
            f"broker = Broker(definitions=DEFINITIONS{more}).start()\n{self._connect()}"
        )

    def run(self, code: str) -> None:
        """Run a program."""
        self.program = code if code.endswith("\n") else f"{code}\n"
        self._execute(code)
        opened = self.names.get("connection")
        with contextlib.suppress(AttributeError):
            self.vhost = opened._impl.params.virtual_host
        if self.error == "":
            self._renew()

    def use(self, vhost: str) -> None:
        """Go to another virtual host."""
        self.held.clear()
        self.vhost = vhost
        self.add(f"connection.close()\n{self._connect()}")

    def publish(self, exchange: str, key: str, body: str, expiration: str, headers: str) -> None:
        """Publish a message."""
        properties = "delivery_mode=2"
        if expiration:
            properties += f", expiration={expiration!r}"
        if headers.strip():
            properties += f", headers={object_of('headers', headers)!r}"
        self.add(
            f"channel.basic_publish({exchange!r}, {key!r}, {body.encode()!r}, pika.BasicProperties({properties}))\n"
        )

    def get(self, queue: str) -> None:
        """Take a message from a queue."""
        name = f"m{self.got_count + 1}"
        if self.add(f"{name}, properties, body = channel.basic_get({queue!r})\n"):
            self.got_count += 1
            self.is_empty = self.names[name] is None
            if not self.is_empty:
                self.held[name] = 0

    def settle(self, name: str, how: str) -> None:
        """Acknowledge or reject a message that was taken."""
        calls = {"ack": "basic_ack({})", "reject": "basic_reject({}, requeue=False)", "requeue": "basic_reject({})"}
        if self.held.pop(name, None) is None:
            self.error = f"{name} is not held any more"
        else:
            self.add(f"channel.{calls[how].format(f'{name}.delivery_tag')}\n")

    def advance(self, seconds: int) -> None:
        """Move the broker's time on."""
        self.add(f"broker.clock.advance({seconds})\n")

    def disconnect(self) -> None:
        """Break the connection."""
        self.held.clear()
        self.add(f"broker.admin.close_all_connections('broken')\n{self._connect()}")

    def report(self) -> dict[str, Any]:
        """Return what the page shows."""
        shown = {"error": self.error, "output": self.output, "program": self.program, "is_ready": self.is_ready}
        shown |= {"is_empty": self.is_empty, "vhost": self.vhost}
        self.error, self.output, self.is_empty = "", "", False
        broker = self.broker
        if broker is None or not broker._engine.loop.is_running:
            return shown
        broker.sync()
        engine = broker._engine
        reading = engine.reading(None)
        story = story_of([reading], test_of(engine.recorder.raw()), source="memory")
        ways: dict[int, list[str]] = defaultdict(list)
        for event in story["events"]:
            ways[event.get("message")].append(event["text"])
        facts = reading.timeline.facts
        touched = [it for it in story["messages"] if ways[it["number"]] != self.ways.get(it["number"])]
        self.ways = ways
        for name in [name for name, number in self.held.items() if not number]:
            tag = self.names[name].delivery_tag
            self.held[name] = next(it.get("msg") for it in reversed(facts) if it.kind in DELIVERIES and it.tag == tag)
        exchanges = broker.exchanges
        return {
            **shown,
            "vhosts": list(dict.fromkeys(it.vhost for it in exchanges)),
            "plugins": [[it.name, it.type, PLUGIN_OF[it.type]] for it in exchanges if it.type in PLUGIN_OF],
            "exchanges": [it.name for it in exchanges if it.vhost == self.vhost and it.name != "amq.rabbitmq.trace"],
            "queues": [
                {
                    "name": it.name,
                    "type": it.type,
                    "ready": it.ready_count,
                    "unacked": it.unacked_count,
                    "settings": {
                        key: value for key, value in {**it.arguments, **it.policy_keys}.items() if key != "x-queue-type"
                    },
                }
                for it in broker.queues
                if it.vhost == self.vhost
            ],
            "touched": [[it["number"], it["outcome"]] for it in touched],
            "messages": [
                {
                    "number": it["number"],
                    "label": it["label"] if "framework" in it else "",
                    "body": body_text(content_of(reading.timeline.messages[it["number"]].message)[0] or b""),
                    "outcome": it["outcome"],
                    "way": ways[it["number"]],
                }
                for it in story["messages"][-MESSAGES_MAX:]
            ],
            "message_count": len(story["messages"]),
            "noticed": [cause["sentence"] for cause in [*story["causes"], *story["noticed"]]],
            "held": [
                {"name": name, "number": number, "redelivered": self.names[name].redelivered}
                for name, number in self.held.items()
            ],
            "page": page_of(story),
        }


def object_of(what: str, text: str) -> dict[str, Any]:
    """Return an object from its JSON. Raises ValueError if it is none, or has a number that Python cannot write."""
    try:
        value = json.loads(text)
        json.dumps(value, allow_nan=False)
    except ValueError as error:
        raise ValueError(f"{what} {textwrap.shorten(text, 80)!r} is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise ValueError(f'{what} {textwrap.shorten(text, 80)!r} is not an object of JSON; write {{"name": "value"}}')
    return value


def names_in(definitions: dict[str, Any], section: str, key: str) -> list[str]:
    """Return what the objects of a section have at a key. What is wrong there, the broker says."""
    objects = definitions.get(section)
    found = [it.get(key) for it in objects if isinstance(it, dict)] if isinstance(objects, list) else []
    return [name for name in found if isinstance(name, str)]


def body_text(body: bytes) -> str:
    """Return a body as it is: its text, or the bytes as Python writes them, cut if it is long."""
    try:
        text = body.decode()
    except UnicodeDecodeError:
        text = repr(body)
    return text if len(text) <= BODY_MAX else f"{text[:BODY_MAX]}... ({len(body):,} bytes)"


def refuse_input(*_: object) -> NoReturn:
    """Stand for `input`, which cannot ask here."""
    raise RuntimeError("input() cannot ask on this page; write the value into the program")


def error_text(error: BaseException) -> str:
    """Return an error as Python prints it, without the lines that are not of the program."""
    lines = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == FILE]
    where = f"line {lines[-1].lineno}: " if lines else ""
    return (where + "".join(traceback.format_exception_only(error)).strip())[:OUTPUT_MAX]


session = Session()


def act(call: str) -> str:
    """Do what the page asks: the name of a step and its arguments."""
    global session
    name, *arguments = json.loads(call)
    if name in ("begin", "run"):
        session.end()
        session = Session()
    try:
        if name not in STEPS:
            raise ValueError(f"unknown step {name!r}; expected one of {', '.join(STEPS)}")
        getattr(session, name)(*arguments)
    except Exception as error:
        session.error = error_text(error)
    return json.dumps(session.report())
