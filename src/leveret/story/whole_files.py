"""Text files that appear whole or not at all."""

from __future__ import annotations

import os
from contextlib import suppress
from os import PathLike, fspath


def write(text: str, path: str | PathLike[str]) -> str:
    """Write a text to a file, and return its absolute path. Raises OSError if the file cannot be written."""
    place = os.path.abspath(fspath(path))
    os.makedirs(os.path.dirname(place), exist_ok=True)
    unfinished = f"{place}.{os.getpid()}.tmp"
    try:
        with open(unfinished, "w", encoding="utf-8", errors="backslashreplace", newline="\n") as file:
            file.write(text)
        os.replace(unfinished, place)
    except OSError as error:
        with suppress(OSError):
            os.remove(unfinished)
        # A full disk is reported without a name.
        error.filename = place
        raise
    return place
