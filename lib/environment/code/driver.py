# Runs an answer and its tests; embedded in the library and run in a sandbox.
#
# Standard input: a line "NONCE MODE STYLE UNWRAP LIMIT TESTS FALLBACK", then texts, each as its
# length on a line and its bytes: code to run before the answer, the answer, code to run
# after it, the function to call, and of each test its input and what is expected.
#
# Mode "all": the tests run one after the other as they would below the answer in one file,
# up to the first that fails. Mode "each": each runs in a child of the process that has run
# the answer, within LIMIT seconds.
#
# Standard output: of each test that was run NONCE and a letter (P passed, W wrong, R error,
# M memory, T time); in mode "all" only of those that passed. Then a line end; NONCE, the
# letter of the first that failed (else P), the lengths of two texts on that line, and the
# texts: what was returned, and a traceback. What the answer prints goes nowhere, and it
# ends no test by leaving early: only NONCE, which it is not told, says that a test is done.
import os
import sys
from os import write

GOT_MAX = 1000
ERROR_MAX = 3000
PRELUDE = """
import sys, math, re, string, heapq, bisect, itertools, functools, collections, operator
from typing import *
from collections import *
from heapq import *
from bisect import *
from itertools import *
from functools import *
from math import *
from builtins import *
"""


def read_all():
    pieces = []
    while True:
        piece = os.read(0, 1 << 20)
        if not piece:
            return b"".join(pieces)
        pieces.append(piece)


def cut(data):
    head, at = data.split(b"\n", 1)[0], data.index(b"\n") + 1
    texts = []
    while at < len(data):
        end = data.index(b"\n", at)
        n = int(data[at:end])
        texts.append(data[end + 1 : end + 1 + n])
        at = end + 1 + n
    return head.decode().split(), texts


def ascii_cut(text, n):
    text = text.encode("ascii", "backslashreplace")
    return text if len(text) <= n else text[: n // 2] + b" ... " + text[-(n // 2) :]


class Wrong(Exception):
    pass


def plain(value):
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    return value


class Runner:
    def __init__(self, style, unwrap, texts):
        self.style = style
        self.unwrap = unwrap
        self.before, self.answer, self.after, entry = texts[:4]
        self.entry = entry.decode()
        self.tests = [(texts[i], texts[i + 1]) for i in range(4, len(texts), 2)]
        self.module = type(sys)("__main__")
        self.names = self.module.__dict__
        self.names["__builtins__"] = __builtins__
        self.names["__annotations__"] = {}
        self.names["__file__"] = "answer.py"
        self.got = ""
        sys.modules["__main__"] = self.module
        sys.argv = ["answer.py"]

    def load(self):
        if self.style == "call":
            exec(compile(PRELUDE, "prelude", "exec", dont_inherit=True), self.names)
        if self.before:
            exec(compile(self.before, "prelude", "exec", dont_inherit=True), self.names)
        exec(compile(self.answer, "answer.py", "exec", dont_inherit=True), self.names)
        if self.after:
            exec(compile(self.after, "setup", "exec", dont_inherit=True), self.names)

    def run(self, i):
        if self.style == "call":
            self.call(*self.tests[i])
        else:
            exec(compile(self.tests[i][0], "test", "exec", dont_inherit=True), self.names)

    def call(self, args, expected):
        import json

        args, expected = json.loads(args), json.loads(expected)
        holder = self.names.get("Solution")
        if hasattr(holder, self.entry):
            function = getattr(holder(), self.entry)
        else:
            function = self.names[self.entry]
        result = function(*args)
        found = plain(result)
        if found == expected or (self.unwrap and [found] == expected):
            return
        self.got = repr(result)
        raise Wrong("expected %s" % (ascii_cut(repr(expected), GOT_MAX).decode(),))

    def letter(self, error):
        if isinstance(error, MemoryError):
            return b"M"
        if isinstance(error, Wrong):
            return b"W"
        last = error.__traceback__
        while last is not None and last.tb_next is not None:
            last = last.tb_next
        in_test = last is not None and last.tb_frame.f_code.co_filename == "test"
        return b"W" if isinstance(error, AssertionError) and in_test else b"R"

    def look_again(self, i):
        """What stood before == in a test that failed."""
        import ast

        body = ast.parse(self.tests[i][0]).body
        if len(body) != 1 or not isinstance(body[0], ast.Assert):
            return
        test = body[0].test
        if isinstance(test, ast.Compare) and len(test.ops) == 1:
            left = compile(ast.Expression(test.left), "test", "eval")
            self.got = repr(eval(left, self.names))

    def explain(self, error, i):
        import linecache
        import traceback

        sources = {"answer.py": self.answer, "prelude": self.before, "setup": self.after}
        if i < len(self.tests):
            sources["test"] = self.tests[i][0]
        for name, source in sources.items():
            text = source.decode("utf-8", "replace")
            linecache.cache[name] = (len(text), None, text.splitlines(True), name)
        if isinstance(error, Wrong):
            return str(error)
        trace = error.__traceback__
        while trace is not None and trace.tb_frame.f_code.co_filename not in sources:
            trace = trace.tb_next
        error = error.with_traceback(trace)
        error.__context__ = error.__cause__ = None
        return "".join(traceback.format_exception(type(error), error, trace))

    def outcome(self, i):
        """Letter, what was returned, and what went wrong."""
        try:
            self.run(i)
            return b"P", b"", b""
        except BaseException as error:
            return self.failure(error, i)

    def failure(self, error, i):
        letter, why = self.letter(error), ""
        if isinstance(error, SystemExit):
            why = "it ended before its tests did (exit code %s)" % (error.code,)
        else:
            try:
                why = self.explain(error, i)
                if letter == b"W" and self.style != "call":
                    self.look_again(i)
            except BaseException:
                pass
        return letter, ascii_cut(self.got, GOT_MAX), ascii_cut(why, ERROR_MAX)


def trailer(nonce, letter, got, error):
    head = b"%s%s %d %d\n" % (nonce, letter, len(got), len(error))
    return b"\n" + head + got + error


def write_all(fd, data):
    while data:
        data = data[write(fd, data) :]


def run_all(runner, out, nonce):
    try:
        runner.load()
    except BaseException as error:
        write_all(out, trailer(nonce, *runner.failure(error, len(runner.tests))))
        return
    for i in range(len(runner.tests)):
        letter, got, error = runner.outcome(i)
        if letter != b"P":
            write_all(out, trailer(nonce, letter, got, error))
            return
        write_all(out, nonce + b"P")
    write_all(out, trailer(nonce, b"P", b"", b""))


def receive(pid, pipe, limit):
    """All that a child writes, and its status; None when it takes too long."""
    import select
    import time

    end = time.monotonic() + limit
    data, status, open_, most = b"", None, True, GOT_MAX + ERROR_MAX + 1000
    poll = select.poll()
    poll.register(pipe, select.POLLIN)
    while status is None or open_:
        left = end - time.monotonic()
        if left <= 0 and status is None:
            os.kill(pid, 9)
            os.waitpid(pid, 0)
            return data, None
        if open_ and poll.poll(min(max(left, 0), 0.05) * 1000):
            piece = os.read(pipe, 1 << 16)
            data, open_ = (data + piece)[:most], bool(piece)
        elif status is not None:
            break
        elif not open_:
            time.sleep(0.001)
        if status is None:
            done, code = os.waitpid(pid, os.WNOHANG)
            status = code if done else None
        elif left <= 0:  # what it left behind writes on
            break
    return data, status


def run_each(runner, out, nonce, limit):
    import signal

    signal.setitimer(signal.ITIMER_REAL, limit)
    try:
        runner.load()
    except BaseException as error:
        letter, got, why = runner.failure(error, len(runner.tests))
        write_all(out, (nonce + letter) * len(runner.tests))
        write_all(out, trailer(nonce, letter, got, why))
        return
    signal.setitimer(signal.ITIMER_REAL, 0)
    sys.stdout.flush()
    sys.stderr.flush()
    first = b"P", b"", b""
    for i in range(len(runner.tests)):
        r, w = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(r)
            os.close(out)
            letter, got, why = runner.outcome(i)
            head = b"%s%s %d %d\n" % (nonce, letter, len(got), len(why))
            write_all(w, head + got + why)
            os.close(w)
            return
        os.close(w)
        data, status = receive(pid, r, limit)
        os.close(r)
        result = b"R", b"", b"it ended before its test did"
        if status is None:
            result = b"T", b"", b"time limit"
        elif data.startswith(nonce) and b"\n" in data:
            head, body = data[len(nonce) :].split(b"\n", 1)
            letter, n, m = head.split()
            if letter != b"P" or status == 0:
                result = letter, body[: int(n)], body[int(n) : int(n) + int(m)]
        write_all(out, nonce + result[0])
        if first[0] == b"P":
            first = result
    write_all(out, trailer(nonce, *first))


def main():
    (nonce, mode, style, unwrap, limit, *_), texts = cut(read_all())
    null = os.open(os.devnull, os.O_RDWR)
    out = os.dup(1)
    os.dup2(null, 0)
    os.dup2(null, 1)
    os.close(null)
    runner = Runner(style, unwrap == "1", texts)
    # As deep as a program of its own could go.
    sys.setrecursionlimit(sys.getrecursionlimit() + 6)
    if mode == "all":
        run_all(runner, out, nonce.encode())
    else:
        run_each(runner, out, nonce.encode(), float(limit))


main()
