"""The locks of services stay as they are after another run, and fit together or not; `stability` runs them often."""

from __future__ import annotations

from pathlib import Path

import pytest

from leveret.cli import main
from tests.contract.running import LOCK, NAMES, SERVICES, copy_of, run_forked

SHOP, BILLING, STOCK = (str(SERVICES / name / LOCK) for name in ("pika_shop", "pika_billing", "stream_stock"))


# One of each kind of client; the campaign runs all.
@pytest.mark.parametrize("name", ["aio_mails", "celery_reports", "pika_billing", "stream_stock"])
def test_a_lock_that_is_written_anew_is_as_it_was(tmp_path: Path, name: str) -> None:
    service = copy_of(name, tmp_path)

    status, output = run_forked(service, "--leveret-contract=rewrite")

    assert status == pytest.ExitCode.OK, output
    assert (service / LOCK).read_text() == (SERVICES / name / LOCK).read_text()


def test_there_are_twelve_services() -> None:
    assert len(NAMES) == 12


def test_services_that_agree_fit_together(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["contract", "check", SHOP, BILLING, STOCK]) == 0

    output = capsys.readouterr().out
    assert "leveret: the locks fit together" in output
    assert "  orders 'order.created' of shop: `placed_at` is new: date-time" in output
    assert "\n  invoices 'created', which billing sends\n" in output.partition("no consumer reads it:")[2]


def test_a_publisher_that_drops_what_another_service_reads_breaks_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shop = tmp_path / "shop.lock"
    shop.write_text(Path(SHOP).read_text().replace('total = "decimal"\n', 'sum = "decimal"\n'))

    assert main(["contract", "check", str(shop), BILLING, STOCK]) == 1

    assert capsys.readouterr().out.startswith(
        "breaking:\n  orders 'order.created' of shop: `total` is missing; billing has received `total` as "
    )


def test_a_word_that_a_consumers_test_repeats_is_no_limit(capsys: pytest.CaptureFixture[str]) -> None:
    assert 'currency = "enum(EUR)"' in Path(BILLING).read_text()
    assert 'currency = "enum(EUR, USD)"' in Path(SHOP).read_text()

    assert main(["contract", "check", SHOP, BILLING]) == 0


def test_a_message_that_is_only_expected_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["contract", "check", BILLING]) == 0

    assert "read, and no publisher sends it:\n  orders 'order.created', which billing reads" in capsys.readouterr().out


def test_a_message_reaches_a_consumer_whose_tests_publish_to_its_queue(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    billing = tmp_path / "billing.lock"
    billing.write_text(
        Path(BILLING)
        .read_text()
        .replace(
            'exchange = "orders"\nrouting_key = "order.created"\npublishers',
            'exchange = ""\nrouting_key = "billing"\npublishers',
        )
    )
    shop = tmp_path / "shop.lock"
    shop.write_text(Path(SHOP).read_text().replace('total = "decimal"', 'total = "number"'))

    assert main(["contract", "check", str(shop), str(billing)]) == 1

    assert "`total` is number, and was " in capsys.readouterr().out


@pytest.mark.parametrize(
    ("old", "new", "code", "text"),
    [
        ('total = "decimal"', 'total = "decimal"', 0, "no difference\n"),
        ('coupon = "optional string"', "", 0, "not breaking:\n  orders 'order.created': `coupon`, which was optional"),
        (
            'reason = "word"',
            'reason = "word | null"',
            0,
            "not breaking:\n  orders 'order.cancelled': `reason` is null\n",
        ),
    ],
)
def test_the_difference_of_two_locks_says_what_it_breaks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], old: str, new: str, code: int, text: str
) -> None:
    changed = tmp_path / LOCK
    changed.write_text(Path(SHOP).read_text().replace(old, new))

    assert main(["contract", "diff", SHOP, str(changed)]) == code

    assert capsys.readouterr().out.startswith(text)


@pytest.mark.parametrize("command", ["check", "diff"])
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str) -> None:
    bad = tmp_path / "bad.lock"
    bad.write_text("no lock")

    assert main(["contract", command, SHOP, str(bad)]) == 2
    assert "bad.lock is no lock" in capsys.readouterr().err
    assert main(["contract", command, SHOP, str(tmp_path / "none.lock")]) == 2
    assert "none.lock" in capsys.readouterr().err
