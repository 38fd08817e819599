"""The version of leveret that is installed. The number itself stands in pyproject.toml alone."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version


def _installed() -> str:
    try:
        return version("leveret")
    except PackageNotFoundError:
        # Run from its source.
        return "unreleased"


__version__ = _installed()
