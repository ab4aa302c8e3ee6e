# Writes pairs of small programs for test_normal_form, with what each does: a line of JSON
# [first, second, outcome of the first, outcome of the second]. An outcome is what a plain
# run of the program with the tests below it printed, and how it ended.
#
# The first of a pair is made at random from a little grammar; the second by changes that
# may or may not keep its meaning: names swapped, renamed here and there or everywhere,
# layout and comments, an operator. Usage: programs.py SEED COUNT
import ast
import contextlib
import io
import json
import random
import re
import sys

NAMES = ["a", "b", "n", "m", "x", "i"]


class Maker:
    def __init__(self, rng):
        self.rng = rng

    def name(self):
        return self.rng.choice(NAMES)

    def value(self, depth=0):
        r = self.rng.random()
        if depth > 2 or r < 0.35:
            return self.name()
        if r < 0.5:
            return str(self.rng.randrange(4))
        if r < 0.7:
            op = self.rng.choice(["+", "-", "*"])
            return "(%s %s %s)" % (self.value(depth + 1), op, self.value(depth + 1))
        if r < 0.78:
            n = self.name()
            return "sum([%s for %s in range(3)])" % (self.value(depth + 1), n)
        if r < 0.84:
            return "(lambda %s: %s)(%s)" % (self.name(), self.value(depth + 1),
                                             self.value(depth + 1))
        if r < 0.88:
            return "int(f'{%s}' or '0')" % self.name()
        if r < 0.92:
            return "len(str(%s))" % self.value(depth + 1)
        return "f(%s)" % self.value(depth + 1) if self.rng.random() < 0.2 else self.name()

    def statement(self, depth):
        r = self.rng.random()
        if r < 0.45 or depth > 2:
            return ["%s = %s" % (self.name(), self.value())]
        if r < 0.55:
            return ["%s += %s" % (self.name(), self.value())]
        if r < 0.65:
            return ["for %s in range(%d):" % (self.name(), self.rng.randrange(1, 3))] + \
                self.body(depth + 1)
        if r < 0.75:
            return ["if %s > %s:" % (self.value(), self.value())] + self.body(depth + 1)
        if r < 0.8:
            return ["try:"] + self.body(depth + 1) + [
                self.rng.choice(["except NameError:", "except Exception as x:",
                                 "except ZeroDivisionError as n:"])] + self.body(depth + 1)
        if r < 0.84:
            return ["def %s(%s):" % (self.rng.choice("gh"), self.name())] + \
                self.body(depth + 1) + ["    return %s" % self.value()]
        if r < 0.87:
            return [self.rng.choice(["global", "nonlocal"]) + " " + self.name()]
        if r < 0.9:
            return ["class C:"] + self.body(depth + 1)
        if r < 0.92:
            return ["print(sorted(locals()))"]
        if r < 0.94:
            return ["print(f'{%s=}')" % self.name()]
        if r < 0.96:
            return ["del %s" % self.name()]
        return ["print(%s)" % self.value()]

    def body(self, depth):
        lines = []
        for _ in range(self.rng.randrange(1, 3)):
            lines += self.statement(depth)
        return ["    " + line for line in lines]

    def program(self):
        lines = []
        for _ in range(self.rng.randrange(0, 3)):
            lines += ["%s = %d" % (self.name(), self.rng.randrange(4))]
        lines += ["def f(%s):" % self.name()]
        for _ in range(self.rng.randrange(1, 4)):
            lines += ["    " + line for line in self.statement(0)]
        lines += ["    return %s" % self.value()]
        if self.rng.random() < 0.3:
            lines += self.statement(1)
        return "\n".join(lines) + "\n"


def swap(text, a, b):
    return re.sub(r"\b(%s|%s)\b" % (a, b), lambda m: b if m.group(1) == a else a, text)


def rename_one(rng, text, a, b):
    """Some places of a name, chosen at random."""
    return re.sub(r"\b%s\b" % a, lambda m: b if rng.random() < 0.5 else a, text)


def change(rng, text):
    a, b = rng.sample(NAMES + ["k"], 2)
    r = rng.random()
    if r < 0.25:
        return swap(text, a, b)
    if r < 0.5:
        return re.sub(r"\b%s\b" % a, "fresh", text)
    if r < 0.65:
        return rename_one(rng, text, a, b)
    if r < 0.75:
        return text.replace("\n", "  # a comment\n")
    if r < 0.85:
        try:
            return ast.unparse(ast.parse(text)) + "\n"
        except SyntaxError:
            return text
    if r < 0.95:
        return text.replace(" + ", "+", 1) if "+" in text else text.replace("2", "3", 1)
    return text.replace("+", "-", 1)


def outcome(text):
    out = io.StringIO()
    names = {"__name__": "__main__"}
    tests = ["print(f(1))", "print(f(3))", "print(n)", "print(m)", "print(f(a=1))",
             "print(f(n=2))", "print(x)"]
    with contextlib.redirect_stdout(out):
        for piece in [text] + tests:
            try:
                exec(piece, names)
            except RecursionError:
                print("RecursionError")
            except BaseException as error:
                print(type(error).__name__)
    return re.sub(r"0x[0-9a-f]+", "0x", out.getvalue())


def main():
    rng = random.Random(int(sys.argv[1]))
    sys.setrecursionlimit(120)
    maker = Maker(rng)
    for _ in range(int(sys.argv[2])):
        first = maker.program()
        second = change(rng, first)
        if rng.random() < 0.5:
            second = change(rng, second)
        print(json.dumps([first, second, outcome(first), outcome(second)]))


main()
