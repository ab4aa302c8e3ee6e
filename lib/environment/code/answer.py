# ---- the process of an answer: it runs it, and calls it as it is told ----
#
# It knows the answer and what it is called with, one call at a time; never a test, nor
# what is expected. So whatever the answer does to this process, it says no more than
# values of its own choice, which are compared elsewhere (judge.py).
#
# Standard input is the socket. What the answer prints goes nowhere.
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
ERROR_MAX = 3000
MUTABLE = b"ldeIo"


def ascii_cut(text, n):
    text = text.encode("ascii", "backslashreplace")
    text = text if len(text) <= n else text[: n // 2] + b" ... " + text[-(n // 2) :]
    return text.decode()


class Answer(Link):
    def __init__(self, fd):
        Link.__init__(self, fd)
        self.module = type(sys)("__main__")
        self.names = self.module.__dict__
        self.names["__builtins__"] = __builtins__
        self.names["__annotations__"] = {}
        self.names["__file__"] = "answer.py"
        self.sources = {}
        sys.modules["__main__"] = self.module
        sys.argv = ["answer.py"]

    # ---- what it is asked ----

    def load(self, pieces, limit, names):
        """Run pieces of code, each a name and its text; what names stand for then."""
        import _signal as signal  # the other one takes 8 ms

        self.sources = {name: text for name, text in pieces if text is not None}
        if limit:
            signal.setitimer(signal.ITIMER_REAL, limit)
        depth = sys.getrecursionlimit()
        sys.setrecursionlimit(depth + 2)  # it is called from deeper down than a function
        for name, text in pieces:
            text = PRELUDE if text is None else text
            exec(compile(text, name, "exec", dont_inherit=True), self.names)
        if sys.getrecursionlimit() == depth + 2:
            sys.setrecursionlimit(depth)
        if limit:
            signal.setitimer(signal.ITIMER_REAL, 0)
        sys.stdout.flush()
        sys.stderr.flush()
        return [self.look(name) for name in names]

    def look(self, name):
        """What a name of the answer's stands for: a kind, and the thing or its name."""
        if name not in self.names:
            return ("none", None)
        value = self.names[name]
        if type(value) is type(sys):
            return ("module", value.__name__)
        return ("value", value)

    def entry(self, name, args):
        holder = self.names.get("Solution")
        if hasattr(holder, name):
            return getattr(holder(), name)(*args)
        return self.names[name](*args)

    def run(self, target, args, named):
        """A call, and what it has changed of its arguments."""
        values = [unpack(a, self.take) for a in args]
        more = {k: unpack(v, self.take) for k, v in named.items()}
        result = target(*values, **more)
        changed = []
        for i, data in enumerate(args):
            if data[0] in MUTABLE and pack(values[i], self.give) != data:
                changed.append((i, values[i]))
        return result, changed

    def do(self, what, *more):
        return DO[what](self, *more)

    def answer(self, message):
        try:
            reply = ("is", self.do(*message))
        except BaseException as error:
            reply = self.described(error)
        try:
            self.send(*reply)
        except Gone:
            raise
        except BaseException as error:  # it cannot be said as it is
            self.send(*self.described(error))

    def serve(self):
        while True:
            message = self.receive()
            if message[0] == "fork":
                self.fork()
            elif message[0] == "reap":
                self.reap(message[1])
            else:
                self.answer(message)

    # ---- each test in a process of its own ----

    def fork(self):
        import _socket

        box = _socket.socket(fileno=os.dup(self.fd))
        _, extra, _, _ = box.recvmsg(1, _socket.CMSG_SPACE(4))
        fd = int.from_bytes(extra[0][2][:4], sys.byteorder)
        box.close()
        self.child = os.fork()
        if self.child:
            os.close(fd)
            return
        os.close(self.fd)
        self.fd = fd

    def reap(self, seconds):
        """The status of that process, which is ended when it takes longer."""
        import _signal as signal  # the other one takes 8 ms

        child = self.child
        before = signal.signal(signal.SIGALRM, lambda *_: os.kill(child, 9))
        signal.setitimer(signal.ITIMER_REAL, max(seconds, 1e-6))
        status = os.waitpid(child, 0)[1]
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        self.send("is", status)

    # ---- errors ----

    def described(self, error):
        kinds = [k.__name__ for k in type(error).__mro__ if k.__module__ == "builtins"]
        code = error.code if isinstance(error, SystemExit) else None
        code = code if type(code) in (int, str) or code is None else str(code)
        try:
            return ("raised", kinds, str(error)[:ERROR_MAX], self.trace(error), code)
        except BaseException:
            return ("raised", kinds, "", type(error).__name__, code)

    def trace(self, error):
        """The frames of the answer's own code, and the error."""
        import linecache
        import traceback

        for name, source in self.sources.items():
            text = source.decode("utf-8", "replace")
            linecache.cache[name] = (len(text), None, text.splitlines(True), name)
        trace = error.__traceback__
        while trace is not None and trace.tb_frame.f_code.co_filename not in self.sources:
            trace = trace.tb_next
        error = error.with_traceback(trace)
        error.__context__ = error.__cause__ = None
        lines = traceback.format_exception(type(error), error, trace)
        return ascii_cut("".join(lines), ERROR_MAX)


def step(_, value):
    try:
        return True, next(value)
    except StopIteration:
        return False, None


DO = {
    "load": Answer.load,
    "look": Answer.look,
    "entry": Answer.entry,
    "call": Answer.run,
    "get": lambda _, value, name: getattr(value, name),
    "set": lambda _, value, name, to: setattr(value, name, to),
    "iter": lambda _, value: iter(value),
    "next": step,
    "len": lambda _, value: len(value),
    "bool": lambda _, value: bool(value),
    "item": lambda _, value, key: value[key],
    "str": lambda _, value: str(value),
    "repr": lambda _, value: repr(value),
    "isinstance": lambda _, value, other: isinstance(other, value),
}


def main():
    null = os.open(os.devnull, os.O_RDWR)
    fd = os.dup(0)
    os.dup2(null, 0)
    os.dup2(null, 1)
    os.close(null)
    # As deep as a program of its own could go.
    sys.setrecursionlimit(sys.getrecursionlimit() + 7)
    answer = Answer(fd)
    try:
        answer.send("is", "ready")
        answer.serve()
    except Gone:
        pass
    if not {"threading", "atexit"} & sys.modules.keys():
        os._exit(0)  # taking the interpreter apart takes 2 ms


main()
