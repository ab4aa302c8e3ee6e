"""Parquet to JSON lines and back, for data sets that are published as parquet:

    python3 -m searchr1.parquet train.parquet train.jsonl
    python3 -m searchr1.parquet train.jsonl train.parquet

The ending tells the direction. Needs pyarrow, which nothing else here does."""

from __future__ import annotations

import json
import os
import sys
from typing import Any, Iterator, List, Sequence

ROWS = 1024  # held at once


class ParquetError(Exception):
    """What is wrong with the files, for people."""


def _pyarrow() -> Any:
    try:
        import pyarrow
        import pyarrow.json
        import pyarrow.parquet
    except ImportError as error:
        raise ParquetError(
            "pyarrow is needed to read and write parquet; python3 -m pip install pyarrow"
        ) from error
    return pyarrow


def _lines(pyarrow: Any, source: str) -> Iterator[str]:
    with pyarrow.parquet.ParquetFile(source) as table:
        for batch in table.iter_batches(batch_size=ROWS):
            for row in batch.to_pylist():
                yield json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n"


def _write_lines(pyarrow: Any, source: str, part: str) -> int:
    count = 0
    with open(part, "w", encoding="utf-8") as out:
        for line in _lines(pyarrow, source):
            out.write(line)
            count += 1
    return count


def _write_table(pyarrow: Any, source: str, part: str) -> int:
    with open(source, encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines if line.strip()]
    if not rows or not all(isinstance(row, dict) for row in rows):
        raise ParquetError(f"{source}: every line must be an object, and one is needed")
    table = pyarrow.Table.from_pylist(rows)
    # from_pylist goes by the first row's fields
    missing = sorted({name for row in rows for name in row} - set(table.column_names))
    if missing:
        raise ParquetError(f"{source}: line 1 lacks {', '.join(missing)}; add null there")
    pyarrow.parquet.write_table(table, part)
    return len(rows)


def convert(source: str, target: str) -> int:
    """Write source in the other form to target, which is replaced when all went well. The
    number of rows."""
    writers = {
        (".parquet", ".jsonl"): _write_lines,
        (".jsonl", ".parquet"): _write_table,
    }
    ends = (os.path.splitext(source)[1], os.path.splitext(target)[1])
    if ends not in writers:
        raise ParquetError("one name must end in .parquet and the other in .jsonl")
    pyarrow = _pyarrow()
    part = target + ".part"
    try:
        count = writers[ends](pyarrow, source, part)
        os.replace(part, target)
    except (OSError, ValueError, TypeError, pyarrow.ArrowException) as error:
        raise ParquetError(f"{source}: {error}") from error
    finally:
        if os.path.exists(part):
            os.remove(part)
    return count


def main(arguments: Sequence[str]) -> int:
    names: List[str] = list(arguments)
    if len(names) != 2:
        print("usage: python3 -m searchr1.parquet IN OUT", file=sys.stderr)
        return 2
    try:
        print(f"{names[1]}: {convert(names[0], names[1])} rows")
    except ParquetError as error:
        print(f"searchr1.parquet: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
