"""The scenarios, one module for each area of the management API."""

from __future__ import annotations

import importlib
import pkgutil


def load_all() -> None:
    """Import every module of scenarios, which registers them."""
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")
