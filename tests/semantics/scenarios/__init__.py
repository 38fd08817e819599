"""The scenarios, a file per area; ``load_all`` registers them."""

from __future__ import annotations

from tests.recording import loader

load_all = loader(__name__, __path__)
