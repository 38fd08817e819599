"""The options, one row each: its name, its kind, what it means, and where it reaches.

A setting of a broker has the same name in `Broker`, in the marker, on the command line, in the environment and in the
ini file. This is the one table of them: the options, the marker, `--leveret-real` and the stand-ins are made of it, and
tests/house/test_options.py holds `Broker` and the reference equal to it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from pytest_leveret.options import kinds
from pytest_leveret.options.kinds import ValueKind, read_choice

PAGES_MAX: Final = 100
REAL_WAIT_S: Final = 10.0


@dataclass(frozen=True, slots=True)
class Option:
    """One setting: its name, its kind, how the help explains it, and where it can be set."""

    word: str
    kind: ValueKind
    help: str
    # What the line of the marker shows as its value; empty if it is no keyword of the marker.
    example: str = ""
    # Where a keyword of a broker reaches: the brokers of the fixtures, of stand-ins, and that in front of a real server
    # ("all"); none of stand-ins ("own"); only leveret can do it, so that its tests are skipped on a server ("leveret");
    # or a server is what it is without ("no server"). The last two reach stand-ins as well.
    reach: Literal["all", "own", "leveret", "no server"] = "own"
    has_ini: bool = True

    @property
    def is_path(self) -> bool:
        """Whether it is a path, which is relative to pytest's rootdir in the ini file."""
        return self.kind in (kinds.DIRECTORY, kinds.DEFINITIONS)

    @property
    def flag(self) -> str:
        """Its name on the command line."""
        return f"--leveret-{self.word.replace('_', '-')}"

    @property
    def variable(self) -> str:
        """Its name in the environment."""
        return f"LEVERET_{self.word.upper()}"

    @property
    def ini(self) -> str:
        """Its name in the ini file."""
        return f"leveret_{self.word}"


_RABBITMQ: Final = (
    "the RabbitMQ version that the broker behaves as (default: 4.3); several, such as 3.13,4.3, rehearse an upgrade"
)
_PERMIT: Final = "deprecated features to permit although that version denies them"
_RECORD: Final = "what to record for assertions and reports: recent or off (default: recent)"
_TRACE_DIR: Final = "write every event to a trace file in this directory; an empty value writes none"
_CHECKS: Final = "levels of strict checks, such as unroutable=error or expired_into_nothing=off"
_MAX_REDELIVERIES: Final = "how often a message may come back before redelivered_too_often reports it (default: 100)"
_USERS: Final = "users with every right on / and on the virtual hosts of leveret_vhosts"
_DEFINITIONS: Final = "a definitions.json of RabbitMQ to import; an empty value imports none"
_DECLARE: Final = "what clients may declare beside the definitions: freely or must_match (default: freely)"
_PORT: Final = (
    "the port of the broker of the run, which starts before conftests and tests are imported; that of a fixture takes "
    "it while it runs (default: a free one)"
)
_MANAGEMENT_PORT: Final = "the port for HTTP of the broker of the run, such as 15672 (default: a free one)"
_SETTINGS: Final = "settings of rabbitmq.conf, such as channel_max=100"

OPTIONS: Final = (
    Option("rabbitmq", kinds.VERSIONS, _RABBITMQ, "'4.3'", "no server"),
    Option("permit", kinds.FEATURES, _PERMIT, "{'transient_nonexcl_queues'}", "no server"),
    Option("seed", kinds.NUMBER, "the seed of the broker's random choices (default: 0)", "0", "all"),
    Option("record", kinds.RECORD, _RECORD, "'recent'", "all"),
    Option("trace_dir", kinds.DIRECTORY, _TRACE_DIR, "'traces'", "all"),
    Option("trace_bodies", kinds.SWITCH, "also write message bodies to the trace file (default: no)", "True", "all"),
    Option(
        "trace_redact", kinds.NAMES, "more headers whose values are left out of the trace file", "{'x-customer'}", "all"
    ),
    Option("checks", kinds.LEVELS, _CHECKS, "'unroutable=error'", "all"),
    Option("max_redeliveries", kinds.COUNT, _MAX_REDELIVERIES, "100", "all"),
    Option("users", kinds.USERS, _USERS, "{'app': 'secret'}", "all"),
    Option("vhosts", kinds.NAMES, "virtual hosts to create", "{'shop'}", "all"),
    Option("definitions", kinds.DEFINITIONS, _DEFINITIONS, "'definitions.json'", "all"),
    Option("declare", kinds.RULE, _DECLARE, "'must_match'", "all"),
    Option("plugins", kinds.NAMES, "plugins of RabbitMQ to enable", "{'rabbitmq_event_exchange'}", "no server"),
    Option("settings", kinds.LINES, _SETTINGS, "{'channel_max': 100}", "leveret"),
    Option("host", kinds.ADDRESS, "the address that the broker listens on (default: 127.0.0.1)", "'127.0.0.1'"),
    Option("port", kinds.PORT, _PORT, "0"),
    Option("management", kinds.SWITCH, "open a port for HTTP beside the broker's (default: no)", "False", "no server"),
    Option("management_port", kinds.PORT, _MANAGEMENT_PORT, "0", "no server"),
)
# The keywords of a broker that only a test itself can give.
BROKER_ONLY: Final = (
    Option("tls", kinds.TLS, "open a second port, which speaks TLS", reach="leveret"),
    Option("tls_port", kinds.PORT, "the number of that port", reach="leveret"),
    Option("inline", kinds.SWITCH, "serve clients that block on the test's own thread, in memory", reach="leveret"),
)
KEYWORDS: Final = {option.word: option for option in (*OPTIONS, *BROKER_ONLY)}
PAGES: Final = (
    Option(
        "pages",
        ValueKind("WHEN", read_choice("failed", "all", "off")),
        "which tests get a page on what happened: failed, all or off (default: failed)",
    ),
    Option(
        "pages_dir",
        kinds.DIRECTORY,
        "where the pages are written (default: a new directory in pytest's cache, which keeps three runs)",
    ),
    Option("pages_limit", kinds.COUNT, f"the most pages that a run writes (default: {PAGES_MAX})"),
)
OTLP: Final = (
    Option(
        "otlp",
        kinds.DIRECTORY,
        "write the messages of each test as spans of OpenTelemetry, in OTLP/JSON, to this directory",
    ),
)
# What leads to the broker of the run, another one in each worker of pytest-xdist.
WAYS: Final = (
    Option(
        "url_env",
        ValueKind("NAMES", kinds.read_variables),
        "environment variables to set to the URL of leveret_session before conftests and tests are imported, such as "
        "AMQP_URL, or AMQP_URL vhost=shop user=app, or to a part of it, as in RABBITMQ_HOST=host RABBITMQ_PORT=port",
    ),
    Option(
        "hosts",
        ValueKind("NAMES", kinds.read_names),
        "names of other machines, such as rabbitmq, that are leveret_session for the tests and each Python they start",
    ),
)
# What starts the broker of the run before anything is imported.
OF_RUN: Final = (*WAYS, *(option for option in OPTIONS if option.word in ("port", "management_port")))
STANDINS: Final = (
    Option(
        "replaces",
        ValueKind("PACKAGES", kinds.read_packages),
        "serve the RabbitMQ that these packages would start: testcontainers, pytest-docker, pytest-rabbitmq; an empty "
        "value replaces nothing",
    ),
    Option(
        "unserved",
        ValueKind("FAIL_OR_SKIP", read_choice("fail", "skip")),
        "what becomes of a test that asks a replaced RabbitMQ for something that only a server has (default: fail)",
    ),
)
REAL: Final = (
    Option(
        "real",
        ValueKind("URL", kinds.read_url),
        "run on this RabbitMQ, amqp://user:password@host:port, with a virtual host for each test",
        has_ini=False,
    ),
    Option(
        "real_management",
        kinds.URL,
        "the URL of its management API (default: the same host and user, at the AMQP port + 10000)",
        has_ini=False,
    ),
    Option(
        "real_wait",
        ValueKind("SECONDS", kinds.read_seconds),
        f"how much time a test may move there, which is waited for (default: {REAL_WAIT_S:g}); beyond, it is skipped",
        has_ini=False,
    ),
)
CONTRACT: Final = (
    Option(
        "contract",
        ValueKind("MODE", read_choice("check", "write", "rewrite", "off")),
        "what to do with the contract: check the tests' messages against the files of leveret_contract, write what "
        "they show to the lock among them, rewrite it, or off (default: check)",
        has_ini=False,
    ),
)
TABLE: Final = (*OPTIONS, *PAGES, *OTLP, *WAYS, *STANDINS, *REAL, *CONTRACT)
