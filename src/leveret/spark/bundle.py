"""leveret as one zip file: for `spark-submit --py-files`, which cannot use a wheel, and for sessions on a cluster.

A session sends the file to the processes in which its tasks run, so that leveret need not be installed there.
"""

from __future__ import annotations

import hashlib
import tempfile
import zipfile
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final
from weakref import WeakSet

from leveret.spark.jvm import is_here

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# The sessions whose tasks have leveret.
_supplied: Final[WeakSet[SparkSession]] = WeakSet()


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


def supply(spark: SparkSession) -> None:
    """Send leveret to the tasks of a session, once, unless they run on this machine and import it as this process does.

    The tasks need the packages that leveret imports there, for the pipeline pyarrow and numpy.
    """
    # A session of Spark Connect has no context, and its server may be anywhere.
    context = getattr(spark, "sparkContext", None)
    if spark in _supplied or (context is not None and is_here(context.master)):
        return
    # Spark ignores a file that it already has, if it has the same name and content.
    spark.addArtifacts(str(_bundle()), pyfile=True)
    _supplied.add(spark)


@cache
def _bundle() -> Path:
    """Return leveret's zip file, which exists until this process ends: executors that come later fetch it then."""
    # A driver that has leveret from --py-files passes on that file.
    archive = getattr(__spec__.loader, "archive", None)
    if archive is not None:
        return Path(archive)
    _folders.append(tempfile.TemporaryDirectory(prefix="leveret-bundle-"))
    draft = Path(_folders[-1].name, "leveret.zip")
    write_bundle(draft)
    # Two versions of leveret in one Spark need two names.
    return draft.rename(draft.with_name(f"leveret-{hashlib.sha256(draft.read_bytes()).hexdigest()[:16]}.zip"))


_folders: Final[list[tempfile.TemporaryDirectory[str]]] = []
