"""The version of leveret that is installed. Only pyproject.toml holds the number itself."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version


def _installed() -> str:
    try:
        return version("leveret")
    except PackageNotFoundError:
        # leveret runs from its source.
        return "unreleased"


__version__ = _installed()
