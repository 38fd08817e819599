"""The documentation as a site, built once and served on this machine, and a browser that reads it."""

from __future__ import annotations

import json
import os
import shutil
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

from tests.chromium import Open

if TYPE_CHECKING:
    from playwright.sync_api import Page, Request

ROOT = Path(__file__).parents[2]
NOTHING_TO_FIND: dict[str, Any] = {
    "config": {"lang": ["en"], "separator": " ", "pipeline": [], "fields": {}},
    "docs": [],
}


@dataclass
class Site:
    """The folder of the built site, and where it is served: whole, and with a search that finds nothing."""

    folder: Path
    address: str
    address_without_search: str

    def pages(self) -> dict[str, str]:
        """Return the HTML of each page, by its address below that of the site."""
        return {
            page.parent.relative_to(self.folder).as_posix().removeprefix(".") + "/": page.read_text(encoding="utf-8")
            for page in sorted(self.folder.rglob("index.html"))
        }


class Quiet(SimpleHTTPRequestHandler):
    """Serves files, which the browser may keep, and prints nothing."""

    protocol_version = "HTTP/1.1"

    def end_headers(self) -> None:
        self.send_header("Cache-Control", "max-age=3600")
        super().end_headers()

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
    # With --quiet, mkdocs would not count the warnings for which --strict fails.
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    # The theme's advertisement of its successor would stand before what failed.
    environ = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    built = subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True)
    assert built.returncode == 0, built.stdout + built.stderr
    # Each page reads the index of the search, which takes most of the time that a page takes.
    copy = folder.with_name("without_search")
    shutil.copytree(folder, copy, copy_function=os.link, ignore=shutil.ignore_patterns("search_index.json"))
    (copy / "search" / "search_index.json").write_text(json.dumps(NOTHING_TO_FIND), encoding="utf-8")
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder.parent)))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    address = f"http://127.0.0.1:{server.server_port}"
    yield Site(folder, f"{address}/{folder.name}/", f"{address}/{copy.name}/")
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def open_page(open_address: Open, tab: Page, site: Site) -> Iterator[Open]:
    """Return what opens a page of the site, such as "reference/faults/". No request may leave this machine."""
    left: list[str] = []

    def watch(request: Request) -> None:
        if not request.url.startswith((site.address, site.address_without_search, "data:", "blob:")):
            left.append(request.url)

    def open_it(path: str = "", *, search: bool = False, **options: Any) -> Page:
        return open_address((site.address if search else site.address_without_search) + path, **options)

    tab.on("request", watch)
    yield open_it
    tab.remove_listener("request", watch)
    # The site remembers what its reader chose.
    tab.evaluate("localStorage.clear()")
    assert left == []
