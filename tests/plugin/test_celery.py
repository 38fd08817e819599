"""A Celery worker in a thread ends with its block, and connects again after each lost connection."""

from __future__ import annotations

import threading
from datetime import timedelta

import celery.beat
import pytest

from leveret import Broker
from leveret.time.naps import Sleeper
from tests.house.blocks import blocks_of

HOUR_US = 3_600_000_000


@pytest.fixture
def app(leveret: Broker):
    celery = pytest.importorskip("celery")
    with celery.Celery("shop", broker=leveret.url) as app:
        app.conf.broker_connection_retry_on_startup = True
        yield app


def test_a_worker_without_work_closes_its_connections(leveret: Broker, app) -> None:
    from pytest_leveret.celery import running_worker

    with running_worker(app) as worker:
        leveret.wait_for_consumer("celery")

    assert worker.blueprint.shutdown_complete.is_set()
    assert leveret.connections == []


def test_a_worker_ends_after_an_error_in_its_block(app) -> None:
    from pytest_leveret.celery import running_worker

    with pytest.raises(ZeroDivisionError), running_worker(app) as worker:
        _ = 1 / 0

    assert worker.blueprint.shutdown_complete.is_set()


def test_a_worker_ends_when_its_broker_has_stopped(leveret: Broker, app) -> None:
    from pytest_leveret.celery import running_worker

    with running_worker(app) as worker:
        leveret.stop()

    assert worker.blueprint.shutdown_complete.is_set()


def test_a_worker_that_has_just_started_connects_again(leveret: Broker, app) -> None:
    from pytest_leveret.celery import running_worker

    with running_worker(app) as worker:
        # Celery itself would not notice: it drops the error of a connection that is lost so early.
        leveret.restart()
        leveret.wait_for_consumer("celery")
        leveret.restart()
        leveret.wait_for_consumer("celery")

    assert worker.blueprint.shutdown_complete.is_set()


def test_a_worker_leaves_its_app_as_it_was(leveret: Broker, app) -> None:
    from pytest_leveret.celery import running_worker

    before = set(app.steps["consumer"])
    with running_worker(app):
        pass

    assert app.steps["consumer"] == before


def test_the_clock_of_a_broker_moves_a_countdown(leveret: Broker, app) -> None:
    from pytest_leveret.celery import running_worker

    ran_at = []

    @app.task(name="remind")
    def remind() -> None:
        ran_at.append(leveret.clock.now)

    leveret.clock.hold()
    began_at = leveret.clock.now
    with running_worker(app, broker=leveret):
        remind.apply_async(countdown=900)
        leveret.assert_delivered("celery", timeout=5)
        # The worker holds the message, and has nothing to do until the clock moves.
        leveret.wait_idle()
        leveret.clock.advance(minutes=14)
        assert ran_at == []
        leveret.clock.advance(minutes=1)

    assert ran_at == [began_at + 900]


def test_a_countdown_longer_than_the_consumer_timeout_runs_once(leveret: Broker, app) -> None:
    from pytest_leveret.celery import running_worker

    ran = []

    @app.task(name="remind_tomorrow")
    def remind_tomorrow() -> None:
        ran.append(7)

    leveret.clock.hold()
    with running_worker(app, broker=leveret):
        remind_tomorrow.apply_async(countdown=3600)
        leveret.assert_delivered("celery", timeout=5)
        leveret.clock.advance(minutes=61)
        leveret.assert_acked("celery", timeout=5)

    assert ran == [7]


def test_a_worker_gives_its_app_its_own_clock_back(leveret: Broker, app) -> None:
    from pytest_leveret.celery import running_worker

    leveret.clock.advance(days=7)
    with running_worker(app, broker=leveret):
        assert round(app.now().timestamp()) == round(leveret.clock.now)

    assert app.now().timestamp() < leveret.clock.now - 86400


@pytest.fixture
def scheduled(app):
    """An app whose beat has a task every ten seconds, and one every hour."""
    from celery.schedules import crontab

    app.conf.beat_schedule = {
        "often": {"task": "report", "schedule": 10.0, "args": ("soon",)},
        "hourly": {"task": "report", "schedule": crontab(minute=0), "args": ("hourly",)},
    }
    return app


def instants(broker: Broker, name: str) -> list[float]:
    """Return when a task of that argument was published, by the broker's clock."""
    return [it.at / 1_000_000 for it in broker.events.query("published") if f'"{name}"'.encode() in it.message.body]


def test_the_clock_of_a_broker_moves_beat_to_each_task_of_its_schedule(leveret: Broker, scheduled) -> None:
    from pytest_leveret.celery import running_beat

    leveret.clock.hold()
    began_at = leveret.clock.now
    with running_beat(scheduled, broker=leveret):
        leveret.clock.advance(minutes=61)

    assert instants(leveret, "soon") == [pytest.approx(began_at + 10 * n, abs=1e-6) for n in range(1, 367)]
    assert {at % 3600 for at in instants(leveret, "hourly")} == {0}


def test_beat_that_began_before_the_clock_was_held_sends_at_the_very_time_of_its_task(
    leveret: Broker, scheduled
) -> None:
    from pytest_leveret.celery import running_beat

    del scheduled.conf.beat_schedule["often"]
    with running_beat(scheduled, broker=leveret):
        leveret.wait_idle()
        leveret.clock.hold()
        leveret.clock.advance(timedelta(microseconds=HOUR_US - round(leveret.clock.now * 1_000_000) % HOUR_US))
        leveret.clock.advance(hours=1)

    assert [at % 3600 for at in instants(leveret, "hourly")] == [0, 0]


def test_autojump_jumps_to_what_beat_sends(leveret: Broker, scheduled) -> None:
    from pytest_leveret.celery import running_beat, running_worker

    ran_at = []

    @scheduled.task(name="report")
    def report(name: str) -> None:
        ran_at.append(round(leveret.clock.now - began_at))

    leveret.clock.hold()
    began_at = leveret.clock.now
    with running_worker(scheduled, broker=leveret), running_beat(scheduled, broker=leveret), leveret.clock.autojump():
        leveret.assert_acked("celery", times=3, timeout=10)

    assert ran_at[:3] == [10, 20, 30]


def test_beat_leaves_nothing_behind(leveret: Broker, scheduled, tmp_path, monkeypatch) -> None:
    from pytest_leveret.celery import running_beat

    monkeypatch.chdir(tmp_path)
    with running_beat(scheduled, broker=leveret):
        leveret.wait_idle()
        thread = next(it for it in threading.enumerate() if it.name == "beat")

    assert not thread.is_alive()
    assert "now" not in vars(scheduled)
    assert [*tmp_path.iterdir()] == []
    leveret.wait_idle()


@pytest.mark.parametrize("page", ["docs/how-to/schedulers.md", "docs/how-to/frameworks/celery.md"])
def test_the_tests_of_the_pages_run_where_leveret_sets_the_variable_that_celery_prefers(run, page) -> None:
    blocks = [block for block in blocks_of(page) if block.language == "python" and block.runs]
    source = "\n".join(f"{block.setup}\n{block.code}" for block in blocks)

    result = run(source, "--override-ini=leveret_url_env=CELERY_BROKER_URL")

    result.assert_outcomes(passed=source.count("def test_"))


def test_a_report_names_the_error_that_beat_logged_if_it_sent_nothing(run) -> None:
    result = run("""
        from celery import Celery
        from pytest_leveret.celery import running_beat

        def test_it(leveret):
            app = Celery("shop", broker=leveret.url)

            @app.task(name="report", shared=False)
            def report(minutes):
                pass

            app.conf.beat_schedule = {"report": {"task": "report", "schedule": 60, "kwargs": {"seconds": 60}}}
            with running_beat(app, broker=leveret):
                leveret.clock.advance(minutes=2)
            leveret.assert_published("", routing_key="celery")
    """)

    (line,) = [line for line in result.outlines if line.startswith("no message was published")]
    assert line.startswith("no message was published in this test; logged: SchedulingError: Couldn't apply")
    assert line.count("unexpected keyword argument 'seconds'") == 1


def test_beat_that_is_due_after_its_block_does_not_count_as_awake() -> None:
    # An inline broker runs what is due before `doze_until` goes on.
    with Broker(inline=True) as broker:
        sleeper = Sleeper(broker._engine, "Celery's beat")
        sleeper.end()
        sleeper.doze_until(0)

        broker.wait_idle(timeout=0)


def test_beat_ends_when_its_broker_has_stopped(leveret: Broker, scheduled) -> None:
    from pytest_leveret.celery import running_beat

    with running_beat(scheduled, broker=leveret):
        leveret.stop()


def test_an_error_of_beat_is_raised_at_the_end_of_its_block(leveret: Broker, app) -> None:
    from pytest_leveret.celery import running_beat

    class Broken(celery.beat.Scheduler):
        def tick(self) -> float:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), running_beat(app, broker=leveret, scheduler_cls=Broken):
        leveret.wait_idle()


def test_a_beat_of_its_own_clock_is_named_if_autojump_waits_for_it(leveret: Broker) -> None:
    with leveret.clock.autojump(), pytest.raises(AssertionError) as error:
        leveret.assert_published("", routing_key="celery", timeout=0.01)

    notes = "".join(error.value.__notes__)
    assert "a schedule or a sleep, is not due there: docs/how-to/schedulers.md says how to move it" in notes
    assert "move it with broker.clock.advance()" not in notes
