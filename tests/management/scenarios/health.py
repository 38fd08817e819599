"""Health checks, as load balancers and orchestrators poll them."""

from __future__ import annotations

from ..scenario import Run, scenario


@scenario
def checks_that_pass(s: Run) -> None:
    for check in (
        "alarms", "local-alarms", "virtual-hosts", "node-is-mirror-sync-critical", "node-is-quorum-critical",
        "ready-to-serve-clients", "is-in-service", "below-node-connection-limit", "metadata-store/initialized",
        "metadata-store/initialized/with-data", "protocol-listener/amqp", "protocol-listener/amqp091",
        "quorum-queues-without-elected-leaders/all-vhosts", f"quorum-queues-without-elected-leaders/vhost/{s.v}",
        "quorum-queues-without-elected-leaders/all-vhosts/pattern/x", "certificate-expiration/1/days",
        "reached-target-cluster-size",
        f"quorum-queues-without-elected-leaders/vhost/{s.v}/pattern/x",
    ):  # fmt: skip
        s.get(f"/health/checks/{check}", without=("protocols",))


@scenario
def a_port(s: Run) -> None:
    s.get(f"/health/checks/port-listener/{s.amqp.endpoint.address[1]}")
    s.get("/health/checks/port-listener/1")
    s.get("/health/checks/port-listener/x")


@scenario
def checks_that_fail(s: Run) -> None:
    s.get("/health/checks/protocol-listener/mqtt", without=("protocols",))
    s.get("/health/checks/protocol-listener/nonsense", without=("protocols",))
    s.get("/health/checks/nothing")
    s.get("/health/checks")
    s.get("/health/checks/certificate-expiration/x/days")
    s.get("/health/checks/certificate-expiration/1/nonsense")


@scenario
def the_old_checks(s: Run) -> None:
    s.get(f"/aliveness-test/{s.v}")
    s.get("/aliveness-test/nothing")
    s.get("/healthchecks/node")
    s.get("/healthchecks/node/nothing")


@scenario
def who_may_check(s: Run) -> None:
    s.add_user("alice", "management")
    for check in (
        "alarms",
        "local-alarms",
        "virtual-hosts",
        "ready-to-serve-clients",
        "is-in-service",
        "port-listener/1",
    ):
        s.get(f"/health/checks/{check}", user="alice")
        s.get(f"/health/checks/{check}", user=None)
    s.get(f"/aliveness-test/{s.v}", user="alice")
    s.get("/healthchecks/node", user="alice")
    s.add_user("bob")
    s.get("/health/checks/alarms", user="bob")


@scenario
def checks_of_several_protocols(s: Run) -> None:
    for names in ("amqp091,amqp", "amqp,nonsense", "amqp,stomp,mqtt", ","):
        s.get(f"/health/checks/protocol-listener/{names}", without=("protocols",))


@scenario
def protocols_in_capitals(s: Run) -> None:
    for protocol in ("AMQP", "Amqp091", "MQTT"):
        s.get(f"/health/checks/protocol-listener/{protocol}", without=("protocols",))
