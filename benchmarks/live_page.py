"""The processor time that an open live page costs a broker with a given number of events a second.

Run it as `python benchmarks/live_page.py`. A broker of its own process serves a client that publishes and consumes at a
fixed rate: each message is three events. Rounds with its page open in Chromium alternate, in pairs, with rounds in
which the page of another, idle broker is open, so that the browser takes the same from the machine. The difference in
processor time, as a share of one core, is what a broker that uses all of its core loses. The browser counts its own
frames meanwhile: the longest gap shows whether the page froze. A round begins a moment after its page was opened: once,
the page has the checks read what was recorded before.
"""

from __future__ import annotations

import os
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pika
from playwright.sync_api import Browser, sync_playwright

EVENTS_A_SECOND = 10_000
SECONDS = 4
OPENING_MS = 2000
PAIRS = 5
# Messages that are sent between two looks at the clock. Each is enqueued too, so it is three events with its delivery.
BATCH = 50
EVENTS_OF_MESSAGE = 3
_FRAMES = """() => {
    window.gap = 0;
    let last = performance.now();
    const look = () => {
        const now = performance.now();
        window.gap = Math.max(window.gap, now - last);
        last = now;
        requestAnimationFrame(look);
    };
    requestAnimationFrame(look);
}"""


def main() -> None:
    with served() as (process, amqp_url, url), served() as (_, _, other_url), sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        with page_open(browser, url):
            round_of(process, amqp_url)
        pairs = []
        gaps = []
        for _ in range(PAIRS):
            with page_open(browser, other_url):
                without = round_of(process, amqp_url)
            with page_open(browser, url) as page:
                pairs.append((without, round_of(process, amqp_url)))
                gaps.append(page.evaluate("window.gap"))
        browser.close()
    for without, with_page in pairs:
        print(f"{without:7.3f} s without, {with_page:7.3f} s with the page in {SECONDS} s")
    share = statistics.median(with_page - without for without, with_page in pairs) / SECONDS
    print(f"median {share:+.1%} of a core; longest gaps between frames: {', '.join(f'{gap:.0f}' for gap in gaps)} ms")


@contextmanager
def served() -> Iterator[tuple[subprocess.Popen[str], str, str]]:
    command = [sys.executable, "-m", "leveret", "serve", "--port", "0", "--management-port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process, process.stdout.readline().strip(), process.stdout.readline().strip()
        process.terminate()


@contextmanager
def page_open(browser: Browser, url: str) -> Iterator[object]:
    context = browser.new_context(http_credentials={"username": "guest", "password": "guest"})
    page = context.new_page()
    page.goto(url)
    page.wait_for_timeout(OPENING_MS)
    page.evaluate(_FRAMES)
    yield page
    context.close()


def round_of(process: subprocess.Popen[str], amqp_url: str) -> float:
    """Return the processor seconds of the broker for one round."""
    before = cpu_s(process.pid)
    connection = pika.BlockingConnection(pika.URLParameters(amqp_url))
    channel = connection.channel()
    channel.queue_declare("flow", durable=True)
    channel.basic_consume("flow", lambda *_: None, auto_ack=True)
    began, sent = time.perf_counter(), 0
    while sent * EVENTS_OF_MESSAGE < EVENTS_A_SECOND * SECONDS:
        for _ in range(BATCH):
            channel.basic_publish("", "flow", b"x" * 200)
        sent += BATCH
        ahead = sent * EVENTS_OF_MESSAGE / EVENTS_A_SECOND - (time.perf_counter() - began)
        connection.process_data_events(max(0, ahead))
    connection.close()
    return cpu_s(process.pid) - before


def cpu_s(pid: int) -> float:
    with open(f"/proc/{pid}/stat") as file:
        fields = re.sub(r"\(.*\)", "x", file.read()).split()
    return (int(fields[13]) + int(fields[14])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    main()
