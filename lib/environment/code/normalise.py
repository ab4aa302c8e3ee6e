# Says which programs are the same but for layout, comments and the names of local
# variables; embedded in the library, run as a process that answers requests. It reads
# programs and never runs them.
#
# Request: four bytes, big endian, and as many of UTF-8. Answer: a line, "=" and the
# SHA-256 of the normal form, or "x": the text itself has to be taken.
#
# Two programs of one normal form do the same, whatever runs after them in their name
# space: only names that nothing else can see are given new ones. So a program is taken as
# it is when it could see its own text or local names (exec, locals, __code__, tracebacks,
# ...; any import that is not on the list below), or has anything whose scopes are not
# plain (classes, global, nonlocal, walrus, type parameters). Renamed are variables that a
# function or comprehension assigns to; never parameters (they may be given by name), what
# is imported or defined, nor a name that also means something at the top or elsewhere.
import ast
import hashlib
import os
import re
import resource
import sys

MODULES = set(
    """math cmath collections heapq bisect itertools functools operator string re random
    datetime time copy statistics decimal fractions typing array queue enum numbers
    textwrap calendar json hashlib struct sys""".split()
)
SYS = {"stdin", "stdout", "maxsize", "setrecursionlimit", "exit", "readline", "read",
       "write", "flush"}
SEEING = set(
    """exec eval compile globals locals vars dir getattr setattr delattr hasattr open
    help breakpoint __import__ __build_class__ __debug__ __file__
    __doc__ __annotations__ __dict__ __code__ _getframe modules argv
    settrace setprofile exc_info last_traceback f_locals gi_frame cr_frame tb_frame
    co_varnames co_names func_code with_traceback add_note get_type_hints
    get_annotations singledispatch singledispatchmethod intern attrgetter methodcaller
    Formatter""".split()
)
DUNDERS = {"__name__"}
# What says no name of a variable in its text.
PLAIN_ERRORS = set(
    """ValueError KeyError IndexError ZeroDivisionError EOFError StopIteration
    OverflowError ArithmeticError LookupError RecursionError MemoryError""".split()
)
DOCUMENTED = (ast.FunctionDef, ast.AsyncFunctionDef)
FUNCTIONS = DOCUMENTED + (ast.Lambda,)
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
REFUSED = (ast.ClassDef, ast.Global, ast.Nonlocal, ast.NamedExpr) + tuple(
    getattr(ast, name)
    for name in ("Match", "TypeAlias", "TypeVar", "TryStar", "TemplateStr")
    if hasattr(ast, name)
)


class AsItIs(Exception):
    pass


def check_name(name):
    if name in SEEING or (name.startswith("__") and name not in DUNDERS):
        raise AsItIs(name)
    if re.fullmatch(r"v\d+_", name):
        raise AsItIs(name)


def check_constant(value):
    """Texts that could be looked up as attributes ("{0.__code__}")."""
    if isinstance(value, str) and value != "__main__":
        if re.search(r"__|gi_|cr_|ag_|tb_|co_|f_locals", value):
            raise AsItIs("a text")


def check_import(node):
    for alias in node.names:
        check_name(alias.asname or alias.name)
        module = alias.name if isinstance(node, ast.Import) else node.module or ""
        if alias.name == "*" or module.split(".")[0] not in MODULES:
            raise AsItIs(module)
        if isinstance(node, ast.ImportFrom) and module == "sys" and alias.name not in SYS:
            raise AsItIs(alias.name)
        if isinstance(node, ast.Import) and module == "sys" and alias.asname:
            raise AsItIs("sys by another name")
        check_name(alias.name)


def check_handler(node):
    """An error that is looked at may say the name of a variable."""
    if node.name is None:
        return
    kinds = node.type.elts if isinstance(node.type, ast.Tuple) else [node.type]
    for kind in kinds:
        if not isinstance(kind, ast.Name) or kind.id not in PLAIN_ERRORS:
            raise AsItIs("an error is looked at")


def check(tree):
    """Refuse what could see names or places, or whose scopes are not plain."""
    inside_sys = set()
    for node in ast.walk(tree):
        if isinstance(node, REFUSED) or getattr(node, "type_params", None):
            raise AsItIs(type(node).__name__)
        if isinstance(node, ast.Name):
            check_name(node.id)
        elif isinstance(node, ast.Constant):
            check_constant(node.value)
        elif isinstance(node, ast.Attribute):
            check_name(node.attr)
            if node.attr.startswith("_"):
                raise AsItIs(node.attr)
            if isinstance(node.value, ast.Name) and node.value.id == "sys":
                inside_sys.add(node.value)
                if node.attr not in SYS:
                    raise AsItIs("sys")
        elif isinstance(node, ast.arg):
            check_name(node.arg)
        elif isinstance(node, DOCUMENTED):
            check_name(node.name)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            check_import(node)
        elif isinstance(node, ast.ExceptHandler):
            check_handler(node)
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id == "sys" and node not in inside_sys:
            raise AsItIs("sys")


class Scope:
    def __init__(self, outer):
        self.outer = outer
        self.names = {}  # bound here by assignment: its new name, or None


class Scopes(ast.NodeVisitor):
    """Which scope each Name belongs to, in the order of the program; what else binds
    names."""

    def __init__(self):
        self.scope = None  # None: the top
        self.uses = []  # (node, scope)
        self.kept = set()

    def visit_Name(self, node):
        self.uses.append((node, self.scope))
        if self.scope is None:
            self.kept.add(node.id)
        elif not isinstance(node.ctx, ast.Load):
            self.scope.names.setdefault(node.id, None)

    def inside(self, nodes):
        self.scope = Scope(self.scope)
        for node in nodes:
            self.visit(node)
        self.scope = self.scope.outer

    def visit_function(self, node):
        if not isinstance(node, ast.Lambda):
            self.kept.add(node.name)
            for outer in node.decorator_list + ([node.returns] if node.returns else []):
                self.visit(outer)
        arguments = node.args
        every = arguments.posonlyargs + arguments.args + arguments.kwonlyargs
        every += [a for a in (arguments.vararg, arguments.kwarg) if a]
        for argument in every:
            self.kept.add(argument.arg)
            if argument.annotation:
                self.visit(argument.annotation)
        for default in arguments.defaults + arguments.kw_defaults:
            if default:
                self.visit(default)
        self.inside([node.body] if isinstance(node, ast.Lambda) else node.body)

    visit_FunctionDef = visit_AsyncFunctionDef = visit_Lambda = visit_function

    def visit_comprehension_of(self, node):
        first, rest = node.generators[0], node.generators[1:]
        self.visit(first.iter)
        parts = [first.target] + first.ifs
        for generator in rest:
            parts += [generator.target, generator.iter] + generator.ifs
        if isinstance(node, ast.DictComp):
            parts += [node.key, node.value]
        else:
            parts.append(node.elt)
        self.inside(parts)

    visit_ListComp = visit_SetComp = visit_comprehension_of
    visit_DictComp = visit_GeneratorExp = visit_comprehension_of

    def visit_ExceptHandler(self, node):
        if node.name:
            self.kept.add(node.name)
        self.generic_visit(node)

    def visit_alias(self, node):
        self.kept.add((node.asname or node.name).split(".")[0])


def rename(tree):
    scopes = Scopes()
    scopes.visit(tree)
    count = 0
    for node, scope in scopes.uses:
        while scope is not None and node.id not in scope.names:
            scope = scope.outer
        if scope is None or node.id in scopes.kept:
            continue
        if scope.names[node.id] is None:
            scope.names[node.id] = "v%d_" % count
            count += 1
        node.new = scope.names[node.id]
    for node, _ in scopes.uses:
        node.id = getattr(node, "new", node.id)


def normal_form(text):
    if any("coding" in line for line in text.splitlines()[:2]):
        raise AsItIs("its encoding may be named")
    tree = ast.parse(text)
    check(tree)
    rename(tree)
    return ast.dump(tree, annotate_fields=False)


def answer(text):
    try:
        form = normal_form(text)
    except (AsItIs, SyntaxError, ValueError, RecursionError, MemoryError):
        return "x"
    return "=" + hashlib.sha256(form.encode("utf-8", "surrogatepass")).hexdigest()


def read(n):
    data = b""
    while len(data) < n:
        piece = os.read(0, n - len(data))
        if not piece:
            sys.exit(0)
        data += piece
    return data


def main():
    resource.setrlimit(resource.RLIMIT_AS, (1 << 31, 1 << 31))
    while True:
        text = read(int.from_bytes(read(4), "big"))
        os.write(1, (answer(text.decode("utf-8", "replace")) + "\n").encode())


if __name__ == "__main__":
    main()
