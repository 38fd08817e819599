"""The table of the control API: every endpoint."""

from __future__ import annotations

from typing import Final

from leveret.http.control import happenings, messaging, topology, whole
from leveret.http.control.endpoint import Call, Endpoint
from leveret.http.control.openapi import document
from leveret.http.control.shapes import TABLE
from leveret.http.control.topology import ROOT


def _openapi(_call: Call) -> object:
    return document(ENDPOINTS)


ENDPOINTS: Final[tuple[Endpoint, ...]] = (
    Endpoint("getOpenapi", "GET", f"{ROOT}/openapi.json", "Return this document.", _openapi, TABLE),
    *whole.ENDPOINTS,
    *topology.ENDPOINTS,
    *messaging.ENDPOINTS,
    *happenings.ENDPOINTS,
)
