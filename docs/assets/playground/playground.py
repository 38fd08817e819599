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
import traceback
from typing import Any

from leveret import Broker
from leveret.page.formats.html import page_of
from leveret.page.readings.live import test_of
from leveret.page.story import story_of

FILE = "program.py"
CHANNEL = "channel = connection.channel()\nchannel.confirm_delivery()\n"


class Session:
    """A program as far as it has been run, with its broker and its client."""

    def __init__(self) -> None:
        self.names: dict[str, Any] = {}
        self.program = ""
        # What the client holds: the names of deliveries in the program.
        self.held: list[str] = []
        self.got_count = 0
        self.vhost = "/"
        self.error = ""
        self.output = ""

    @property
    def broker(self) -> Broker | None:
        """The broker of the program, the last one it has made."""
        return next((it for it in reversed([*self.names.values()]) if isinstance(it, Broker)), None)

    def end(self) -> None:
        """Stop all brokers."""
        for it in self.names.values():
            if isinstance(it, Broker):
                it.stop()

    def run(self, code: str) -> bool:
        """Run lines of a program, then its tests. Return whether no error came."""
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
            try:
                exec(compile(code, FILE, "exec"), self.names)
                for name in [name for name in self.names if name.startswith("test_")]:
                    self._run_test(name)
            except BaseException as error:
                self.error = error_text(error)
        self.output += printed.getvalue()
        return not self.error

    def _run_test(self, name: str) -> None:
        """Call a test, whose only fixture is `leveret`, as pytest would."""
        function = self.names.pop(name)
        if not inspect.isfunction(function):
            return
        broker = self.names["leveret"] = Broker().start()
        function(*[broker for _ in inspect.signature(function).parameters])
        print(f"{name} passed")

    def add(self, code: str) -> bool:
        """Add lines to the program, and run them. A client that has lost its channel then gets another one."""
        self.program += code
        is_done = self.run(code)
        connection, channel = self.names.get("connection"), self.names.get("channel")
        if connection is not None and not connection.is_open:
            self._renew(self._connect())
        elif channel is not None and not channel.is_open:
            self._renew(CHANNEL)
        return is_done

    def _renew(self, code: str) -> None:
        self.held.clear()
        self.program += code
        self.run(code)

    def _connect(self) -> str:
        where = "broker.url" if self.vhost == "/" else f"broker.url_for({self.vhost!r})"
        return f"connection = pika.BlockingConnection(pika.URLParameters({where}))\n{CHANNEL}"

    def begin(self, definitions: str) -> None:
        """Start a broker that has these definitions."""
        meant = json.loads(definitions)
        if not isinstance(meant, dict):
            raise TypeError("definitions are an object of JSON, as rabbitmqctl export_definitions writes it")
        vhosts = [str(vhost.get("name")) for vhost in meant.get("vhosts", [])]
        named = [str(queue.get("vhost", "/")) for queue in meant.get("queues", [])]
        self.vhost = next(iter([*named, *vhosts]), "/")
        # The user guest may do everything there.
        more = "" if self.vhost == "/" else f", vhosts={{{self.vhost!r}}}"
        shown = pprint.pformat(meant, width=100, sort_dicts=False)
        self.add(
            f"import pika\nfrom leveret import Broker\n\nDEFINITIONS = {shown}\n\n"
            f"broker = Broker(definitions=DEFINITIONS{more}).start()\n{self._connect()}"
        )

    def publish(self, exchange: str, key: str, body: str, expiration: str, headers: str) -> None:
        """Publish a message."""
        properties = "delivery_mode=2"
        if expiration:
            properties += f", expiration={expiration!r}"
        if headers.strip():
            properties += f", headers={headers_of(headers)!r}"
        self.add(
            f"channel.basic_publish({exchange!r}, {key!r}, {body.encode()!r}, pika.BasicProperties({properties}))\n"
        )

    def get(self, queue: str) -> None:
        """Take a message from a queue."""
        name = f"m{self.got_count + 1}"
        if self.add(f"{name}, properties, body = channel.basic_get({queue!r})\n"):
            self.got_count += 1
            if self.names[name] is None:
                self.output += f"{queue} has no message that is ready\n"
            else:
                self.held.append(name)

    def settle(self, name: str, how: str) -> None:
        """Acknowledge or reject a message that was taken."""
        calls = {"ack": "basic_ack({})", "reject": "basic_reject({}, requeue=False)", "requeue": "basic_reject({})"}
        if name not in self.held:
            self.error = f"{name} is not held any more"
            return
        self.held.remove(name)
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
        shown = {"error": self.error, "output": self.output, "program": self.program}
        self.error = self.output = ""
        broker = self.broker
        if broker is None or not broker._engine.loop.is_running:
            return shown
        broker.sync()
        engine = broker._engine
        story = story_of([engine.reading(None)], test_of(engine.recorder.raw()), source="memory")
        return {
            **shown,
            "exchanges": [
                it.name for it in broker.exchanges if it.vhost == self.vhost and it.name != "amq.rabbitmq.trace"
            ],
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
            "messages": [
                {
                    "number": message["number"],
                    "label": message["label"],
                    "outcome": message["outcome"],
                    "way": [event["text"] for event in story["events"] if event.get("message") == message["number"]],
                }
                for message in story["messages"]
            ],
            "noticed": [cause["sentence"] for cause in [*story["causes"], *story["noticed"]]],
            "held": [{"name": name, "redelivered": self.names[name].redelivered} for name in self.held],
            "page": page_of(story),
        }


def headers_of(text: str) -> dict[str, Any]:
    """Return headers from a text of JSON. Raises ValueError if it is none, or no object."""
    try:
        headers = json.loads(text)
    except ValueError:
        headers = None
    if not isinstance(headers, dict):
        raise ValueError(f'headers {text!r} are not an object of JSON; write {{"name": "value"}}, or nothing')
    return headers


def error_text(error: BaseException) -> str:
    """Return an error as Python prints it, without the lines that are not of the program."""
    lines = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == FILE]
    where = f"line {lines[-1].lineno}: " if lines else ""
    return where + "".join(traceback.format_exception_only(error)).strip()


session = Session()


def act(call: str) -> str:
    """Do what the page asks: the name of a method and its arguments."""
    global session
    name, *arguments = json.loads(call)
    if name in ("begin", "run"):
        session.end()
        session = Session()
    try:
        if name == "run":
            session.program = arguments[0]
        getattr(session, name)(*arguments)
    except Exception as error:
        session.error = error_text(error)
    return json.dumps(session.report())
