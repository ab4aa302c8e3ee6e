#!/usr/bin/env python3
"""Compares random templates between Jinja2 and the program sr1's tests build from
tests/unit/jinja/render_lines.c: fuzz_jinja.py PROGRAM COUNT SEED. Prints what differs; the exit
status says whether anything did."""
import json
import random
import subprocess
import sys

import jinja_reference

VARS = {
    "s": "Hello World", "t": "  a <think>\nb\n</think>\n\n c\u00e9 ", "e": "", "u": "\u4f60\u597d \u00c9t\u00e9 \U0001f600",
    "q": "it's \"q\" \\ \n\t\u0001\u00a0", "i": 7, "n": -3, "z": 0, "f": 2.5, "g": 1e-7, "h": 1e16, "b": True, "c": False, "o": None,
    "l": [3, 1, 2], "m": ["b", "A", "c", "a"], "k": [], "d": {"b": 1, "A": [1, 2], "c": None, "items": 3}, "w": {},
    "r": [{"role": "user", "content": "x", "n": 2}, {"role": "assistant", "content": None, "n": 1, "x": {"y": 5}},
          {"role": "tool", "content": "z \u00e9", "n": 3}],
    "p": "a,b,,c", "num": "42", "fl": " 3.50 ", "bad": "4x2", "nest": [[1, [2, "x"]], {"k": (1, 2) and [1]}],
}
NAMES = list(VARS) + ["missing"]
TEXTS = ["''", "'a'", "'l'", "' '", "'\\n'", "'<think>'", "','", "'A'", "\"it's\"", "'%s'", "'x' 'y'", "'\u00e9'", "'role'", "'n'", "'user'"]
INTS = ["0", "1", "2", "-1", "3", "10", "1_000", "0x1f", "-2"]
FILTERS0 = ["trim", "length", "count", "upper", "lower", "title", "capitalize", "default", "first", "last", "list", "tojson",
            "items", "dictsort", "string", "int", "float", "round", "abs", "unique", "sort", "reverse", "join", "max", "min", "sum",
            "batch(2)|list", "batch(3, 'f')|list", "slice(2)|list", "slice(3, 0)|list", "groupby('role')", "groupby('n')|list",
            "groupby(0)", "groupby('x.y', default='z')|map(attribute='grouper')|list", "groupby('role')|map(attribute='list')|map('length')|list",
            "groupby('content', case_sensitive=true)|map('first')|list", "groupby('n')|map('last')|list",
            "d('q')", "default('q', true)", "default('x', boolean=true)", "list|tojson", "safe", "e", "escape"]
TESTS0 = ["defined", "undefined", "none", "true", "false", "boolean", "integer", "float", "number", "string", "mapping", "sequence",
          "iterable", "callable", "even", "odd", "lower", "upper", "not none", "not string", "not defined"]
METHODS = ["strip()", "lstrip()", "rstrip()", "upper()", "lower()", "title()", "capitalize()", "split()", "splitlines()", "items()", "keys()",
           "values()", "isdigit()", "isalpha()", "isspace()", "isupper()", "islower()", "isalnum()", "copy()", "append(1)", "update(a=1)", "pop()", "foo()"]

# What is refused here on purpose, or earlier than by Jinja2: it folds slices of constants,
# and a generator that nobody reads raises nothing.
KNOWN = ["not supported", "64 bits", "has no slices", "cannot be gone through", "items of a", "there is no filter", "LoopContext cannot be printed",
         "a generator is printed", "a number is due, not a str"]


class Maker:
    def __init__(self, rng):
        self.rng = rng

    def pick(self, *rows):
        return self.rng.choice(rows)

    def atom(self):
        r = self.rng.random()
        if r < 0.5:
            return self.rng.choice(NAMES)
        if r < 0.7:
            return self.rng.choice(TEXTS)
        if r < 0.85:
            return self.rng.choice(INTS)
        return self.pick("1.5", "2.", "1e3", "true", "false", "none", "True", "None", "[]", "{}", "()", "[1, 2]", "(1, 'a')", "{'a': 1}",
                         "{'k': l, 2: 'x'}", "range(4)", "range(5, 0, -2)", "dict(a=1)", "namespace(a=1)", "['a', s]", "(1,)", "0.1 + 0.2", "1.0", "100.0")

    def expr(self, depth):
        if depth <= 0:
            return self.atom()
        x = lambda: self.expr(depth - 1)  # noqa: E731
        kind = self.rng.randrange(22)
        if kind <= 1:
            return self.atom()
        if kind == 2:
            return f"{x()} {self.pick('+', '-', '*', '/', '//', '%', '~', '**')} {x()}"
        if kind == 3:
            return f"({x()} {self.pick('+', '~', '~', '+', '*')} {x()})"
        if kind == 4:
            return f"{x()} {self.pick('==', '!=', '<', '>', '<=', '>=', 'in', 'not in')} {x()}"
        if kind == 5:
            return f"({x()} {self.pick('and', 'or')} {x()})"
        if kind == 6:
            return f"not {x()}"
        if kind == 7:
            return f"({x()} if {x()} else {x()})"
        if kind in (8, 9):
            return f"{self.paren(depth)}|{self.rng.choice(FILTERS0)}"
        if kind == 10:
            return f"{self.paren(depth)}|{self.filter1(depth)}"
        if kind == 11:
            return f"({x()} is {self.rng.choice(TESTS0)})"
        if kind == 12:
            return f"({x()} is {self.pick('eq', 'equalto', 'ne', 'in', 'lt', 'ge', 'gt', 'sameas', 'divisibleby')}({x()}))"
        if kind in (13, 14):
            return f"{self.paren(depth)}.{self.rng.choice(METHODS)}"
        if kind == 15:
            return f"{self.paren(depth)}.{self.method1(depth)}"
        if kind == 16:
            return f"{self.paren(depth)}[{x()}]"
        if kind == 17:
            part = lambda: self.pick("", "", "1", "-1", "2", "-2", "0", "5")  # noqa: E731
            return f"{self.paren(depth)}[{part()}:{part()}{self.pick('', '', ':-1', ':2', ':-2', ':')}]"
        if kind == 18:
            return f"{self.paren(depth)}.{self.pick('role', 'content', 'n', 'items', 'b', 'A', 'x', 'a', 'zz', '0', '1')}"
        if kind == 19:
            return f"[{x()}, {x()}]"
        if kind == 20:
            return "{" + f"{self.rng.choice(TEXTS)}: {x()}" + "}"
        return f"{self.pick('-', '+')}{x()}"

    def paren(self, depth):
        e = self.expr(depth - 1)
        return e if e.isidentifier() or e[:1] in "'\"[" and e[-1:] in "'\"]" and e.count(e[0]) < 3 else f"({e})"

    def filter1(self, depth):
        x = self.expr(depth - 2)
        return self.pick(f"join({x})", "join(', ')", "join('-', attribute='role')", "map('upper')|list", "map(attribute='role')|list",
                         "map(attribute='n')|join(',')", "map(attribute='x.y', default=0)|list", "map('int')|list", "map('trim')|join('|')",
                         "selectattr('role', 'equalto', 'user')|list", "selectattr('content')|list|length", "rejectattr('role', 'in', ['user', 'tool'])|list",
                         "select('string')|list", "reject('none')|list", "select|list", "reject('equalto', 1)|list", "selectattr('n', '>', 1)|list",
                         "tojson(indent=2)", "tojson(indent=4, sort_keys=true)", "tojson(separators=(',', ':'))", "tojson(ensure_ascii=true)", "tojson(sort_keys=true)",
                         "tojson(true)", "tojson(indent=0)", f"tojson(indent={x})",
                         "dictsort(by='value')", "dictsort(reverse=true)", "dictsort(true)", "sort(attribute='n')", "sort(reverse=true)",
                         "sort(attribute='role', reverse=true)|map(attribute='role')|list", "sort(case_sensitive=true)", f"replace({x}, 'Z')", "replace('l', '')",
                         "replace('', '-')", "replace('l', 'L', 1)", "indent(2)", "indent(width=3, first=true)", "indent('>', blank=true)", "indent", f"default({x})",
                         f"int({x})", "int(5)", "int(base=16)", "float(1.5)", "round(1)", "round(2, 'ceil')", "round(0, 'floor')", "round(method='floor')", "trim('a ')",
                         "unique(attribute='role')|list|length", "max(attribute='n')", "min(attribute='n')", "sum(attribute='n')", "sum(start=2)", "first|upper",
                         "attr('upper')()", "format(1, 'a')", "reverse|list", "list|length", "batch", "nofilter", "map('nofilter')|list", "items|list", "string|length")

    def method1(self, depth):
        x = self.expr(depth - 2)
        return self.pick(f"split({x})", "split(',')", "split('</think>')[-1]", "split('l', 1)", "rsplit('l', 1)", "split(' ', maxsplit=1)", f"startswith({x})",
                         f"endswith({x})", "startswith('H')", "startswith(('x', 'H'))", "endswith('d')", "strip('\\n')", "lstrip(' a')", "rstrip('d ')", f"strip({x})",
                         f"replace({x}, 'Z')", "replace('l', 'LL')", "replace('o', '0', 1)", "find('o')", "find('zz')", "rfind('l')", "count('l')", f"count({x})",
                         "index('W')", f"join({x})", "join(['a', 'b'])", f"get({x})", "get('b')", "get('zz', 5)", "get('zz')", "partition('o')", "rpartition('o')",
                         "removeprefix('He')", "removesuffix('ld')", "splitlines(true)", f"find({x})")

    def statement(self, depth):
        x = lambda: self.expr(2)  # noqa: E731
        body = lambda: "".join(self.part(depth - 1) for _ in range(self.rng.randrange(1, 3)))  # noqa: E731
        o, c = self.pick("{%", "{%-", "{%", "{%+"), self.pick("%}", "-%}", "%}")
        v = self.pick("va", "vb", "s", "i", "ns.x")
        kind = self.rng.randrange(15)
        if kind <= 1:
            return f"{o} if {x()} {c}{body()}{o} elif {x()} {c}{body()}{{% else %}}{body()}{o} endif {c}"
        if kind == 2:
            return f"{o} if {x()} {c}{body()}{o} endif {c}"
        if kind in (3, 4):
            over = self.pick("r", "l", "m", "d", "range(3)", "s", "k", "missing", "d.items()", "r[::-1]", "m|sort", x())
            t = self.pick("a", "a", "a", "a, b2") if over != "d.items()" else "a, b2"
            cond = self.pick("", "", "", f" if {self.pick('a', 'loop is defined', 'ns.x', 'a != 1', x())}")
            inner = self.pick("{{ loop.index }}", "{{ loop.last }}{{ loop.first }}", "{{ loop.index0 ~ loop.length }}", "{{ loop.previtem }}{{ loop.nextitem is defined }}",
                              "{% if loop.index > 1 %}{% break %}{% endif %}", "{% if loop.first %}{% continue %}{% endif %}", "{{ loop.revindex }}{{ loop.cycle('x', 'y') }}",
                              "{% set ns.x = ns.x ~ loop.index %}", "{{ a }}", "{{ loop.changed(a) }}", "{% set va = a %}{{ va }}")
            tail = self.pick("", "", f"{{% else %}}{body()}")
            return f"{o} for {t} in {over}{cond} {c}{inner}{body()}{inner}{tail}{o} endfor {c}"
        if kind in (5, 6):
            return f"{o} set {v} = {x()} {c}"
        if kind == 7:
            return f"{o} set {v}{self.pick('', '|trim', '|upper|trim', '|replace(1, 2)')} {c}{body()}{o} endset {c}"
        if kind == 8:
            args = self.pick("", "a", "a, b2=5", "a=1", "a, b2='x', c2=none")
            call = self.pick("mac()", "mac(1)", "mac(1, 2)", "mac(a=s)", "mac(1, b2=i)", "mac(c2=1)", "mac(*l)", "mac(**d)")
            extra = self.pick("", "", "{{ varargs }}", "{{ kwargs }}", "{{ va }}", "{{ caller is defined }}", "{{ loop is defined }}")
            return f"{o} macro mac({args}) {c}[{{{{ a }}}}{{{{ b2 }}}}{extra}{body()}]{o} endmacro {c}{{{{ {call} }}}}{{{{ {call}|length }}}}"
        if kind == 9:
            return f"{o} generation {c}{body()}{o} endgeneration {c}"
        if kind == 10:
            return f"{{#{self.pick('-', '', ' x', '+')} note {self.pick('-', '', ' ', '+')}#}}"
        if kind == 11:
            return f"{o} raw {self.pick('%}', '-%}')} {{{{ x }}}} {self.pick('{%', '{%-', '{%+')} endraw {c}"
        if kind == 12:
            return f"{o} set va, vb = {self.pick('1, 2', 'l[:2]', '(s, i)', x())} {c}"
        if kind == 13:
            return f"{o} with va = {x()}, vb = va {c}{{{{ va }}}}{{{{ vb }}}}{body()}{o} endwith {c}"
        return f"{o} filter {self.pick('upper', 'trim', 'replace(1, 2)|lower')} {c}{body()}{o} endfilter {c}"

    def part(self, depth):
        r = self.rng.random()
        if r < 0.3 or depth <= 0:
            return self.pick("text", "\n", "  ", "\n  ", " x\n", "\t", "<|im_start|>", "\n\n", "{ ", "}}", "\r\n", "\u00a0")
        if r < 0.55:
            v = self.pick("va", "vb", "ns.x", "s", "i", "a", "loop")
            return self.pick("{{ %s }}", "{{- %s -}}", "{{ %s -}}", "{{- %s }}", "{{%s}}") % self.pick(v, v, self.expr(2))
        return self.statement(depth)

    def template(self):
        if self.rng.random() < 0.6:
            return "{{ " + self.expr(self.pick(1, 2, 2, 3, 3, 4)) + " }}"
        return "{% set ns = namespace(x='') %}" + "".join(self.part(3) for _ in range(self.rng.randrange(1, 6)))


def main(program, count, seed):
    env, make = jinja_reference.environment(), Maker(random.Random(int(seed)))
    child = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    differ = shown = fine = refused = 0
    for _ in range(int(count)):
        template = make.template()
        want = jinja_reference.render(env, template, VARS)
        child.stdin.write(json.dumps({"template": template, "vars": VARS}) + "\n")
        child.stdin.flush()
        line = child.stdout.readline()
        got = json.loads(line) if line else {"error": "the program ended"}
        if want is not None and "<generator" in want or want and " at 0x" in want:
            continue
        fine += want is not None
        refused += want is None
        if got.get("text") != want and not any(words in got.get("error", "") for words in KNOWN):
            differ += 1
            if shown < 25:
                shown += 1
                print(repr(template), "\n   jinja2", repr(want), "\n   here  ", repr(got.get("text")), got.get("error"))
        if not line:
            break
    print(f"{differ} differ; {fine} printed, {refused} refused by Jinja2")
    return differ > 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
