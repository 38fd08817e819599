"""The scenarios, a file per area; ``load_all`` registers them."""

from __future__ import annotations

import importlib
import pkgutil


def load_all() -> None:
    """Import every file of scenarios."""
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")
