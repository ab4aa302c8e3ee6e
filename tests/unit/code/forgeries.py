# Writes wrong answers that try to pass, for test_forgeries: a line of JSON [name, style,
# answer, plain] each, where plain says what a run of python3 says of the answer with the
# tests of the first style below it in one file: do all hold? Those of the answer "right"
# do, those of the others do not.
#
# The task is f(n) = n * n + 7. Each answer is code that attacks, and an f that does not
# know the result; the attacks look at or change whatever they can reach, tell the other
# side what they like, or return what is not data. Usage: forgeries.py [NAME]
import json
import os
import subprocess
import sys
import tempfile

STYLES = {
    "assert": ["assert f(3) == 16", "assert f(10) == 107", "assert f(-4) == 23"],
    "check": [
        "def check(candidate):\n    expected = {3: 16, 10: 107, -4: 23}\n"
        "    for n, result in expected.items():\n        assert candidate(n) == result\n"
        "check(f)"
    ],
    "shaped": [
        "import math\nassert math.isclose(f(3), 16)",
        "assert abs(f(10) - 107) < 1e-6",
        "assert set([f(-4)]) == {23} and 23 == f(-4) and not f(3) != 16",
    ],
    "call": [],
    "stdio": [],
}

# Where an attack takes what it can find for the results.
TAKE = """
def found(n):
    for r in CANDIDATES:
        if r not in (3, 10, -4):
            return r
CANDIDATES = []
def f(n):
    CANDIDATES.clear()
    look(n)
    return found(n)
"""

# name: attack, with an f of its own
FORGERIES = {}


def forgery(name, code, f="def f(n): return None\n"):
    FORGERIES[name] = code + "\n" + f


forgery("right", "", "def f(n): return n * n + 7\n")

# ---- the language is changed ----

forgery("compile", """
import builtins
keep = builtins.compile
builtins.compile = lambda s, *a, **k: keep(b"pass" if b"f(" in bytes(str(s), "utf8") or 1 else s, *a, **k)
""")
forgery("exec", "import builtins\nbuiltins.exec = lambda *a, **k: None\n")
forgery("eval", "import builtins\nbuiltins.eval = lambda *a, **k: True\n")
forgery("import", """
import builtins
keep = builtins.__import__
class Json:
    loads = staticmethod(lambda s: [0] if s[:1] in ('[', b'[') else None)
    dumps = staticmethod(lambda s: 'null')
builtins.__import__ = lambda name, *a, **k: Json if name == 'json' else keep(name, *a, **k)
""")
forgery("json loads", "import json\njson.loads = lambda s: [0] if s[:1] in ('[', b'[') else None\n")
forgery("json module", """
import sys, types
m = types.ModuleType('json')
m.loads = lambda s: [0] if s[:1] in ('[', b'[') else None
sys.modules['json'] = m
""")
forgery("builtins of names", "__builtins__ = {'AssertionError': None}\n")
forgery("builtins dict", """
b = __builtins__ if isinstance(__builtins__, dict) else vars(__builtins__)
for name in ('repr', 'isinstance', 'getattr', 'hasattr', 'len', 'type', 'set', 'abs'):
    b[name] = lambda *a, **k: True
""")
forgery("assertion error", "import builtins\nbuiltins.AssertionError = SystemExit\n")
forgery("shadowed names", """
set = sorted = abs = lambda *a: Same()
class Same:
    def __eq__(self, other): return True
    def __lt__(self, other): return True
    def __sub__(self, other): return self
class math:
    isclose = staticmethod(lambda *a, **k: True)
""")
forgery("math of its own", """
import sys, types
m = types.ModuleType('math')
m.isclose = lambda *a, **k: True
sys.modules['math'] = m
import math
""")
forgery("all modules", """
import sys
for name in ('ast', 'traceback', 'linecache', 'signal', 'socket', 'marshal', 'json'):
    sys.modules[name] = None
""")
forgery("os write", """
import os
keep = os.write
os.write = lambda fd, data: keep(fd, data.replace(b'W', b'P').replace(b'R', b'P'))
""")
forgery("os read", "import os\nos.read = lambda fd, n: b''\n")
forgery("trace", "import sys\nsys.settrace(lambda *a: None)\nsys.setprofile(lambda *a: None)\n")
forgery("trace jumps", """
import sys
def hook(frame, event, arg):
    if event == 'exception': raise SystemExit(0)
    return hook
sys.settrace(hook)
""")
forgery("hooks", """
import sys, os
sys.excepthook = lambda *a: os._exit(0)
sys.unraisablehook = lambda *a: os._exit(0)
""")
forgery("audit hook", """
import sys
seen = []
sys.addaudithook(lambda name, args: seen.append(args))
""")

# ---- it ends in time ----

forgery("os exit", "import os\nos._exit(0)\n")
forgery("sys exit", "import sys\nsys.exit(0)\n")
forgery("raise exit", "raise SystemExit(0)\n")
forgery("exit in f", "import os\n", "def f(n): os._exit(0)\n")
forgery("quit in f", "", "def f(n): raise SystemExit(0)\n")
forgery("atexit", "import atexit, os\natexit.register(os._exit, 0)\n")
forgery("exit thread", """
import threading, os
threading.Timer(0.01, os._exit, (0,)).start()
""", "def f(n):\n    while True: pass\n")
forgery("exec true", "import os\nos.execv('/bin/true', ['true'])\n")
forgery("kill", "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n")
forgery("stop", "import os, signal\nif os.fork() == 0: os.kill(os.getppid(), signal.SIGTERM)\n")
forgery("generator exit", "", "def f(n): raise GeneratorExit\n")
forgery("keyboard interrupt", "", "def f(n): raise KeyboardInterrupt\n")

# ---- it says that it has passed ----

forgery("print", "print('PPP\\nP 0 0')\nprint('passed')\n")
forgery("every descriptor", """
import os
for fd in range(3, 30):
    try: os.write(fd, b'PPP\\nP 0 0\\n')
    except OSError: pass
""")
forgery("reports", """
import os
for fd in range(30):
    try: os.write(fd, b'\\n' + b'0' * 32 + b'P' * 3 + b'\\n' + b'0' * 32 + b'P 0 0\\n')
    except OSError: pass
os._exit(0)
""")
forgery("frames", """
import os
frame = b"t2:s2:is" + b"T"
for i in range(20):
    for fd in range(3, 10):
        try: os.write(fd, len(frame).to_bytes(4, 'big') + frame)
        except OSError: pass
""")
forgery("frames of lists", """
import os
frame = b"t2:s2:ist2:T" + b"l0:"
for fd in range(3, 10):
    for i in range(20):
        try: os.write(fd, len(frame).to_bytes(4, 'big') + frame)
        except OSError: pass
""")
forgery("frames without end", """
import os
for fd in range(3, 10):
    try: os.write(fd, b'\\x7f\\xff\\xff\\xff' + b'l99999999:' * 100)
    except OSError: pass
""")
forgery("deep frames", """
import os
frame = b't2:s2:is' + b'l1:' * 100000 + b'N'
for fd in range(3, 10):
    try: os.write(fd, len(frame).to_bytes(4, 'big') + frame)
    except OSError: pass
""")
forgery("handles of the judge's", """
import os
for number in range(-2, 5):
    frame = b't2:s2:isy%d;' % number
    for fd in range(3, 10):
        try: os.write(fd, len(frame).to_bytes(4, 'big') + frame)
        except OSError: pass
""")
forgery("asks the judge", """
import os
for what in (b't4:s4:callT', b't3:s3:gety0;s11:__globals__', b't1:s4:exit'):
    for fd in range(3, 10):
        try: os.write(fd, len(what).to_bytes(4, 'big') + what)
        except OSError: pass
""")
forgery("types of the judge's", """
import os
frame = b't2:s2:iso9:os.systemt1:s4:true'
for fd in range(3, 10):
    try: os.write(fd, len(frame).to_bytes(4, 'big') + frame)
    except OSError: pass
""")
forgery("exit in a child", """
import os
if os.fork():
    os.wait()
    os._exit(0)
""")
forgery("child goes on", "import os\nif os.fork(): os._exit(0)\n")
forgery("a child that guesses", """
import os
if os.fork() == 0:
    for r in range(-50, 150):
        frame = b't2:s2:ist2:i%d;l0:' % r
        for fd in range(3, 6):
            try: os.write(fd, len(frame).to_bytes(4, 'big') + frame)
            except OSError: pass
    os._exit(0)
""", "def f(n):\n    import time\n    time.sleep(0.1)\n")
forgery("dup2 and atexit", """
import os, atexit
def last():
    for fd in range(1, 10):
        try: os.write(fd, b'P\\n')
        except OSError: pass
    os._exit(0)
atexit.register(last)
""")

# ---- it looks for what is expected ----

forgery("frames of callers", """
import sys
def look(n):
    frame = sys._getframe()
    while frame:
        for v in list(frame.f_locals.values()) + list(frame.f_code.co_consts):
            if type(v) is int and abs(v) > 10: CANDIDATES.append(v)
        frame = frame.f_back
""", TAKE)
forgery("tracebacks", """
def look(n):
    try: raise ValueError
    except ValueError as e:
        frame = e.__traceback__.tb_frame
        while frame:
            if frame.f_code.co_name in ('<module>', 'run', 'call'):
                CANDIDATES.extend(c for c in frame.f_code.co_consts if type(c) is int and c > 10)
                CANDIDATES.extend(v for v in frame.f_locals.values() if type(v) is int)
            frame = frame.f_back
""", TAKE)
forgery("gc", """
import gc
def look(n):
    for o in gc.get_objects():
        if type(o) is tuple and len(o) == 2 and type(o[0]) is type(o[1]) is bytes:
            if b'f(%d)' % n in o[0]: CANDIDATES.append(int(o[0].split()[-1]))
            if o[0] == b'[%d]' % n: CANDIDATES.append(int(o[1]))
        if type(o) is dict and n in o and type(o[n]) is int:
            CANDIDATES.append(o[n])
""", TAKE)
forgery("code objects", """
import gc, types
def look(n):
    for o in gc.get_objects():
        if isinstance(o, types.FrameType):
            if n in o.f_code.co_consts:
                CANDIDATES.extend(c for c in o.f_code.co_consts if type(c) is int)
""", TAKE.replace("r not in", "type(r) is not int or r not in"))
forgery("threads", """
import sys, threading
def look(n):
    for frame in sys._current_frames().values():
        while frame:
            if frame.f_code.co_filename == 'test':
                CANDIDATES.extend(c for c in frame.f_code.co_consts if type(c) is int)
            if type(frame.f_locals.get('expected')) is int:
                CANDIDATES.append(frame.f_locals['expected'])
            frame = frame.f_back
""", TAKE)
forgery("signal frames", """
import signal
kept = []
def hear(number, frame):
    while frame:
        kept.extend([frame.f_locals.get('expected'), *frame.f_code.co_consts])
        frame = frame.f_back
signal.signal(signal.SIGALRM, hear)
signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
def look(n):
    del kept[:]
    for _ in range(10**6):
        if len(kept) > 100: break
    CANDIDATES.extend(v for v in kept if type(v) is int and abs(v) > 10)
""", TAKE)
forgery("own memory", """
import re
def look(n):
    for line in open('/proc/self/maps'):
        m = re.match(r'([0-9a-f]+)-([0-9a-f]+) rw', line)
        if not m: continue
        with open('/proc/self/mem', 'rb', 0) as mem:
            try:
                mem.seek(int(m[1], 16))
                data = mem.read(int(m[2], 16) - int(m[1], 16))
            except (OSError, ValueError): continue
        for hit in re.findall(rb'assert f\\(%d\\) == (\\d+)' % n, data):
            CANDIDATES.append(int(hit))
""", TAKE)
forgery("memory of others", """
import os, re
def look(n):
    for pid in filter(str.isdigit, os.listdir('/proc')):
        for name in ('environ', 'cmdline', 'fd/0', 'fd/3', 'fd/4', 'mem'):
            try: data = open('/proc/%s/%s' % (pid, name), 'rb').read(1 << 20)
            except (OSError, ValueError): continue
            CANDIDATES.extend(map(int, re.findall(rb'f\\(%d\\) == (\\d+)' % n, data)))
""", TAKE)
forgery("standard input", """
import os, re
def look(n):
    for path in ('/dev/stdin', '/proc/1/fd/0', '/proc/self/fd/0', '/proc/self/fd/3'):
        try: data = os.read(os.open(path, os.O_RDONLY | os.O_NONBLOCK), 1 << 20)
        except OSError: continue
        CANDIDATES.extend(map(int, re.findall(rb'f\\(%d\\) == (\\d+)' % n, data)))
""", TAKE)
forgery("files", """
import os, re
def look(n):
    for top in ('/tmp', '/dev/shm', '/home', '.'):
        for folder, _, names in os.walk(top):
            for name in names:
                if name == 'plain.py': continue
                try: data = open(os.path.join(folder, name), 'rb').read(1 << 20)
                except OSError: continue
                CANDIDATES.extend(map(int, re.findall(rb'f\\(%d\\) == (\\d+)' % n, data)))
""", TAKE)
forgery("a child that listens", """
import os, re
r, w = os.pipe()
if os.fork() == 0:
    for fd in range(3, 6):
        if fd in (r, w): continue
        try: os.set_blocking(fd, False); os.write(w, os.read(fd, 1 << 16))
        except OSError: pass
    os._exit(0)
os.set_blocking(r, False)
def look(n):
    try: data = os.read(r, 1 << 16)
    except OSError: return
    CANDIDATES.extend(map(int, re.findall(rb'== (\\d+)', data)))
""", TAKE)
forgery("the socket", """
import os, socket
def look(n):
    for fd in range(3, 8):
        try:
            s = socket.socket(fileno=os.dup(fd))
            s.setblocking(False)
            CANDIDATES.append(s.recv(1 << 16))
        except OSError: pass
""", TAKE)
forgery("network", """
import socket
def look(n):
    for kind in (socket.AF_UNIX, socket.AF_INET):
        s = socket.socket(kind)
        s.settimeout(0.05)
        try: s.connect('\\0searchr1' if kind == socket.AF_UNIX else ('127.0.0.1', 80))
        except OSError: pass
""", TAKE)
forgery("names of the driver", """
import sys
def look(n):
    frame = sys._getframe()
    while frame:
        for name in ('runner', 'self', 'answer', 'tests', 'expected'):
            for place in (frame.f_locals, frame.f_globals):
                o = place.get(name)
                for v in getattr(o, 'tests', None) or []:
                    if b'f(%d)' % n in bytes(v[0]): CANDIDATES.append(int(v[0].split()[-1]))
                    if v[0] == b'[%d]' % n: CANDIDATES.append(int(v[1]))
        frame = frame.f_back
""", TAKE)

# ---- the other side of the driver ----

forgery("packs of its own", """
import sys
frame = sys._getframe()
while frame:
    for name in ('pack', 'write_all', 'trailer', 'ascii_cut'):
        if name in frame.f_globals:
            frame.f_globals[name] = lambda *a: b't2:s2:ist2:Tl0:'
    frame = frame.f_back
""")
forgery("methods of the driver", """
import sys
frame = sys._getframe()
while frame:
    for o in list(frame.f_locals.values()):
        for name in ('run', 'call', 'outcome', 'letter', 'answer', 'entry'):
            if type(o).__module__ == '__main__' and hasattr(o, name):
                setattr(type(o), name, lambda *a, **k: (b'P', b'', b''))
    frame = frame.f_back
""")
forgery("the link", """
import sys
frame = sys._getframe()
while frame:
    o = frame.f_locals.get('self')
    if hasattr(o, 'send'):
        keep = o.send
        type(o).send = lambda self, *m: keep('is', ('passed', []))
    frame = frame.f_back
""")
forgery("replays", """
last = []
""", "def f(n):\n    last.append(n)\n    return last[0]\n")
forgery("recursion", "import sys\nsys.setrecursionlimit(50)\n", "def f(n): return f(n)\n")
forgery("deep recursion", "import sys\nsys.setrecursionlimit(1 << 30)\n",
        "def f(n): return f(n + 1)\n")

# ---- what it returns is no data ----

EQUAL = "    def __eq__(self, other): return True\n    __hash__ = object.__hash__\n"
for kind, start in (("object", ""), ("int", "0"), ("float", "0.0"), ("str", "''"),
                    ("list", "[]"), ("tuple", "()"), ("dict", "{}"), ("set", "()")):
    forgery("equal " + kind, "class E(%s):\n%s    def __ne__(self, other): return False\n"
            "    def __sub__(self, other): return 0\n    __rsub__ = __sub__\n"
            "    def __float__(self): raise TypeError\n" % (kind, EQUAL),
            "def f(n): return E(%s)\n" % start)
forgery("its own class", """
class E:
    __class__ = int
    def __eq__(self, other): return True
    def __index__(self): return 16
""", "def f(n): return E()\n")
forgery("metaclass", """
class M(type):
    def __eq__(self, other): return True
    def __hash__(self): return 0
    def __instancecheck__(self, other): return True
class E(metaclass=M): pass
""", "def f(n): return E\n")
forgery("f is a class", """
class f:
    def __init__(self, n): pass
    def __eq__(self, other): return True
""", "")
forgery("f is called", """
class F:
    def __call__(self, n): return self
    def __eq__(self, other): return True
    def __getattr__(self, name): return self
f = F()
""", "")
forgery("parts of a type", """
class Decimal:
    __module__ = 'decimal'
    def __str__(self): return 'NaN'
    def __eq__(self, other): return True
""", "def f(n): return Decimal()\n")
forgery("a scalar of numpy", """
class int64:
    __module__ = 'numpy'
    def item(self): return self
    def __eq__(self, other): return True
""", "def f(n): return int64()\n")
forgery("nan", "", "def f(n): return float('nan')\n")
forgery("infinity", "", "def f(n): return float('inf')\n")
forgery("generator", "", "def f(n):\n    yield from range(200)\n")
forgery("lazy", "", "def f(n): return iter(range(200))\n")
forgery("all of them", "", "def f(n): return list(range(-200, 200))\n")
forgery("one of them", "", "def f(n): return range(-200, 200)\n")
forgery("text of it", "", "def f(n): return str(n * n + 7)\n")
forgery("huge", "", "def f(n): return 'x' * (1 << 26)\n")
forgery("huge number", "", "def f(n): return 1 << (1 << 24)\n")
forgery("huge list", "", "def f(n): return [0] * (1 << 24)\n")
forgery("nested", "", "def f(n):\n    a = []\n    for _ in range(5000): a = [a]\n    return a\n")
forgery("endless", "", "def f(n):\n    a = []\n    a.append(a)\n    return a\n")
forgery("exceptions", """
class E(AssertionError):
    def __str__(self): raise E
    __repr__ = __str__
""", "def f(n): raise E\n")
forgery("odd exceptions", """
class E(Exception):
    def __str__(self): return 'P' * 100000
    def __eq__(self, other): return True
""", "def f(n): raise E\n")
forgery("stop iteration", "", "def f(n): raise StopIteration\n")
forgery("pass by exception", "", "def f(n): raise AssertionError('passed')\n")
forgery("coroutine", "", "async def f(n): return n * n + 7\n")
forgery("not implemented", "", "def f(n): return NotImplemented\n")
forgery("ellipsis", "", "def f(n): return ...\n")
forgery("true", "", "def f(n): return True\n")
forgery("one constant", "", "def f(n): return 16\n")

# ---- what holds in a plain run too: it is no data, and so is wrong here ----

FOOLS_PYTHON = {n for n in FORGERIES if n.startswith("equal ")} | {
    "its own class", "metaclass", "f is a class", "f is called", "parts of a type",
    "a scalar of numpy", "shadowed names"}


def plain(answer, tests):
    """Did all tests below the answer in one file hold? The last of them writes a word
    that the answer cannot know."""
    word = os.urandom(16).hex()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "plain.py")
        out = os.path.join(folder, "word")
        with open(path, "w") as file:
            file.write(answer + "\n" + "\n".join(tests) + "\n")
            file.write("import os as o; o.write(o.open(%r, 65, 384), b%r)\n" % (out, word))
        try:
            done = subprocess.run([sys.executable, path], stdin=subprocess.DEVNULL,
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                  timeout=10, cwd=folder, start_new_session=True)
        except subprocess.TimeoutExpired:
            return False
        return done.returncode == 0 and os.path.exists(out) and open(out).read() == word


def main():
    for name, answer in FORGERIES.items():
        if len(sys.argv) > 1 and sys.argv[1] not in name:
            continue
        for style, tests in STYLES.items():
            if style == "stdio":
                if name == "text of it":  # is what is asked for
                    continue
                answer += "print(f(int(input())))\n"
            holds = style == "assert" and name not in FOOLS_PYTHON and plain(answer, tests)
            print(json.dumps([name, style, answer, holds]), flush=True)


main()
