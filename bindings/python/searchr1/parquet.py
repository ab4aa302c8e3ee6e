"""Parquet and Arrow to JSON lines, and Parquet back, for data sets published as such:

    python3 -m searchr1.parquet train.parquet train.jsonl
    python3 -m searchr1.parquet train.jsonl train.parquet

The ending tells the direction. An existing file is replaced only with --force. Needs
pyarrow."""

from __future__ import annotations

import json
import os
import sys
from typing import Any, Sequence

from ._rows import lines_of
from ._tables import ParquetError, import_pyarrow
from ._text import replaced


def _write_lines(pyarrow: Any, source: str, part: str) -> int:
    count = 0
    with open(part, "w", encoding="utf-8") as out:
        for line in lines_of(source):
            out.write(line + "\n")
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


def convert(source: str, target: str, force: bool = False) -> int:
    """Write source in the other form to target, which force replaces when all went well.
    The number of rows."""
    writers = {
        (".parquet", ".jsonl"): _write_lines,
        (".arrow", ".jsonl"): _write_lines,
        (".jsonl", ".parquet"): _write_table,
    }
    ends = (os.path.splitext(source)[1], os.path.splitext(target)[1])
    if ends not in writers:
        raise ParquetError(
            "one name must end in .parquet (or, to be read, .arrow) and the other in .jsonl"
        )
    pyarrow = import_pyarrow()
    try:
        with replaced(target, force) as part:
            return writers[ends](pyarrow, source, part)
    except FileExistsError as error:
        raise ParquetError(str(error)) from error
    except (OSError, ValueError, TypeError, pyarrow.ArrowException) as error:
        # of a write that failed only the number is told
        nameless = isinstance(error, OSError) and error.filename is None
        name = f"{source} to {target}" if nameless else source
        raise ParquetError(f"{name}: {error}") from error


def main(arguments: Sequence[str]) -> int:
    names = [name for name in arguments if name != "--force"]
    if len(names) != 2:
        print("usage: python3 -m searchr1.parquet IN OUT [--force]", file=sys.stderr)
        return 2
    try:
        count = convert(names[0], names[1], force=len(names) < len(arguments))
        print(f"{names[1]}: {count} rows")
    except ParquetError as error:
        print(f"searchr1.parquet: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
