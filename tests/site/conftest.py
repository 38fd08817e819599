"""The documentation as a site, built once and served on this machine, and a browser that reads it."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.chromium import Open, browser, expected_noise, opening

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, Request

__all__ = ["browser", "expected_noise"]

ROOT = Path(__file__).parents[2]


@dataclass
class Site:
    """The folder of the built site, and where it is served."""

    folder: Path
    address: str

    def pages(self) -> dict[str, str]:
        """Return the HTML of each page, by its address below that of the site."""
        return {
            page.parent.relative_to(self.folder).as_posix().removeprefix(".") + "/": page.read_text(encoding="utf-8")
            for page in sorted(self.folder.rglob("index.html"))
        }


class Quiet(SimpleHTTPRequestHandler):
    """Serves files and prints nothing."""

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def copyfile(self, source: Any, outputfile: Any) -> None:
        # The browser drops what it is loading when a test goes on to the next page.
        with suppress(ConnectionError):
            super().copyfile(source, outputfile)


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Build the site strictly, so that a page outside the nav or a dead link fails here, and serve it."""
    folder = tmp_path_factory.mktemp("site") / "leveret"
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    # The theme's advertisement of its successor would stand before what failed.
    environ = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    built = subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True)
    assert built.returncode == 0, built.stdout + built.stderr
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder.parent)))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield Site(folder, f"http://127.0.0.1:{server.server_port}/leveret/")
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def open_page(browser: Browser, site: Site, expected_noise: list[str]) -> Iterator[Open]:
    """Return what opens a page of the site, such as "reference/faults/". No request may leave this machine."""
    left: list[str] = []

    def watch(request: Request) -> None:
        if not request.url.startswith((site.address, "data:", "blob:")):
            left.append(request.url)

    with opening(browser, expected_noise) as open_address:

        def open_it(path: str = "", **options: Any) -> Page:
            page = open_address("about:blank", **options)
            # A busy machine is no reason to fail.
            page.context.set_default_timeout(60_000)
            page.on("request", watch)
            page.goto(site.address + path)
            return page

        yield open_it
    assert left == []
