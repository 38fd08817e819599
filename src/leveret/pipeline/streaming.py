"""A Structured Streaming query over a folder of trace files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from urllib.parse import unquote, urlsplit

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from leveret.pipeline.sources import is_trace


def stream_files(
    spark: SparkSession,
    place: str | Path,
    checkpoint: str | Path,
    files_per_batch: int,
    act: Callable[[SparkSession, list[Path]], None],
) -> None:
    """Call `act` with the session of the query and the files of each batch, for all files now in the folder."""
    source = str(Path(place).absolute())

    def on_batch(files: DataFrame, _: int) -> None:
        # Spark's URIs quote some characters.
        uris = [row[0] for row in files.select("path").distinct().collect()]
        paths = [Path(unquote(urlsplit(uri).path)) for uri in uris]
        act(files.sparkSession, [path for path in paths if is_trace(path, Path(source))])

    listed = (
        spark.readStream.format("binaryFile")
        .schema("path string, modificationTime timestamp, length long, content binary")
        .option("recursiveFileLookup", "true")
        # Spark counts the age from the newest file. With the default, a run that is uploaded late would be skipped.
        .option("maxFileAge", "365d")
        .option("maxFilesPerTrigger", files_per_batch)
        .load(source)
    )
    query = (
        listed.select(F.col("_metadata.file_path").alias("path"))
        .writeStream.foreachBatch(on_batch)
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
