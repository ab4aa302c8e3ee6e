# What both processes of a test are made of; embedded in front of answer.py and judge.py.
#
# Two processes share a socket. One runs the answer, the other the tests; each asks the
# other for calls of its functions, and gets plain data: None, bool, int, float, complex,
# str, bytes, list, tuple, set, frozenset, dict, and a few types of the standard library,
# by value. What is more than that stays where it is: the other side gets a Far, which
# asks for its attributes and calls.
#
# A frame is its length in four bytes and a value (pack). Values are written in the text
# form below; a receiver trusts nothing of it (depth, size, types).
import builtins
import os
import sys
from os import read, write

FRAME_MAX = 1 << 25
DEPTH_MAX = 200


class Gone(BaseException):
    """The other process has ended, or speaks nonsense."""


# ---- values as bytes ----


def base_of(value):
    """The built-in type whose content this is, when its own type compares as that does."""
    kind = type(value)
    for base in (int, float, complex, str, bytes, list, tuple, dict, set, frozenset):
        if issubclass(kind, base):
            return base if kind.__eq__ is base.__eq__ else None
    return None


EXACT = {
    int: lambda v: int.__add__(v, 0),
    float: float.__float__,
    complex: lambda v: complex.__add__(v, 0),
    str: str.__str__,
    bytes: lambda v: bytes.__getitem__(v, slice(None)),
    list: list.copy,
    tuple: lambda v: tuple(tuple.__iter__(v)),
    dict: dict.copy,
    set: lambda v: set(set.__iter__(v)),
    frozenset: lambda v: frozenset(frozenset.__iter__(v)),
}

# What is made again from a few plain values, by the name of its type.
PARTS = {
    "builtins.range": lambda v: (v.start, v.stop, v.step),
    "builtins.bytearray": lambda v: (bytes(v),),
    "builtins.dict_keys": lambda v: (list(v),),
    "builtins.dict_items": lambda v: (dict(v),),
    "collections.Counter": lambda v: (dict.copy(v),),
    "collections.OrderedDict": lambda v: (list(v.items()),),
    "collections.defaultdict": lambda v: (None, dict.copy(v)),
    "collections.deque": lambda v: (list(v), v.maxlen),
    "decimal.Decimal": lambda v: (str(v),),
    "fractions.Fraction": lambda v: (v.numerator, v.denominator),
    "datetime.date": lambda v: (v.year, v.month, v.day),
    "datetime.timedelta": lambda v: (v.days, v.seconds, v.microseconds),
    "datetime.time": lambda v: (v.hour, v.minute, v.second, v.microsecond),
    "datetime.datetime": lambda v: (v.year, v.month, v.day, v.hour, v.minute, v.second,
                                    v.microsecond),
    "numpy.ndarray": lambda v: (v.tolist(), str(v.dtype)),
}
VIEWS = {
    "builtins.dict_keys": lambda keys: dict.fromkeys(keys).keys(),
    "builtins.dict_items": dict.items,
}


def full_name(kind):
    return "%s.%s" % (kind.__module__, kind.__qualname__)


def make(name, parts):
    if name not in PARTS:
        raise Gone("an unknown type")
    if name in VIEWS:
        return VIEWS[name](*parts)
    module, kind = name.split(".")
    if name == "numpy.ndarray":
        kind = "array"
    return getattr(__import__(module), kind)(*parts)


class Packer:
    """Bytes of a value; give(value) is the number of what stays here."""

    def __init__(self, give):
        self.give = give
        self.out = []
        self.depth = 0

    def bytes_of(self, mark, data):
        self.out.append(b"%c%d:" % (mark, len(data)))
        self.out.append(data)

    def items(self, mark, values):
        self.out.append(b"%c%d:" % (mark, len(values)))
        for value in values:
            self.add(value)

    def add_int(self, value):
        short = -(1 << 63) <= value < 1 << 63
        self.out.append(b"i%d;" % value if short else b"x%x;" % value)

    def add_sequence(self, value):
        mark = b"l" if type(value) is list else b"t"
        if len(value) > 8 and set(map(type, value)) == {int}:
            if -(1 << 63) <= min(value) and max(value) < 1 << 63:
                return self.bytes_of(b"I" if mark == b"l" else b"J",
                                     ",".join(map(str, value)).encode())
        self.items(mark, value)

    def add_dict(self, value):
        self.out.append(b"d%d:" % len(value))
        for key, item in value.items():
            self.add(key)
            self.add(item)

    def add_other(self, value):
        kind = type(value)
        if isinstance(value, Far):
            self.out.append(b"y%d;" % value.__dict__["number"])
        elif isinstance(value, type) and getattr(builtins, value.__name__, None) is value:
            self.bytes_of(b"n", value.__name__.encode())
        elif full_name(kind) in PARTS and not getattr(value, "tzinfo", None):
            self.bytes_of(b"o", full_name(kind).encode())
            self.add(PARTS[full_name(kind)](value))
        elif kind.__module__ == "numpy" and hasattr(value, "item"):
            self.add(value.item())
        elif base_of(value):
            self.add(EXACT[base_of(value)](value))
        else:
            self.out.append(b"h%d;" % self.give(value))

    def add(self, value):
        if value is None or value is True or value is False:
            self.out.append(b"N" if value is None else b"T" if value else b"F")
            return
        self.depth += 1
        if self.depth > DEPTH_MAX:
            raise ValueError("a value is nested deeper than %d" % DEPTH_MAX)
        ADD.get(type(value), Packer.add_other)(self, value)
        self.depth -= 1


ADD = {
    int: Packer.add_int,
    float: lambda p, v: p.out.append(b"f%s;" % repr(v).encode()),
    complex: lambda p, v: p.items(b"c", (v.real, v.imag)),
    str: lambda p, v: p.bytes_of(b"s", v.encode("utf-8", "surrogatepass")),
    bytes: lambda p, v: p.bytes_of(b"b", v),
    list: Packer.add_sequence,
    tuple: Packer.add_sequence,
    set: lambda p, v: p.items(b"e", v),
    frozenset: lambda p, v: p.items(b"z", v),
    dict: Packer.add_dict,
}


def pack(value, give):
    packer = Packer(give)
    packer.add(value)
    data = b"".join(packer.out)
    if len(data) > FRAME_MAX:
        raise ValueError("a value takes more than %d bytes" % FRAME_MAX)
    return data


class Unpacker:
    """The value of bytes; take(mark, number) is what a handle stands for."""

    def __init__(self, data, take):
        self.data = data
        self.take = take
        self.at = 0
        self.depth = 0

    def word(self, end):
        stop = self.data.index(end, self.at)
        word = self.data[self.at : stop]
        self.at = stop + 1
        return word

    def text(self):
        n = int(self.word(b":"))
        if not 0 <= n <= len(self.data) - self.at:
            raise Gone("a length")
        self.at += n
        return self.data[self.at - n : self.at]

    def items(self):
        n = int(self.word(b":"))
        if not 0 <= n <= len(self.data) - self.at:
            raise Gone("a count")
        return [self.value() for _ in range(n)]

    def pairs(self):
        n = int(self.word(b":"))
        if not 0 <= n <= len(self.data) - self.at:
            raise Gone("a count")
        return {self.value(): self.value() for _ in range(n)}

    def numbers(self):
        return map(int, self.text().split(b","))

    def value(self):
        self.depth += 1
        if self.depth > DEPTH_MAX + 10:
            raise Gone("a depth")
        self.at += 1
        found = READ[self.data[self.at - 1]](self)
        self.depth -= 1
        return found


def read_handle(mark):
    return lambda u: u.take(mark, int(u.word(b";")))


def read_type(u):
    kind = getattr(builtins, u.text().decode(), None)
    if not isinstance(kind, type):
        raise Gone("a type")
    return kind


READ = {
    ord("N"): lambda u: None,
    ord("T"): lambda u: True,
    ord("F"): lambda u: False,
    ord("i"): lambda u: int(u.word(b";")),
    ord("x"): lambda u: int(u.word(b";"), 16),
    ord("f"): lambda u: float(u.word(b";")),
    ord("c"): lambda u: complex(*u.items()),
    ord("s"): lambda u: u.text().decode("utf-8", "surrogatepass"),
    ord("b"): lambda u: u.text(),
    ord("l"): lambda u: u.items(),
    ord("t"): lambda u: tuple(u.items()),
    ord("e"): lambda u: set(u.items()),
    ord("z"): lambda u: frozenset(u.items()),
    ord("d"): lambda u: u.pairs(),
    ord("I"): lambda u: list(u.numbers()),
    ord("J"): lambda u: tuple(u.numbers()),
    ord("o"): lambda u: make(u.text().decode(), u.value()),
    ord("n"): read_type,
    ord("h"): read_handle("h"),
    ord("y"): read_handle("y"),
}


def unpack(data, take):
    unpacker = Unpacker(data, take)
    value = unpacker.value()
    if unpacker.at != len(data):
        raise Gone("a value's end")
    return value


# ---- what stays on the other side ----


class Far:
    """An object of the other process."""

    def __init__(self, link, number):
        self.__dict__.update(link=link, number=number)

    def ask(self, what, *more):
        return self.__dict__["link"].ask(what, self, *more)

    def __call__(self, *args, **named):
        return self.__dict__["link"].call(("call", self), args, named)

    def __getattr__(self, name):
        self.__dict__["link"].allow(name)
        return self.ask("get", name)

    def __setattr__(self, name, value):
        self.ask("set", name, value)

    def __iter__(self):
        return FarIterator(self.ask("iter"))

    def __next__(self):
        more, value = self.ask("next")
        if not more:
            raise StopIteration
        return value

    def __len__(self):
        return self.ask("len")

    def __bool__(self):
        return self.ask("bool") is True

    def __getitem__(self, key):
        return self.ask("item", key)

    def __str__(self):
        return self.ask("str")

    def __repr__(self):
        return self.ask("repr")

    def __instancecheck__(self, value):
        return self.ask("isinstance", value) is True

    def __hash__(self):
        return self.__dict__["number"]

    def __eq__(self, other):
        return self.__dict__["link"].same(self, other)


class FarIterator:
    def __init__(self, far):
        self.far = far

    def __iter__(self):
        return self

    def __next__(self):
        return Far.__next__(self.far)


# ---- a link ----


class Link:
    """Requests and replies over a socket; either side may ask while it is asked."""

    def __init__(self, fd):
        self.fd = fd
        self.kept = []  # what the other side has handles of
        self.numbers = {}

    def give(self, value):
        if id(value) not in self.numbers:
            self.numbers[id(value)] = len(self.kept)
            self.kept.append(value)
        return self.numbers[id(value)]

    def take(self, mark, number):
        if mark == "h":
            return Far(self, number)
        if not 0 <= number < len(self.kept):
            raise Gone("a handle")
        return self.kept[number]

    def send(self, *message):
        data = pack(message, self.give)
        self.write(len(data).to_bytes(4, "big") + data)

    def write(self, data):
        try:
            while data:
                data = data[write(self.fd, data) :]
        except OSError:
            raise Gone("it ended") from None

    def exactly(self, n):
        pieces = []
        while n > 0:
            try:
                piece = read(self.fd, n)
            except OSError:
                piece = b""
            if not piece:
                raise Gone("it ended")
            pieces.append(piece)
            n -= len(piece)
        return b"".join(pieces)

    def receive(self):
        n = int.from_bytes(self.exactly(4), "big")
        if n > FRAME_MAX + 1000:
            raise Gone("a frame's length")
        data = self.exactly(n)
        try:
            message = unpack(data, self.take)
        except (Exception, RecursionError):
            raise Gone("a frame") from None
        if type(message) is not tuple or not message or type(message[0]) is not str:
            raise Gone("a message")
        return message

    def ask(self, *message):
        self.send(*message)
        while True:
            reply = self.receive()
            if reply[0] == "is" and len(reply) == 2:
                return reply[1]
            if reply[0] == "raised" and len(reply) == 5:
                raise self.error(*reply[1:])
            self.answer(reply)

    def call(self, target, args, named):
        return self.ask(*target, args, named)

    def allow(self, name):
        if name.startswith("__"):
            raise AttributeError(name)

    def same(self, far, other):
        return isinstance(other, Far) and hash(far) == hash(other)

    def error(self, kinds, text, trace, code):
        """An exception of the other side, as the nearest built-in one."""
        kind = next((getattr(builtins, k) for k in kinds if hasattr(builtins, k)), None)
        if not isinstance(kind, type) or not issubclass(kind, BaseException):
            kind = Exception
        try:
            error = kind(code) if kind is SystemExit else kind(text)
        except Exception:
            error = Exception(text)
        error.far = (str(text), str(trace))
        return error
