"""Rows from a program: a list or an iterator of mappings, a datasets.Dataset, a table of
pandas or pyarrow, a .parquet or .arrow file. They become lines of JSON in a file, so the
library reads them as it reads files: one at a time, checked, hashed and resumed by."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import tempfile
from pathlib import Path
from typing import Any, Dict, Iterable, Iterator, List, Mapping, Union

from ._tables import check_names, is_table, read_rows, rows_of
from ._text import PathLike

Rows = Union[PathLike, Iterable[Mapping[str, Any]]]


def is_path(rows: Any) -> bool:
    """A file's name, not rows."""
    return isinstance(rows, (str, bytes, os.PathLike))


def _each(rows: Any) -> Iterable[Any]:
    """Row by row, whatever holds them."""
    if is_path(rows):
        return read_rows(os.fsdecode(rows))
    if isinstance(rows, Mapping):
        raise TypeError(
            f"rows are wanted, and this is a mapping with {', '.join(map(str, rows))}: "
            "choose one split, or give [row] for a single row"
        )
    if hasattr(rows, "iterrows"):  # pandas
        return (_without_gaps(row) for _, row in rows.iterrows())
    if hasattr(rows, "to_batches"):  # pyarrow
        return (row for batch in rows.to_batches() for row in rows_of(batch))
    if not hasattr(rows, "__iter__"):
        raise TypeError(
            "rows are wanted: a file's name, a list or an iterator of mappings, or a table, "
            f"not {type(rows).__name__}"
        )
    return rows  # type: ignore[no-any-return]


def _without_gaps(row: Any) -> Dict[Any, Any]:
    """A row of pandas, whose gaps are NaN, NaT or NA by the column's type: null, as they
    are in the same table's Parquet."""
    columns = list(row.items())
    check_names([name for name, _ in columns])
    return {
        name: value if there else None for (name, value), there in zip(columns, row.notna())
    }


def _plain(value: Any) -> Any:
    """What JSON has no form for: numbers and arrays of numpy, dates."""
    if hasattr(value, "tolist"):
        return value.tolist()
    if hasattr(value, "isoformat"):
        if value != value:  # NaT of pandas
            raise ValueError("NaT is no date; give None for a gap")
        return value.isoformat()
    raise TypeError(f"{type(value).__name__} has no form in JSON; turn it into text")


_MANY_DIGITS = re.compile("[0-9]{19}")


def _refuse_big(value: Any) -> None:
    """JSON of the library has whole numbers of 64 bits."""
    if isinstance(value, (list, dict)):
        for one in value.values() if isinstance(value, dict) else value:
            _refuse_big(one)
    elif isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise ValueError(f"{value} is a whole number of more than 64 bits; give it as text")


def _dump(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, default=_plain)
    if _MANY_DIGITS.search(text):
        _refuse_big(json.loads(text))
    return text


def _column(row: Mapping[Any, Any]) -> str:
    """Which column of a row it is that has no form in JSON; "" if it is none alone."""
    for name, value in row.items():
        try:
            _dump({name: value})
        except (TypeError, ValueError):
            return f", column {name!r}"
    return ""


def _line(number: int, row: Any) -> str:
    if hasattr(row, "as_columns"):  # of searchr1.Dataset
        row = row.as_columns()
    if not isinstance(row, Mapping):
        raise TypeError(f"row {number} is no mapping of columns: {row!r:.80}")
    try:
        return _dump(dict(row))
    except (TypeError, ValueError) as error:
        raise type(error)(f"row {number}{_column(row)}: {error}") from None


def lines_of(rows: Any) -> Iterator[str]:
    """Each row as a line of JSON, without its end."""
    return (_line(number, row) for number, row in enumerate(_each(rows)))


def _utf8(text: str) -> bytes:
    """Half a surrogate pair is U+FFFD, as it is where a file has it as an escape."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        whole = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        return whole.encode()


def write(rows: Any, path: PathLike) -> str:
    """Write rows to a file; the hash of what is in it."""
    digest = hashlib.sha256()
    with open(path, "xb") as file:
        for line in lines_of(rows):
            data = _utf8(line + "\n")
            digest.update(data)
            file.write(data)
    if file_is_empty(path):
        raise ValueError("there are no rows; an iterator can be read once only")
    return digest.hexdigest()[:16]


def file_is_empty(path: PathLike) -> bool:
    return os.path.getsize(path) == 0


def as_file(rows: Any) -> bool:
    """The name of a file that the library itself reads."""
    return is_path(rows) and not is_table(os.fsdecode(rows))


_users: Dict[Path, int] = {}  # objects of this process that keep a file
_made: Dict[Path, List[Path]] = {}  # files it has made, with the folders it made for them


class Kept:
    """Rows in the folder of a run, so that it goes on without the program that had them:
    RUN/rows/HASH/NAME.jsonl."""

    def __init__(self, rows: Any, run_folder: PathLike, name: str) -> None:
        place = Path(os.path.abspath(os.fsdecode(run_folder)), "rows")
        made = [folder for folder in (place, place.parent) if not folder.exists()]
        place.mkdir(parents=True, exist_ok=True)
        part = Path(tempfile.mkdtemp(prefix=".part-", dir=place))
        try:
            self.hash = write(rows, part / f"{name}.jsonl")
            self.folder = place / self.hash
            self.path = self.folder / f"{name}.jsonl"
            if not self.path.exists():
                self.folder.mkdir(exist_ok=True)
                os.replace(part / f"{name}.jsonl", self.path)
                _made[self.path] = made
        except BaseException:
            shutil.rmtree(part)
            _remove_empty(made)
            raise
        shutil.rmtree(part)
        _users[self.path] = _users.get(self.path, 0) + 1
        self._uses = True

    def forget(self) -> None:
        """Remove the file, unless it was there before, a run has begun to use it, or
        another object of this process still does."""
        run = self.folder.parent.parent
        if not self._uses:
            return
        self._uses = False
        _users[self.path] -= 1
        if _users[self.path] > 0:
            return
        del _users[self.path]
        made = _made.pop(self.path, None)
        if made is None or (run / "config.json").exists():
            return
        shutil.rmtree(self.folder, ignore_errors=True)
        _remove_empty(made)


def _remove_empty(folders: List[Path]) -> None:
    for folder in folders:
        try:
            folder.rmdir()
        except OSError:
            return


def check_same(run_folder: PathLike, name: str, given: str, recorded: Any) -> None:
    """The rows of a run that goes on, by their hash, are those it began with."""
    names = [recorded] if isinstance(recorded, str) else list(recorded or [])
    hashes = [Path(name).parent.name for name in names]
    if hashes != [given]:
        raise ValueError(
            f"{os.fsdecode(run_folder)} began with other rows for {name} (hash "
            f"{', '.join(hashes) or 'none'}, these have {given}); give those, or none: the "
            "run has kept them"
        )
