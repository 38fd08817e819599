"""A process with moto's S3 server, on a free port. It prints the port, and ends when its input ends.

moto looks whether an object exists and then writes it, in several threads. Amazon's servers do both as one step, so a
lock lets in one request at a time. The bucket `lossy` behaves as a bad connection does: it answers 503 to the first PUT
of a few objects of logs, after it has carried it out.
"""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

BUCKETS = ("warehouses", "lossy")
# So many answers are lost.
LOST = 3


@contextmanager
def s3_server() -> Iterator[dict[str, str]]:
    """Run a server with BUCKETS, and give the environment variables with which clients find it."""
    with subprocess.Popen(
        [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        port = process.stdout.readline().strip()
        yield {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
            "AWS_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
        }
        process.stdin.close()


def serve() -> None:
    """Serve until the input ends."""
    import boto3
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import make_server

    server = make_server("127.0.0.1", 0, _Gate(DomainDispatcherApplication(create_backend_app)), threaded=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    client = boto3.client(
        "s3",
        endpoint_url=f"http://127.0.0.1:{server.server_port}",
        region_name="us-east-1",
        aws_access_key_id="test",
        aws_secret_access_key="test",
    )
    for bucket in BUCKETS:
        client.create_bucket(Bucket=bucket)
    print(server.server_port, flush=True)
    sys.stdin.read()
    server.shutdown()


class _Gate:
    """moto behind a lock, and with the fault of a bucket."""

    def __init__(self, moto: Callable[..., Iterable[bytes]]) -> None:
        self.moto = moto
        self.lock = threading.Lock()
        self.seen: set[str] = set()

    def __call__(self, request: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        bucket, _, path = request["PATH_INFO"].strip("/").partition("/")
        with self.lock:
            answer = list(self.moto(request, start if not self._is_lost(request, bucket, path) else _ignore))
            if self._is_lost(request, bucket, path):
                self.seen.add(path)
                start("503 Service Unavailable", [("Content-Length", "0")])
                return []
            return answer

    def _is_lost(self, request: dict[str, Any], bucket: str, path: str) -> bool:
        is_put = bucket == "lossy" and request["REQUEST_METHOD"] == "PUT" and "_delta_log" in path
        return is_put and path not in self.seen and len(self.seen) < LOST


def _ignore(*args: object) -> Callable[[bytes], None]:
    return lambda data: None


if __name__ == "__main__":
    serve()
