"""The rows of Parquet and Arrow files, by pyarrow where it is installed."""

from __future__ import annotations

import os
from typing import Any, Dict, Iterator, List, Sequence

ROWS = 1024  # held at once


class ParquetError(Exception):
    """What is wrong with the files, for people."""


def import_pyarrow() -> Any:
    try:
        import pyarrow
        import pyarrow.ipc
        import pyarrow.json
        import pyarrow.parquet
    except ImportError as error:
        raise ParquetError(
            "pyarrow is needed to read and write parquet; python3 -m pip install pyarrow"
        ) from error
    return pyarrow


def _parquet_batches(pyarrow: Any, source: str) -> Iterator[Any]:
    with pyarrow.parquet.ParquetFile(source) as table:
        yield from table.iter_batches(batch_size=ROWS)


def _arrow_batches(pyarrow: Any, source: str) -> Iterator[Any]:
    with pyarrow.memory_map(source) as file:
        try:
            yield from pyarrow.ipc.open_stream(file)  # as datasets writes them
        except pyarrow.ArrowInvalid:
            with pyarrow.ipc.open_file(file) as table:
                for i in range(table.num_record_batches):
                    yield table.get_batch(i)


_batches = {".parquet": _parquet_batches, ".arrow": _arrow_batches}


def is_table(path: str) -> bool:
    """A name of Parquet or Arrow, whose rows need pyarrow."""
    return os.path.splitext(path)[1] in _batches


def check_names(names: Sequence[Any]) -> None:
    """Refuse a table with two columns of one name: a row has room for one of them."""
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"two columns have the name {twice!r}; rename or remove one")


def rows_of(batch: Any) -> List[Dict[str, Any]]:
    """The rows of a batch of pyarrow."""
    check_names(batch.schema.names)
    return batch.to_pylist()  # type: ignore[no-any-return]


def read_rows(path: str) -> Iterator[Dict[str, Any]]:
    """The rows of a .parquet or .arrow file."""
    pyarrow = import_pyarrow()
    for batch in _batches[os.path.splitext(path)[1]](pyarrow, path):
        yield from rows_of(batch)
