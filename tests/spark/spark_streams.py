"""Running a stream in a test."""

from typing import Any

from pyspark.errors import StreamingQueryException


def run_to_its_end(writer: Any, attempts: int = 20) -> Any:
    """Run a query until it has all that there is.

    Spark gives the Python process of a stream's source ten seconds to start, whatever the machine has to do besides; such a
    start is tried again, which a checkpoint makes harmless.
    """
    while True:
        attempts -= 1
        query = writer.trigger(availableNow=True).start()
        try:
            query.awaitTermination()
        except StreamingQueryException as error:
            if "failed to connect back" not in str(error) or not attempts:
                raise
        else:
            return query
