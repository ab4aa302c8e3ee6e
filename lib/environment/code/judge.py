# ---- the process of the tests: it runs them, and never an answer ----
#
# A server: each message on standard input comes with three descriptors, the socket of a
# process that runs an answer (answer.py), a file with the tests and a pipe for the
# report; a child of its own works on them. What a test calls by the name of a function
# of the answer is a Far: arguments go over, plain data comes back, and what is expected
# stays here.
#
# The file: a line "NONCE MODE STYLE UNWRAP LIMIT TESTS FALLBACK MEMORY", then texts, each
# as its length on a line and its bytes: code to run before the answer, the answer, code to run
# after it, the function to call, and of each test its input and what is expected.
#
# The report: of each test that was run NONCE and a letter (P passed, W wrong, R error, M
# memory, T time, I: only the answer's own process could say). In mode "all" only of those
# that passed. Then a line end; NONCE, the letter of the first that failed (else P; E: the
# process has ended), the lengths of two texts on that line, and the texts: what was
# returned, and a traceback. When a child ends without that, the server adds NONCE and
# "D" with the signal that ended it in three digits (000: none), or "F" with the error
# number when there was no child.
import ast
import gc
import importlib
import json
import linecache
import marshal
import re
import resource
import _signal as signal  # the other one makes enums of all it returns
import socket
import traceback

NONCE = 32
GOT_MAX = 1000
ERROR_MAX = 3000
GRACE_S = 2.0  # the sandbox of the answer ends it first
OWN_MEMORY = 1 << 28  # besides what values take, as much as the answer may
EXPORTING = """math cmath collections itertools functools operator heapq bisect string re
copy random statistics decimal fractions datetime typing""".split()
BUILTINS = frozenset(dir(builtins))
EXPORTS = {n: m for m in EXPORTING for n in dir(importlib.import_module(m)) if n[0] != "_"}
PLAIN = frozenset().union(*map(dir, (str, bytes, int, float, complex, tuple, frozenset)))


class OutOfTime(BaseException):
    pass


class Inside(Exception):
    """Only the answer's own process could say."""


class Wrong(Exception):
    pass


def ascii_cut(text, n):
    text = text.encode("ascii", "backslashreplace")
    return text if len(text) <= n else text[: n // 2] + b" ... " + text[-(n // 2) :]


def cut(data):
    head, at = data.split(b"\n", 1)[0], data.index(b"\n") + 1
    texts = []
    while at < len(data):
        end = data.index(b"\n", at)
        n = int(data[at:end])
        texts.append(data[end + 1 : end + 1 + n])
        at = end + 1 + n
    return head.decode().split(), texts


# ---- names ----


def parsed(code):
    try:
        return ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ast.Module([], [])


def bound(tree):
    """Names that code gives a meaning itself."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            names.add(node.id)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            names.add(node.name)
        elif isinstance(node, ast.arg):
            names.add(node.arg)
        elif isinstance(node, ast.alias):
            names.add((node.asname or node.name).split(".")[0])
    return names


def innermost(tree):
    """The function of the call that is evaluated first."""
    for child in ast.iter_child_nodes(tree):
        found = innermost(child)
        if found:
            return found
    called = isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name)
    return tree.func.id if called else None


def is_common(name):
    return name in BUILTINS or name in EXPORTS or name in sys.stdlib_module_names


def names_in(code):
    """All that a piece of code looks up, and names of attributes."""
    names = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, type(code)):
            names |= names_in(constant)
    return names


def compiled(test):
    """Its code; as it is when it has none, and fails when it is run."""
    try:
        return compile(test, "test", "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return test


def asked_for(entry, test, code):
    """Names of the answer's, as the first test shows: those that nothing else gives a
    meaning; and the function that a problem asks for, even where the language has one of
    that name."""
    if code is test:
        return {entry} if entry else set()
    theirs = {name for name in names_in(code) if not is_common(name)}
    if entry:
        return theirs | {entry}
    tree = ast.parse(test)
    return theirs if theirs - bound(tree) else theirs | {innermost(tree)}


class Names(dict):
    """The name space of tests: theirs, then the language's, then the answer's."""

    def __init__(self, link, asked):
        dict.__init__(self, __name__="__main__", __builtins__=builtins)
        self.link = link
        self.asked = asked

    def __missing__(self, name):
        if name in BUILTINS and name not in self.asked:
            raise KeyError(name)
        kind, value = self.link.seen.get(name) or self.link.look(name)
        if kind == "none":
            raise KeyError(name)
        if is_common(name) and name not in self.asked:
            return self.common(name)
        return self.module(value) if kind == "module" else value

    def common(self, name):
        if name in sys.stdlib_module_names:
            return importlib.import_module(name)
        return getattr(importlib.import_module(EXPORTS[name]), name)

    def module(self, name):
        if type(name) is not str or not re.fullmatch(r"[A-Za-z]\w*(\.[A-Za-z]\w*)*", name):
            raise Gone("a module")
        try:
            return importlib.import_module(name)
        except ImportError:
            raise KeyError(name) from None


# ---- the answer, from here ----


def renew(old, new):
    """old with the content of new, as far as it can be changed in place."""
    if type(old) is not type(new):
        return new
    if type(old) is list:
        old[:] = [renew(*pair) for pair in zip(old, new)] + new[len(old) :]
    elif isinstance(old, dict):
        more = {k: renew(old[k], v) if k in old else v for k, v in new.items()}
        old.clear()
        old.update(more)
    elif type(old) is set:
        old.clear()
        old.update(new)
    elif type(old).__name__ in ("deque", "bytearray"):
        old.clear()
        old.extend(new)
    else:
        return new
    return old


class AnswerLink(Link):
    def __init__(self, fd, fallback):
        Link.__init__(self, fd)
        self.fallback = fallback
        self.objects = 0  # that came in place of plain data
        self.seen = {}  # functions and classes by their names
        self.got = None  # what came last, in a tuple

    def take(self, mark, number):
        self.objects += mark == "h"
        return Link.take(self, mark, number)

    def meaning(self, found):
        if type(found) is not tuple or len(found) != 2:
            raise Gone("what a name stands for")
        return found

    def look(self, name):
        found = self.meaning(self.ask("look", name))
        self.objects -= isinstance(found[1], Far)
        return found

    def load(self, pieces, limit, names):
        found = self.ask("load", pieces, limit, names)
        if type(found) is not list or len(found) != len(names):
            raise Gone("what names stand for")
        for name, value in zip(names, found):
            if isinstance(self.meaning(value)[1], Far):
                self.seen[name] = value
        self.objects = 0

    def of_child(self, fd):
        """A link to a copy of the process."""
        link = AnswerLink(fd, self.fallback)
        for name, (kind, far) in self.seen.items():
            link.seen[name] = (kind, Far(link, hash(far)))
        return link

    def call(self, target, args, named):
        packed = [pack(a, self.give) for a in args]
        more = {k: pack(v, self.give) for k, v in named.items()}
        reply = self.ask(*target, packed, more)
        if type(reply) is not tuple or len(reply) != 2 or type(reply[1]) is not list:
            raise Gone("a result")
        for i, changed in reply[1]:
            renew(args[i], changed)
        self.got = (reply[0],)
        return reply[0]

    def allow(self, name):
        """What plain data says of itself no object may say in its place."""
        if name.startswith("__") or name in PLAIN:
            raise Inside("the test asks an object of the answer for its '%s'" % name)

    def same(self, far, other):
        if isinstance(other, Far):
            raise Inside("the test compares two objects of the answer")
        return False

    def answer(self, message):
        """The answer calls what the test has given it: functions, and what is not
        private of objects of the test's own classes."""
        try:
            reply = ("is", self.do(*message))
        except (Gone, OutOfTime, Inside):
            raise
        except BaseException as error:
            kinds = [k.__name__ for k in type(error).__mro__ if k.__module__ == "builtins"]
            reply = ("raised", kinds, str(error)[:ERROR_MAX], "", None)
        self.send(*reply)

    def do(self, what, value, *more):
        own = type(value).__module__ == "__main__"
        if id(value) not in self.numbers:
            raise TypeError("the test has not given it")
        if what == "call":
            args, named = more
            return value(*args, **named)
        if what == "iter":
            return iter(value)
        if what == "next":
            try:
                return True, next(value)
            except StopIteration:
                return False, None
        if what == "bool":
            return bool(value)
        if what in ("get", "set") and own and more[0][:1] not in ("", "_"):
            return getattr(value, more[0]) if what == "get" else setattr(value, *more)
        raise TypeError("an object of the test has no such operation")


def plain(value):
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    return value


# ---- the tests ----


class Runner:
    def __init__(self, head, texts, fd):
        self.nonce, self.mode, self.style, unwrap, limit, _, fallback, memory = head
        self.unwrap = unwrap == "1"
        self.limit = float(limit)
        self.fallback = fallback == "any"
        self.memory = int(memory)
        self.before, self.program, self.after, entry = texts[:4]
        self.entry = entry.decode()
        self.tests = [(texts[i], texts[i + 1]) for i in range(4, len(texts), 2)]
        self.link = AnswerLink(fd, self.fallback)
        self.asked = set()
        if self.style != "call":
            test = self.tests[0][0]
            self.first = compiled(test)  # the others are where they are run
            self.asked = asked_for(self.entry, test, self.first)

    # ---- running ----

    def imports(self):
        """What the code behind the answer imports, which the answer sees too."""
        kept = (ast.Import, ast.ImportFrom)
        body = [n for n in parsed(self.after).body if isinstance(n, kept)]
        return ast.unparse(ast.Module(body, [])).encode()

    def load(self):
        pieces = [("prelude", self.before), ("answer.py", self.program)]
        if self.style == "call":
            pieces.insert(0, ("language", None))
        if self.after:
            pieces.append(("setup", self.imports()))
        limit = self.limit if self.mode == "each" else 0
        self.link.load(pieces, limit, sorted(self.asked))

    def begin(self, link):
        """The name space of a test, or of all."""
        self.link = link
        self.names = Names(link, self.asked)
        if self.style == "call":
            return
        for name, code in (("prelude", self.before), ("setup", self.after)):
            exec(compile(code, name, "exec", dont_inherit=True), self.names)

    def run(self, i):
        self.link.got = None
        if self.style == "call":
            self.call(*self.tests[i])
        else:
            exec(self.code_of(i), self.names)

    def code_of(self, i):
        test = self.tests[i][0]
        if i == 0 and self.first is not test:
            return self.first
        return compile(test, "test", "exec", dont_inherit=True)

    def call(self, args, expected):
        args, expected = json.loads(args), json.loads(expected)
        result = self.link.ask("entry", self.entry, args)
        self.link.got = (result,)
        found = plain(result)
        if not (found == expected or (self.unwrap and [found] == expected)):
            raise Wrong("expected %s" % ascii_cut(repr(expected), GOT_MAX).decode())

    # ---- what came of it ----

    def letter(self, error):
        if isinstance(error, Inside) or (self.fallback and self.link.objects):
            return b"I" if self.fallback else b"W"
        if isinstance(error, MemoryError):
            return b"M"
        if isinstance(error, OutOfTime):
            return b"T"
        if isinstance(error, Wrong):
            return b"W"
        last = error.__traceback__
        while last is not None and last.tb_next is not None:
            last = last.tb_next
        in_test = last is not None and last.tb_frame.f_code.co_filename == "test"
        return b"W" if isinstance(error, AssertionError) and in_test else b"R"

    def explain(self, error, i):
        if isinstance(error, (Wrong, OutOfTime, Inside)):
            return str(error)
        if isinstance(error, SystemExit):
            return "it ended before its tests did (exit code %s)" % (error.code,)
        sources = {"prelude": self.before, "setup": self.after}
        if i < len(self.tests):
            sources["test"] = self.tests[i][0]
        for name, source in sources.items():
            text = source.decode("utf-8", "replace")
            linecache.cache[name] = (len(text), None, text.splitlines(True), name)
        frames = traceback.extract_tb(error.__traceback__)
        lines = traceback.format_list([f for f in frames if f.filename in sources])
        text, trace = getattr(error, "far", (None, None))
        if text is None:
            lines += traceback.format_exception_only(type(error), error)
        else:
            lines.append(trace.replace("Traceback (most recent call last):\n", "", 1))
        return "Traceback (most recent call last):\n" + "".join(lines)

    def failure(self, error, i):
        letter, got, why = self.letter(error), "", ""
        try:
            why = self.explain(error, i)
            if letter == b"W" and self.link.got is not None:
                got = repr(self.link.got[0])
        except Gone:
            raise
        except BaseException:
            pass
        return letter, ascii_cut(got, GOT_MAX), ascii_cut(why, ERROR_MAX)

    def outcome(self, i):
        """Letter, what was returned, and what went wrong."""
        try:
            self.run(i)
            return b"P", b"", b""
        except Gone:
            raise
        except BaseException as error:
            return self.failure(error, i)


class Report:
    def __init__(self, fd, nonce):
        self.fd = fd
        self.nonce = nonce.encode()

    def write(self, data):
        while data:
            data = data[write(self.fd, data) :]

    def letters(self, letter, count=1):
        self.write((self.nonce + letter) * count)

    def end(self, letter, got=b"", error=b""):
        head = b"%s%s %d %d\n" % (self.nonce, letter, len(got), len(error))
        self.write(b"\n" + head + got + error)


def out_of_time(*_):
    raise OutOfTime("time limit")


def alarm(seconds):
    signal.setitimer(signal.ITIMER_REAL, seconds)


def run_all(runner, report):
    alarm(runner.limit + GRACE_S)
    try:
        runner.load()
        runner.begin(runner.link)
    except (Gone, OutOfTime):
        raise
    except BaseException as error:
        report.end(*runner.failure(error, len(runner.tests)))
        return
    for i in range(len(runner.tests)):
        result = runner.outcome(i)
        if result[0] != b"P":
            report.end(*result)
            return
        report.letters(b"P")
    report.end(b"P")


def one_of_each(runner, control, i):
    """A test against a child of the answer's process."""
    ours, theirs = socket.socketpair()
    control.send("fork")
    with theirs, socket.socket(fileno=os.dup(control.fd)) as box:
        socket.send_fds(box, [b"+"], [theirs.fileno()])
    link = control.of_child(ours.fileno())
    alarm(runner.limit)
    try:
        runner.begin(link)
        result = runner.outcome(i)
    except Gone:
        result = b"R", b"", b"it ended before its test did"
    except BaseException as error:
        result = runner.failure(error, i)
    left = signal.setitimer(signal.ITIMER_REAL, 0)[0]
    ours.close()
    return result, left


def ended(control, result, left):
    """The same, of one whose process ended well."""
    alarm(left + GRACE_S)
    status = control.ask("reap", left)
    alarm(0)
    if result[0] != b"P" or status == 0:
        return result
    if status == signal.SIGKILL:
        return b"T", b"", b"time limit"
    return b"R", b"", b"it ended before its test did"


def run_each(runner, report):
    control = runner.link
    try:
        runner.load()
    except (Gone, OutOfTime):
        raise
    except BaseException as error:
        letter, got, why = runner.failure(error, len(runner.tests))
        report.letters(letter, len(runner.tests))
        report.end(letter, got, why)
        return
    first = (b"P",)
    for i in range(len(runner.tests)):
        result = ended(control, *one_of_each(runner, control, i))
        report.letters(result[0])
        if first[0] == b"P":
            first = result
    report.end(*first)


def limit_to(which, soft, more=0):
    hard = resource.getrlimit(which)[1]
    most = soft + more if hard == resource.RLIM_INFINITY else min(soft + more, hard)
    resource.setrlimit(which, (min(soft, most), most))


def work(program, answer, tests, report):
    signal.signal(signal.SIGALRM, out_of_time)
    size = os.fstat(tests).st_size
    runner = Runner(*cut(os.pread(tests, size, 0)), answer)
    report = Report(report, runner.nonce)
    limit_to(resource.RLIMIT_AS, OWN_MEMORY + runner.memory)
    seconds = int(runner.limit * (len(runner.tests) + 1)) + 10
    limit_to(resource.RLIMIT_CPU, seconds, 5)  # SIGXCPU first, which says why
    try:
        runner.link.write(len(program).to_bytes(4, "big") + program)
        runner.link.receive()  # it is ready
        (run_all if runner.mode == "all" else run_each)(runner, report)
    except OutOfTime:
        report.end(b"T", b"", b"time limit")
    except MemoryError:
        report.end(b"M", b"", b"its results take more memory than it may take itself")
    except Gone:
        report.end(b"E")


def program_of_answers():
    """Compiled once; a process of an answer begins with it."""
    with open("answer.py", "rb") as file:
        return marshal.dumps(compile(file.read(), "answer", "exec"))


class Server:
    """Its children, each by its pid with the report's pipe and nonce."""

    def __init__(self):
        self.program = program_of_answers()
        self.box = socket.socket(fileno=0)
        self.children = {}

    def lost(self, fd, nonce, how):
        try:
            Report(fd, nonce).letters(b"%c%03d" % how)
        except OSError:
            pass  # nobody reads it

    def reap(self, *_):
        try:
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if not pid:
                    return
                fd, nonce = self.children.pop(pid)
                if status:
                    self.lost(fd, nonce, (b"D", status & 0x7F))
                os.close(fd)
        except ChildProcessError:
            pass

    def child(self, fds):
        code = 1
        try:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGCHLD])
            self.box.close()
            for fd, _ in self.children.values():
                os.close(fd)
            work(self.program, *fds)
            code = 0
        finally:
            os._exit(code)

    def take(self, answer, tests, report):
        nonce = os.pread(tests, NONCE, 0).decode()
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])
        try:
            pid = os.fork()
            if pid == 0:
                self.child((answer, tests, report))
            self.children[pid] = report, nonce
        except OSError as error:
            self.lost(report, nonce, (b"F", error.errno))
            os.close(report)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGCHLD])
        os.close(answer)
        os.close(tests)

    def run(self):
        signal.signal(signal.SIGCHLD, self.reap)
        while True:
            message, fds, _, _ = socket.recv_fds(self.box, 1, 3)
            if not message:
                return
            if len(fds) == 3:
                self.take(*fds)


def main():
    sys.setrecursionlimit(10000)
    server = Server()
    gc.freeze()
    gc.disable()
    server.run()


main()
