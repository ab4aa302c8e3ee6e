"""Run untrusted programs in isolation: here, or by a SandboxFusion service."""

from __future__ import annotations

import ctypes
import dataclasses
import json
import time
from ctypes import byref, c_char_p, c_size_t, sizeof
from typing import Any, Callable, Dict, Iterable, List, Mapping, Optional

from . import _structs
from ._handle import Handle, make
from ._lib import lib
from ._structs import Program, SandboxCounters, SandboxOptions, Submission
from ._text import Text, decode, encode, strings, terminated
from .errors import DeadlineError


@dataclasses.dataclass(frozen=True)
class ExecutionResult:
    """How a run ended. verdict: "passed", "wrong", "runtime error", "timeout", "memory",
    "output", "infrastructure error" or "cancelled"; after the last two nothing is known
    about the program. The rest as in searchr1/ext/sandbox.h."""

    verdict: str
    exit_code: int
    signal: int
    out: bytes
    err: bytes
    message: str
    wall_s: float
    cpu_s: float
    peak_bytes: int
    waited_s: float
    attempts: int
    err_total: int
    accepted: bool

    @property
    def passed(self) -> bool:
        return self.verdict == "passed"

    @property
    def stdout(self) -> str:
        return decode(self.out)

    @property
    def stderr(self) -> str:
        return decode(self.err)


def _result(r: _structs.ExecutionResult) -> ExecutionResult:
    return ExecutionResult(
        verdict=decode(lib.sr1_execution_verdict_name(r.verdict)),
        exit_code=r.exit_code,
        signal=r.signal,
        out=ctypes.string_at(r.out, r.out_bytes),
        err=ctypes.string_at(r.err, r.err_bytes),
        message=decode(r.message),
        wall_s=r.wall_s,
        cpu_s=r.cpu_s,
        peak_bytes=r.peak_bytes,
        waited_s=r.waited_s,
        attempts=r.attempts,
        err_total=r.err_total,
        accepted=bool(r.accepted),
    )


_PIECE = 0.5  # seconds of waiting between which Ctrl-C is heard


def wait_in_pieces(wait: Callable[[float], Any], seconds: float) -> None:
    """wait(seconds) of the library, below 0 without end, where Ctrl-C is heard.
    DeadlineError when it takes longer."""
    end = time.monotonic() + seconds
    while seconds < 0 or end - time.monotonic() > _PIECE:
        try:
            wait(_PIECE)
            return
        except DeadlineError:
            pass
    wait(max(end - time.monotonic(), 0.0))


class Execution(Handle):
    """A run that was started. Closing it, or dropping it, cancels it."""

    _free = "sr1_execution_free"

    def wait(self, seconds: float = -1) -> bool:
        """Wait until it has ended, at most so many seconds (below 0: without end)."""
        try:
            wait_in_pieces(lambda piece: lib.sr1_execution_wait(self, piece), seconds)
        except DeadlineError:
            return False
        return True

    def cancel(self) -> None:
        """End it soon; does not wait."""
        lib.sr1_execution_cancel(self)

    @property
    def result(self) -> ExecutionResult:
        """Once it has ended."""
        r = _structs.ExecutionResult()
        lib.sr1_execution_result_get(self, byref(r))
        return _result(r)

    @property
    def tests(self) -> List[ExecutionResult]:
        """The tests that a service ran for a submission."""
        results = []
        for i in range(lib.sr1_execution_test_count(self)):
            r = _structs.ExecutionResult()
            lib.sr1_execution_test_get(self, i, byref(r))
            results.append(_result(r))
        return results


def _set(struct: Any, values: Mapping[str, Any], what: str) -> None:
    known = {name for name, *_ in struct._fields_}
    for name, value in values.items():
        if name not in known:
            raise TypeError(f"{what} has no option {name!r}")
        try:
            setattr(struct, name, terminated(value) if isinstance(value, str) else value)
        except TypeError as error:
            raise TypeError(f"{what}: {name}: {error}") from None


class Sandbox(Handle):
    """Runs programs: isolated by bubblewrap, or (kind="fusion", url=...) by a service.

    with Sandbox() as box:
        print(box.run("print(int(input()) * 2)", input="21", expected="42").verdict)
        runs = [box.start(code) for code in many]    # side by side
        results = [run.result for run in runs if run.wait()]
    """

    _free = "sr1_sandbox_free"

    def __init__(
        self, kind: str = "local", read_only: Iterable[str] = (), **options: Any
    ) -> None:
        """read_only: folders that programs can read besides /usr. options: further fields
        of sr1_sandbox_options (searchr1/ext/sandbox.h): isolation, concurrency, time_s,
        memory_mib, url, ... UnsupportedError: programs cannot be isolated here."""
        o = SandboxOptions()
        lib.sr1_sandbox_options_init(byref(o))
        o.struct_size = sizeof(o)
        _set(o, options, "Sandbox")
        o.kind = terminated(kind)
        folders = strings(read_only)
        o.read_only, o.n_read_only = folders, len(folders)
        super().__init__(make(lib.sr1_sandbox_open, byref(o)))

    def start(
        self,
        code: Text,
        input: Text = b"",
        expected: Optional[Text] = None,
        language: str = "python",
        args: Iterable[Text] = (),
        files: Optional[Mapping[str, Text]] = None,
        **limits: Any,
    ) -> Execution:
        """Start a program and return at once. expected: its output is compared as by
        judge_output. files: further ones, by path. limits: time_s, cpu_s, memory_mib,
        processes, output_bytes; the sandbox's where left out."""
        p = Program()
        lib.sr1_program_init(byref(p))
        p.struct_size = sizeof(p)
        _set(p, limits, "a program")
        p.language, p.code = terminated(language), terminated(code)
        p.input, p.input_bytes = encode(input), len(encode(input))
        if expected is not None:
            p.expected, p.expected_bytes = encode(expected), len(encode(expected))
        words = strings(args)
        p.args, p.n_args = words, len(words)
        paths = strings((files or {}).keys())
        data = [encode(text) for text in (files or {}).values()]
        p.file_paths, p.n_files = paths, len(paths)
        p.file_bytes = (c_char_p * len(data))(*data)
        p.file_sizes = (c_size_t * len(data))(*map(len, data))
        return Execution(make(self._later(lib.sr1_sandbox_start), byref(p)))

    def submit(
        self, completion: Text, provided_data: Mapping[str, Any], **options: Any
    ) -> Execution:
        """Have a service judge a completion by the tests of provided_data. options: fields
        of sr1_submission: dataset, dataset_type, id, language, extra (a dict), time_s."""
        s = Submission()
        lib.sr1_submission_init(byref(s))
        s.struct_size = sizeof(s)
        texts = {k: json.dumps(v) if isinstance(v, dict) else v for k, v in options.items()}
        _set(s, texts, "a submission")
        s.completion = terminated(completion)
        s.provided_data = json.dumps(provided_data).encode()
        return Execution(make(self._later(lib.sr1_sandbox_submit), byref(s)))

    def run(self, code: Text, **program: Any) -> ExecutionResult:
        """start, and wait until it has ended."""
        with self.start(code, **program) as run:
            run.wait()
            return run.result

    @property
    def description(self) -> str:
        """What runs programs: "bubblewrap, Python 3.11.2 (/usr/bin/python3)"."""
        return decode(lib.sr1_sandbox_describe(self))

    @property
    def counters(self) -> Dict[str, Any]:
        """Counts since it was opened; verdicts by name."""
        c = SandboxCounters()
        lib.sr1_sandbox_counters_get(self, byref(c))
        values = c.as_dict()
        values["verdicts"] = {
            decode(lib.sr1_execution_verdict_name(i)): n for i, n in enumerate(c.verdicts)
        }
        return values

    def _later(self, function: Any) -> Any:
        """The function of a sandbox with its result first, as make calls it."""
        return lambda out, what: function(self, what, out)


def judge_output(expected: Text, got: Text) -> bool:
    """Does an output answer the expected one, as online judges compare?"""
    return bool(lib.sr1_judge_output(terminated(expected), terminated(got)))
