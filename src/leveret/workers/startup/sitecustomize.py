"""Names of machines, and single ports of them, that lead to a broker: `leveret_hosts`, and with pytest-xdist the ports.

The run leads them in its own process. It also puts this folder into PYTHONPATH, and Python imports a module of this
name at its start, so each Python that the tests start leads them too. That may be one without leveret: this module
needs the standard library alone.
"""

from __future__ import annotations

import importlib
import os
import socket
import sys
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from functools import wraps
from typing import Any, Final

# The variables that hold the names, the address of the broker, and its ports for HTTP, each as WANTED=PORT.
NAMES: Final = "LEVERET_LED_HOSTS"
ADDRESS: Final = "LEVERET_LED_TO"
HTTP: Final = "LEVERET_LED_HTTP"


def lead(names: Collection[str], host: str, port: int, http_ports: Mapping[str, int]) -> Callable[[], None]:
    """Lead names of machines to a broker, and return what ends that.

    All ports of a name are led, or as "name:port" one of them: those in `http_ports` to the port there, and every other
    one to that of the broker. What a C library resolves itself is not led.
    """

    def led(name: Any, wanted: Any = None) -> tuple[Any, Any]:
        text = name.decode() if isinstance(name, bytes) else name
        if text not in names and f"{text}:{wanted}" not in names:
            return name, wanted
        return host, wanted and http_ports.get(str(wanted), port)

    def with_address(real: Callable[..., Any]) -> Callable[..., Any]:
        return wraps(real)(lambda host, port, *args, **options: real(*led(host, port), *args, **options))

    def with_name(real: Callable[..., Any]) -> Callable[..., Any]:
        return wraps(real)(lambda name: real(led(name)[0]))

    def with_socket(real: Callable[..., Any]) -> Callable[..., Any]:
        def connect(self: socket.socket, address: Any) -> Any:
            is_place = isinstance(address, tuple) and len(address) > 1
            return real(self, (*led(*address[:2]), *address[2:]) if is_place else address)

        return wraps(real)(connect)

    former: list[tuple[Any, str, Any]] = []
    for place, name, change in (
        (socket, "getaddrinfo", with_address),
        (socket, "gethostbyname", with_name),
        (socket, "gethostbyname_ex", with_name),
        # asyncio resolves no numbers, and some clients leave names to the socket.
        (socket.socket, "connect", with_socket),
        (socket.socket, "connect_ex", with_socket),
    ):
        real = getattr(place, name)
        former.append((place, name, real))
        setattr(place, name, change(real))

    def undo() -> None:
        for place, name, real in former:
            setattr(place, name, real)

    return undo


def lead_as_told() -> None:
    """Lead the names that the environment holds, if any."""
    host, _, port = os.environ.get(ADDRESS, "").rpartition(":")
    if names := os.environ.get(NAMES, "").split():
        pairs = (pair.split("=") for pair in os.environ.get(HTTP, "").split())
        lead(names, host.strip("[]"), int(port), {wanted: int(there) for wanted, there in pairs})


if __name__ == "sitecustomize":
    lead_as_told()
    # The module of this name that the environment may have stands behind this one.
    with suppress(ValueError):
        sys.path.remove(os.path.dirname(__file__))
    own = sys.modules.pop(__name__)
    try:
        importlib.import_module(__name__)
    except ModuleNotFoundError:
        sys.modules[__name__] = own
