"""Questions with their gold answers, read from files row by row."""

from __future__ import annotations

import json
import operator
import os
import tempfile
from ctypes import byref, c_char_p, c_size_t, c_void_p, string_at
from dataclasses import dataclass
from typing import Any, Dict, Iterator, Optional, Tuple, Union

from . import _rows
from ._handle import Handle, make
from ._lib import lib
from ._structs import DatasetOptions, RecordOptions
from ._text import PathLike, decode, optional, path_bytes, strings, take

PARTS = {"train": 0, "validation": 1, "test": 2}


@dataclass(frozen=True)
class Row:
    """One question."""

    id: str
    question: str
    answers: Tuple[str, ...]
    data_source: str
    fields: Dict[str, Any]  # the whole row
    history: Tuple[Dict[str, str], ...] = ()  # {"role", "content"} before the question

    def as_columns(self) -> Dict[str, Any]:
        """The whole row, with what was read of it under the names that a trainer reads."""
        read = {
            "id": self.id,
            "question": self.question,
            "golden_answers": list(self.answers),
            "data_source": self.data_source,
        }
        if self.history:
            read["history"] = list(self.history)
        return {**self.fields, **read}


def read_lines(path: PathLike) -> Iterator[str]:
    """The lines of a text file, decompressed where its name ends in .zst. What a run is
    still writing is not among them."""
    lines = _Lines(make(lib.sr1_lines_open, path_bytes(path)))
    text, n = c_char_p(), c_size_t()
    with lines:
        while True:
            lib.sr1_lines_next(lines, byref(text), byref(n))
            if text.value is None:
                return
            yield string_at(text, n.value).decode()


class _Lines(Handle):
    _free = "sr1_lines_free"


def _row(pointer: int) -> Row:
    text = c_void_p()
    lib.sr1_row_json(pointer, byref(text))
    count = lib.sr1_row_answer_count(pointer)
    return Row(
        id=decode(lib.sr1_row_id(pointer)),
        question=decode(lib.sr1_row_question(pointer)),
        answers=tuple(decode(lib.sr1_row_answer(pointer, i)) for i in range(count)),
        data_source=decode(lib.sr1_row_data_source(pointer)),
        fields=json.loads(take(text)),
        history=_history(pointer),
    )


def _history(pointer: int) -> Tuple[Dict[str, str], ...]:
    messages = []
    for i in range(lib.sr1_row_history_count(pointer)):
        role = c_char_p()
        text = lib.sr1_row_history(pointer, i, byref(role))
        messages.append({"role": decode(role.value), "content": decode(text)})
    return tuple(messages)


class Dataset(Handle):
    """The rows of .jsonl, .json, .csv and .tsv files, in order; they are read when asked
    for.

    for row in Dataset("train.jsonl"):
        print(row.question, row.answers)
    """

    _free = "sr1_dataset_free"

    def __init__(
        self,
        *paths: PathLike,
        question_field: Optional[str] = None,
        answer_field: Optional[str] = None,
        id_field: Optional[str] = None,
        source_field: Optional[str] = None,
        answers_optional: bool = False,
        check: bool = True,
        history_field: Optional[str] = None,
    ) -> None:
        """None: "question", "golden_answers", "id", "data_source", "history". check: read every row
        at once to find what is wrong with it."""
        options = DatasetOptions(
            question_field=optional(question_field),
            answer_field=optional(answer_field),
            id_field=optional(id_field),
            source_field=optional(source_field),
            answers_optional=answers_optional,
            skip_check=not check,
            history_field=optional(history_field),
        )
        names = strings(path_bytes(path) for path in paths)
        super().__init__(make(lib.sr1_dataset_open, names, len(names), byref(options)))

    @classmethod
    def from_rows(cls, rows: _rows.Rows, name: str = "rows", **options: Any) -> Dataset:
        """The rows of a program: a list or an iterator of mappings, a datasets.Dataset, a
        table of pandas or pyarrow, or a .parquet or .arrow file. name: their data source
        where they have no column for it. options: as of Dataset."""
        with tempfile.TemporaryDirectory(prefix="searchr1-") as folder:
            path = os.path.join(folder, f"{name}.jsonl")
            _rows.write(rows, path)
            return cls(path, **options)  # the open file is read on, without its name

    def write_records(
        self,
        path: PathLike,
        data_source: Optional[str] = None,
        split: Optional[str] = None,
    ) -> None:
        """Write all rows as the records of Search-R1's published code (prompt,
        data_source, reward_model, extra_info), which Dataset reads back. None: each row's
        own data source, "train"."""
        options = RecordOptions(data_source=optional(data_source), split=optional(split))
        lib.sr1_dataset_write_records(self, path_bytes(path), byref(options))

    def part(
        self, name: str, validation: float = 0.0, test: float = 0.0, seed: int = 0
    ) -> Dataset:
        """A part of a seeded split by these fractions: "train", "validation" or "test".
        A row stays in its part when others are added."""
        other = Dataset.__new__(Dataset)
        pointer = make(lib.sr1_dataset_split, self, validation, test, seed, PARTS[name])
        Handle.__init__(other, pointer)
        return other

    def __len__(self) -> int:
        return int(lib.sr1_dataset_count(self))

    def __getitem__(self, index: int) -> Row:
        index = operator.index(index)
        if index < 0:
            index += len(self)
        if not 0 <= index < len(self):
            raise IndexError(f"row {index} of {len(self)}")
        out = c_void_p()
        lib.sr1_dataset_read(self, index, byref(out))
        try:
            return _row(out.value)  # type: ignore[arg-type]
        finally:
            lib.sr1_row_free(out)

    def __iter__(self) -> Iterator[Row]:
        return (self[i] for i in range(len(self)))


def as_dataset(data: Union[Dataset, _rows.Rows]) -> Dataset:
    """A Dataset of whatever holds rows, or the Dataset itself."""
    if isinstance(data, Dataset):
        return data
    return Dataset(data) if _rows.as_file(data) else Dataset.from_rows(data)  # type: ignore
