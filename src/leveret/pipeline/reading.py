"""Reading tables for answers: what the report and the diff ask for, wherever the tables are.

`Read` is the question. `of_tables` answers it from tables in memory, and `of_spark` from a warehouse that Spark reads.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import reduce
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from leveret.errors import unknown
from leveret.pipeline.kernel.across import ACROSS

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

    from leveret.pipeline.warehouse import State, Warehouse

# The columns to choose rows by, and the values that the chosen rows have there; None stands for null.
Where = Mapping[str, Collection[Any]]


class Read(Protocol):
    """A reader of tables: "events", "runs", the other tables of a run, and the tables across runs."""

    def __call__(
        self,
        name: str,
        *,
        runs: Collection[str] | None = None,
        columns: Sequence[str] | None = None,
        where: Where | None = None,
    ) -> pa.Table:
        """Return the rows of a table, of these runs or of all, in any order; strings may be dictionary codes.

        A table across runs is computed over these runs. `columns` are the columns to return, and `where` chooses rows.
        Raises KeyError if the table does not exist.
        """


def of_tables(tables: Mapping[str, pa.Table]) -> Read:
    """Return a reader of these tables, which have a column `run`. It computes the tables across runs from them."""

    def read(
        name: str,
        *,
        runs: Collection[str] | None = None,
        columns: Sequence[str] | None = None,
        where: Where | None = None,
    ) -> pa.Table:
        if name in ACROSS:
            rows = ACROSS[name].build(read(ACROSS[name].reads, runs=runs))
        elif name in tables:
            rows = tables[name] if runs is None else chosen(tables[name], {"run": runs})
        else:
            raise KeyError(unknown("table", name, [*tables, *ACROSS]))
        rows = chosen(rows, where or {})
        return rows if columns is None else rows.select(list(columns))

    return read


def chosen(rows: pa.Table, where: Where) -> pa.Table:
    """Return the rows that have one of the values in each of these columns."""
    for name, values in where.items():
        kind = rows[name].type
        kind = kind.value_type if pa.types.is_dictionary(kind) else kind
        rows = rows.filter(pc.is_in(rows[name], value_set=pa.array(list(values), kind)))
    return rows


@contextmanager
def of_spark(spark: SparkSession, warehouse: Warehouse, state: State) -> Iterator[Read]:
    """Yield a reader of a warehouse, by a query of Spark for each table, in a session with settings for small ones."""
    from pyspark.sql import functions as F

    from leveret.pipeline.incremental import read_table

    def has_one_of(name: str, values: Collection[Any]) -> Column:
        is_in = F.col(name).isin([value for value in values if value is not None])
        return is_in | F.col(name).isNull() if None in values else is_in

    with _for_small_questions(spark) as session:

        def read(
            name: str,
            *,
            runs: Collection[str] | None = None,
            columns: Sequence[str] | None = None,
            where: Where | None = None,
        ) -> pa.Table:
            rows = read_table(session, warehouse, name, runs=runs, state=state)
            conditions = [has_one_of(*each) for each in (where or {}).items()]
            if conditions:
                rows = rows.where(reduce(lambda left, right: left & right, conditions))
            return (rows if columns is None else rows.select(*columns)).toArrow()

        yield read


@contextmanager
def _for_small_questions(spark: SparkSession) -> Iterator[SparkSession]:
    """Yield a second session with settings for small queries. On Spark Connect, yield the caller's session."""
    from pyspark.sql.utils import is_remote

    from leveret.pipeline.spark_session import UNCOMPILED

    if is_remote():
        yield spark
        return
    session = spark.newSession()
    for name, value in UNCOMPILED.items():
        session.conf.set(name, value)
    session.conf.set("spark.sql.shuffle.partitions", str(min(8, spark.sparkContext.defaultParallelism)))
    try:
        yield session
    finally:
        # Creating a frame makes its session the active one, which restores the caller's.
        spark.createDataFrame([], "nothing int")
