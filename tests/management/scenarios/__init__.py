"""The scenarios, one module for each area of the management API."""

from __future__ import annotations

from tests.recording import loader

load_all = loader(__name__, __path__)
