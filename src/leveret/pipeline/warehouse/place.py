"""Where a warehouse is: a folder of this machine, or a prefix of a bucket of an S3 server."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final
from urllib.parse import quote, unquote, urlsplit

# A scheme has two letters or more: `C:` is a drive of Windows.
_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):(//?)")


def located(place: str | Path) -> str:
    """Return a place as the absolute path of its folder, or as `s3://bucket/prefix`. Neither need exist.

    Raises ValueError for a file, for a folder that deltalake cannot use, and for any other kind of URL.
    """
    text = str(place)
    match = _SCHEME.match(text)
    if not match:
        if Path(text).is_file():
            raise ValueError(f"{place} is a file; a warehouse is a folder, or s3://BUCKET/PREFIX")
        return _readable(str(Path(text).absolute()))
    scheme = match[1].lower()
    if isinstance(place, Path) or match[2] != "//":
        raise ValueError(f"{text}: a URL has two slashes after {scheme}:, and is a str; a Path loses one of them")
    if scheme == "file":
        return _readable(str(_folder_of(text).absolute()))
    if scheme == "s3":
        return _bucket_of(text)
    advice = "mount it as a folder, or use an S3 server"
    if scheme in ("s3a", "s3n"):
        advice = "write s3:// instead, also on Spark, because leveret reads and writes the objects itself"
    raise ValueError(
        f"{text}: a warehouse is kept in a folder or at s3://bucket/prefix, and not at {scheme}://; {advice}"
    )


def is_folder(url: str) -> bool:
    """Return whether a place that `located` has returned is a folder."""
    return "://" not in url


def escaped(url: str) -> str:
    """Return a place as deltalake takes it: in a URL, other characters than those of a URL are escaped."""
    return url if is_folder(url) else quote(url, safe="/:")


def storage_options(url: str) -> dict[str, str]:
    """Return what deltalake does not take from the environment itself."""
    address = endpoint()
    if is_folder(url) or not address:
        return {}
    return {"AWS_ENDPOINT_URL": address, "AWS_ALLOW_HTTP": str(address.startswith("http://")).lower()}


def endpoint() -> str:
    """Return the address of an S3 server other than Amazon's, or ""."""
    return os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL", "")


def region() -> str:
    """Return the region of the S3 server."""
    return os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or "us-east-1"


def _readable(folder: str) -> str:
    # deltalake 1.6 decodes the path of a folder twice.
    if found := re.search("%[0-9A-Fa-f]{2}", folder):
        raise ValueError(f"{folder}: deltalake cannot use a folder with {found[0]} in its path; choose another name")
    return folder


def _folder_of(url: str) -> Path:
    parts = urlsplit(url)
    if parts.netloc not in ("", "localhost"):
        raise ValueError(f"{url}: names the host {parts.netloc!r}; a folder of this machine is file:///folder")
    folder = unquote(parts.path)
    # file:///C:/folder
    return Path(folder[1:] if re.match(r"/[A-Za-z]:", folder) else folder)


def _bucket_of(url: str) -> str:
    parts = urlsplit(url)
    if not parts.netloc or parts.query or parts.fragment:
        raise ValueError(f"{url} is not of the form s3://bucket/prefix")
    return "/".join(["s3:/", parts.netloc, *(part for part in parts.path.split("/") if part)])
