"""Run a stream as a job: to the end of what there is, or on and on, and say how it goes."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tidelog.dataclass import dataclass
from tidelog.errors import TidelogError
from tidelog.spark.failures import reason

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

_LOOK_S = 1
_NO_PYTHON = "failed to connect back"
_STARTS = 20


@dataclass(frozen=True, slots=True)
class Batch:
    """One micro-batch that is done."""

    number: int
    rows: int
    seconds: float
    state: int = 0
    """Windows that are not over, or rows that may still find others, after it."""

    def line(self) -> str:
        speed = self.rows / max(self.seconds, 1e-9)
        return f"batch {self.number}  rows {self.rows:_}  {self.seconds:.1f} s  {speed:_.0f} rows/s"


def run_stream(
    writer: "DataStreamWriter",
    every: str | None = None,
    tell: Callable[[Batch], None] = lambda batch: None,
) -> tuple[Batch, ...]:
    """Run a query to the end of what there is now; with `every` ("10 seconds") on, until it is interrupted.

    Spark gives the Python process of a source ten seconds to start, whatever else the machine does; such a start is tried again.
    """
    from pyspark.errors import StreamingQueryException

    timed = writer.trigger(processingTime=every) if every else writer.trigger(availableNow=True)
    for _ in range(_STARTS):
        query = timed.start()
        try:
            return _follow(query, tell)
        except StreamingQueryException as error:
            if _NO_PYTHON not in str(error):
                raise TidelogError(reason(error)) from error
        finally:
            query.stop()
    raise TidelogError(f"Spark could not start the source's Python process in {_STARTS} attempts")


def _follow(query: "StreamingQuery", tell: Callable[[Batch], None]) -> tuple[Batch, ...]:
    told: dict[int, Batch] = {}
    ended = False
    while not ended:
        ended = bool(query.awaitTermination(_LOOK_S))
        for each in query.recentProgress:
            made = _batch(each)
            if made.rows and made.number not in told:
                tell(made)
            if made.rows or told:
                # What comes last may have no rows, and only put an end to windows.
                told[made.number] = made
    return tuple(told.values())


def _batch(progress: Any) -> Batch:
    # By attribute: as a dict it lacks numbers over Spark Connect.
    rows, millis = progress.numInputRows or 0, progress.batchDuration or 0
    state = sum(int(each.numRowsTotal or 0) for each in progress.stateOperators or ())
    return Batch(int(progress.batchId), int(rows), millis / 1000, state)
