"""eventlet patches the process before a test module imports nameko, as `nameko run` does in production."""

from __future__ import annotations

import eventlet

eventlet.monkey_patch()
