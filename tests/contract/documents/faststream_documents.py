"""The documents of the services in `apps`, as FastStream makes them."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

from faststream.specification import AsyncAPI

APPS = ("orders", "pets", "mails")
VERSIONS: tuple[Literal["3.0.0", "2.6.0"], ...] = ("3.0.0", "2.6.0")


def app(name: str) -> ModuleType:
    """Return the module of a service."""
    return import_module(f"tests.contract.documents.apps.{name}")


def specification(name: str, version: Literal["3.0.0", "2.6.0"] = "3.0.0") -> dict[str, Any]:
    """Return the document of a service."""
    made = AsyncAPI(app(name).broker, title=name, schema_version=version).to_specification()
    data: dict[str, Any] = json.loads(made.to_json())
    return data


def write(name: str, folder: Path, version: Literal["3.0.0", "2.6.0"] = "3.0.0") -> Path:
    """Write the document of a service to a folder."""
    path = folder / f"{name}.json"
    path.write_text(json.dumps(specification(name, version)))
    return path
