"""Code problems, programs in a model's text, and running them against tests."""

from __future__ import annotations

import base64
import io
import json
import pickle
import zlib
from ctypes import byref, c_int32, c_size_t, c_void_p
from dataclasses import dataclass
from typing import Any, Iterator, Mapping, Optional, Sequence, Tuple, Union

from ._handle import Handle, make
from ._lib import lib
from ._structs import (
    CheckerOptions,
    CheckerStats,
    CheckReport,
    JudgementScores,
    ProblemCase,
    ProblemsOptions,
)
from ._text import PathLike, Text, decode, encode, optional, path_bytes, strings, take
from ._text import replaced, terminated, text_at
from .config import Config, as_config
from .sandbox import Sandbox, wait_in_pieces

STYLES = ("assert", "stdio", "call")
FOUND = ("fenced", "open_fence", "whole")
JUDGEMENTS = ("none", "correct", "incorrect")
VERDICTS = {
    0: "passed",
    1: "wrong",
    2: "runtime error",
    3: "timeout",
    4: "memory",
    5: "output",
    6: "infrastructure error",
    7: "cancelled",
    64: "skipped",
}
_FORMS = {"text": 0, "program": 1}


# ---- problems ----


@dataclass(frozen=True)
class Problem:
    """A task with its tests: pairs of input and what is expected ("assert": a statement
    and "")."""

    id: str
    text: str
    style: str  # one of STYLES
    tests: Tuple[Tuple[str, str], ...]
    prompt: str  # what a model is asked for a solution
    solution: Optional[str]  # the answer to be criticised
    reference: Optional[str]  # one that passes
    entry_point: Optional[str]
    data_source: str
    time_limit: float


def _maybe(text: Optional[bytes]) -> Optional[str]:
    return None if text is None else decode(text)


def _tests(pointer: int) -> Iterator[Tuple[str, str]]:
    case = ProblemCase()
    for i in range(lib.sr1_problem_test_count(pointer)):
        lib.sr1_problem_test(pointer, i, byref(case))
        yield (
            text_at(case.input, case.input_len),
            text_at(case.expected, case.expected_len),
        )


def _problem(pointer: int) -> Problem:
    prompt = c_void_p()
    lib.sr1_problem_prompt(pointer, byref(prompt))
    return Problem(
        id=decode(lib.sr1_problem_id(pointer)),
        text=decode(lib.sr1_problem_text(pointer)),
        style=STYLES[lib.sr1_problem_style(pointer)],
        tests=tuple(_tests(pointer)),
        prompt=take(prompt),
        solution=_maybe(lib.sr1_problem_solution(pointer)),
        reference=_maybe(lib.sr1_problem_reference(pointer)),
        entry_point=_maybe(lib.sr1_problem_entry_point(pointer)),
        data_source=decode(lib.sr1_problem_data_source(pointer)),
        time_limit=lib.sr1_problem_time_limit(pointer),
    )


class Problems(Handle):
    """The problems of JSONL files, by number or id.

    problems = Problems("mbpp.jsonl")
    print(problems["2"].prompt)
    """

    _free = "sr1_problems_free"

    def __init__(
        self,
        *paths: PathLike,
        rows: Sequence[Mapping[str, Any]] = (),
        shape: Optional[str] = None,
        max_tests: int = 0,
        time_limit: float = 0.0,
    ) -> None:
        """rows: problems in place of files. shape: of the rows; None: seen from each."""
        o = ProblemsOptions(
            shape=optional(shape), max_tests=max_tests, time_limit=time_limit
        )
        if paths:
            names = strings(path_bytes(path) for path in paths)
            pointer = make(lib.sr1_problems_load, names, len(names), byref(o))
        else:
            text = "\n".join(map(json.dumps, rows)).encode()
            pointer = make(lib.sr1_problems_parse, text, len(text), b"rows", byref(o))
        super().__init__(pointer)

    def __len__(self) -> int:
        return int(lib.sr1_problems_count(self))

    @property
    def left_out(self) -> int:
        """Rows without tests, which APPS and TACO have."""
        return int(lib.sr1_problems_left_out(self))

    def _at(self, which: Union[int, str]) -> int:
        if isinstance(which, str):
            pointer = lib.sr1_problems_find(self, terminated(which))
        else:
            pointer = lib.sr1_problems_at(self, which + len(self) * (which < 0))
        if pointer is None:
            kind = KeyError if isinstance(which, str) else IndexError
            raise kind(which)
        return int(pointer)

    def __getitem__(self, which: Union[int, str]) -> Problem:
        return _problem(self._at(which))

    def __iter__(self) -> Iterator[Problem]:
        return (self[i] for i in range(len(self)))


# ---- texts ----


def extract(text: Text) -> Tuple[str, str]:
    """(program, where it was found: one of FOUND) of a model's answer."""
    data, out, n, found = encode(text), c_void_p(), c_size_t(), c_int32()
    lib.sr1_code_extract(data, len(data), byref(out), byref(n), byref(found))
    return take(out, n.value), FOUND[found.value]


def judgement(text: Text) -> str:
    """What a critique says of its answer: one of JUDGEMENTS."""
    data = encode(text)
    return JUDGEMENTS[lib.sr1_critique_judgement(data, len(data))]


def critique(text: Text) -> str:
    """The critique in a model's text."""
    data, begin, n = encode(text), c_size_t(), c_size_t()
    lib.sr1_critique_text(data, len(data), byref(begin), byref(n))
    return decode(data[begin.value : begin.value + n.value])


@dataclass(frozen=True)
class JudgementScore:
    """How well critiques tell correct answers from incorrect ones."""

    n: int
    none: int  # without a judgement: counted as wrong
    accuracy: float
    f1: float  # of "correct"
    f1_incorrect: float


def judgement_score(
    judgements: Sequence[str], correct: Sequence[Optional[bool]]
) -> JudgementScore:
    """judgements: JUDGEMENTS; correct: does the answer pass its tests, None: unknown."""
    n = len(judgements)
    if n != len(correct):
        raise ValueError(f"{n} judgements of {len(correct)} answers")
    said = (c_int32 * n)(*map(JUDGEMENTS.index, judgements))
    true = (c_int32 * n)(*(-1 if c is None else int(c) for c in correct))
    out = JudgementScores()
    lib.sr1_judgement_score(said, true, n, byref(out))
    return JudgementScore(**out.as_dict())


# ---- running ----


@dataclass(frozen=True)
class Report:
    """What the tests of an answer gave."""

    verdict: str  # one of VERDICTS: of the first test that failed, else "passed"
    verdicts: Tuple[str, ...]  # of each test
    tests: int
    passed: int
    pass_rate: float
    first_failed: int  # -1: none
    cached: bool
    seconds: float
    got: str  # of the first test that failed: its output, or what was returned
    error: str
    judged_inside: bool  # by the answer's own process, which can say anything


class Check(Handle):
    """An answer that is being run."""

    _free = "sr1_check_free"

    @property
    def done(self) -> bool:
        return bool(lib.sr1_check_done(self))

    def cancel(self) -> None:
        lib.sr1_check_cancel(self)

    def wait(self, seconds: float = -1.0) -> Report:
        """The report, once it has ended; errors.DeadlineError when it takes longer."""
        wait_in_pieces(lambda piece: lib.sr1_check_wait(self, piece), seconds)
        r = CheckReport()
        lib.sr1_check_report_get(self, byref(r))
        each = (lib.sr1_check_verdict(self, i) for i in range(r.tests))
        fields = dict(r.as_dict(), got=decode(r.got), error=decode(r.error))
        fields.update(
            verdict=VERDICTS[r.verdict],
            cached=bool(r.cached),
            judged_inside=bool(r.judged_inside),
        )
        return Report(verdicts=tuple(VERDICTS[v] for v in each), **fields)


class Checker(Handle):
    """Runs answers against the tests of their problems, in a sandbox.

    checker = Checker(execution_score="pass_rate")
    print(checker.run(problems, "2", answer).pass_rate)
    """

    _free = "sr1_checker_free"

    def __init__(
        self,
        config: Optional[Union[Config, PathLike, Mapping[str, Any]]] = None,
        box: Optional[Sandbox] = None,
        **keys: Any,
    ) -> None:
        """keys: of a configuration: sandbox, execution_score, execution_cache, ..., which
        win over those of config. box: a
        sandbox of your own in place of the one the keys name."""
        given = as_config(dict(keys) if config is None else config)
        if config is not None and keys:
            given = given.copy()
            given.update(keys)
        if box is None:
            super().__init__(make(lib.sr1_checker_open, given))
            return
        folder = str(given["execution_cache"])
        options = CheckerOptions(
            all_or_nothing=int(given["execution_score"] == "all"),
            time_limit=given["execution_time_limit"],
            cache_folder=path_bytes(folder) if folder else None,
            judge=encode(given["code_judge"]),
        )
        super().__init__(make(lib.sr1_checker_new, box, byref(options)))

    def submit(
        self,
        problems: Problems,
        which: Union[int, str],
        answer: Text,
        form: str = "text",
    ) -> Check:
        """Begin to run the program in an answer (form "program": the answer is one)."""
        data = encode(answer)
        out = c_void_p()
        lib.sr1_checker_submit(
            self, problems._at(which), _FORMS[form], data, len(data), byref(out)
        )
        assert out.value is not None
        return Check(out.value)

    def run(
        self,
        problems: Problems,
        which: Union[int, str],
        answer: Text,
        form: str = "text",
    ) -> Report:
        with self.submit(problems, which, answer, form) as check:
            return check.wait()

    @property
    def stats(self) -> Mapping[str, Any]:
        """checks, cached, programs, infrastructure, seconds, judged_inside."""
        s = CheckerStats()
        lib.sr1_checker_stats_get(self, byref(s))
        return s.as_dict()


# ---- LiveCodeBench ----


UNPACKED_MAX = 1 << 30  # bytes of a row's tests


class _TextOnly(pickle.Unpickler):
    """Reads a pickled text and nothing else."""

    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError(f"{module}.{name} is no text")


def _inflate(packed: bytes) -> bytes:
    stream = zlib.decompressobj()
    data = stream.decompress(packed, UNPACKED_MAX)
    if stream.unconsumed_tail:
        raise ValueError(f"tests of more than {UNPACKED_MAX >> 20} MiB")
    if not stream.eof:
        raise zlib.error("the compressed tests are cut off")
    return data


def _unpickle(data: bytes) -> str:
    try:
        text = _TextOnly(io.BytesIO(data)).load()
    except pickle.UnpicklingError:
        raise
    except Exception as error:  # pickle raises many
        raise pickle.UnpicklingError(f"{type(error).__name__}: {error}") from error
    if not isinstance(text, str):
        raise pickle.UnpicklingError(f"{type(text).__name__} is no text")
    return text


def _unpacked(line: str) -> Any:
    """The row of a line, its private tests unpacked."""
    row = json.loads(line)
    if not isinstance(row, dict):
        raise ValueError("the row is no object")
    tests = row.get("private_test_cases")
    if isinstance(tests, str) and not tests.lstrip().startswith("["):
        packed = base64.b64decode(tests, validate=True)
        row["private_test_cases"] = json.loads(_unpickle(_inflate(packed)))
    return row


def unpack_livecodebench(source: PathLike, target: PathLike, force: bool = False) -> int:
    """Copy rows of LiveCodeBench with their compressed private tests unpacked; returns
    how many. force replaces a target that exists, when all went well. In a shell:
    python3 -m searchr1.livecodebench SOURCE TARGET [--force]"""
    count = 0
    with replaced(target, force) as part, open(source, encoding="utf-8") as rows, open(
        part, "w", encoding="utf-8"
    ) as out:
        for number, line in enumerate(rows, 1):
            if not line.strip():
                continue
            try:
                row = _unpacked(line)
            except (ValueError, pickle.UnpicklingError, zlib.error) as error:
                error.args = (f"line {number}: {error}",)
                raise
            out.write(json.dumps(row) + "\n")
            count += 1
    return count
