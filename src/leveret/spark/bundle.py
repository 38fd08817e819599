"""leveret as one zip file for `spark-submit --py-files`, because Spark cannot import from a wheel."""

from __future__ import annotations

import zipfile
from pathlib import Path


def write_bundle(target: str | Path) -> int:
    """Write the package into a zip file, and return its number of files. The same leveret gives the same bytes."""
    package = Path(__file__).parents[1]
    files = sorted(path for path in package.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as bundle:
        for path in files:
            # Without a date, ZipInfo uses the earliest that the format knows, so the bytes do not vary.
            entry = zipfile.ZipInfo(str(path.relative_to(package.parent).as_posix()))
            entry.compress_type = zipfile.ZIP_DEFLATED
            bundle.writestr(entry, path.read_bytes())
    return len(files)
