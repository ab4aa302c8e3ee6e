#!/usr/bin/env python3
"""ctypes_tables.py [--set] - the public headers as Python's ctypes declarations.

Writes bindings/python/searchr1/_structs.py and _functions.py (--set), or compares them with
what it would write; then it names those that differ and ends with 1.

Class names are those of C without sr1_: SearchHit is sr1_search_hit, LogFn is sr1_log_fn,
EnvOpsAct the member act of sr1_env_ops. A struct that the library fills holds pointers as
plain addresses: text there need not end with a NUL byte, and arrays are read by their length.
"""
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "bindings/python/searchr1"
WIDTH = 90
NUMBERS = {"double": "c_double", "float": "c_float", "size_t": "c_size_t",
           "sr1_status": "c_int32"}
NUMBERS.update((f"{u}int{n}_t", f"c_{u}int{n}") for u in ("", "u") for n in (8, 32, 64))
GIVES_BACK = {"sr1_set_error"}  # the status it is told, which is no failure of its own
NOTE = "Written by tools/dev/ctypes_tables.py from the public headers; do not edit."


def squeeze(text):
    return re.sub(r"\s+", " ", text).strip()


def split_list(text):
    """Split at commas outside of parentheses; nothing for "void"."""
    parts, depth, part = [], 0, ""
    for c in text:
        depth += (c == "(") - (c == ")")
        if c == "," and depth == 0:
            parts.append(part)
            part = ""
        else:
            part += c
    return [] if squeeze(text) == "void" else [squeeze(p) for p in parts + [part]]


def python_name(c_name):
    return "".join(part.capitalize() for part in c_name[4:].split("_"))


def type_of(declaration):
    """The type of "const char *name": without its name and array bounds."""
    return squeeze(re.sub(r"(\w+)(\[\w+\])?$", "", declaration))


def name_of(declaration):
    member = re.search(r"\(\*(\w+)\)", declaration)
    return member[1] if member else re.search(r"(\w+)(\[\w+\])?$", declaration)[1]


class Headers:
    """Functions, structs and function types, in the order of the core, then of ext."""

    def __init__(self, root):
        folder = root / "include/searchr1"
        paths = sorted(folder.glob("*.h")) + sorted((folder / "ext").glob("*.h"))
        self.functions, self.structs, self.callbacks, self.handles = {}, {}, {}, set()
        for path in paths:
            text = re.sub(r"/\*.*?\*/", " ", path.read_text(encoding="utf-8"), flags=re.S)
            text = re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*$", "", text, flags=re.M)
            self.read(str(path.relative_to(folder)), text)
        self.handles -= set(self.structs)
        self.filled = self.find_filled()

    def read(self, header, text):
        self.handles |= set(re.findall(r"typedef struct (sr1_\w+) \1;", text))
        for m in re.finditer(r"typedef ([^;{]*?)\(\*(sr1_\w+)\)\(([^;]*)\);", text):
            self.callbacks[python_name(m[2])] = (squeeze(m[1]), split_list(m[3]))
        for m in re.finditer(r"typedef struct (sr1_\w+) \{(.*?)\n\} \1;", text, re.S):
            fields = [f for f in map(squeeze, m[2].split(";")) if f]
            assert fields[0] == "size_t struct_size", m[1]
            self.structs[m[1]] = fields[1:]
            for field in fields:
                call = re.fullmatch(r"(.*?)\(\*(\w+)\)\((.*)\)", field)
                if call:
                    name = python_name(m[1]) + python_name("sr1_" + call[2])
                    self.callbacks[name] = (squeeze(call[1]), split_list(call[3]))
        found = re.findall(r"SR1_API\s+([\w\s*]+?)(sr1_\w+)\(([^;]*)\);", text)
        if found:
            self.functions[header] = [
                (squeeze(result), name, split_list(arguments))
                for result, name, arguments in found
            ]

    def find_filled(self):
        """Structs that the library fills: outputs, and what callbacks are given."""
        taken, given = set(), set()
        for rows in self.functions.values():
            for _, name, arguments in rows:
                for a in (a for a in arguments if "*" in a and not name.endswith("_init")):
                    (taken if "const" in a else given).update(re.findall(r"sr1_\w+", a))
        for _, arguments in self.callbacks.values():
            given.update(w for a in arguments for w in re.findall(r"sr1_\w+", a))
        return given - taken

    def pointer(self, kind):
        """A pointer to text, numbers, structs or handles, beside those to pointers."""
        base, stars = kind.replace("const", "").replace("*", "").strip(), kind.count("*")
        if base == "char" and stars == 2:
            return "POINTER(c_char_p)" if "const" in kind else "POINTER(c_void_p)"
        if stars == 2:
            return "POINTER(c_void_p)"
        if base in NUMBERS:
            return f"POINTER({NUMBERS[base]})"
        return f"POINTER({python_name(base)})" if base in self.structs else "c_void_p"

    def value(self, kind):
        return NUMBERS.get(kind) or (None if kind == "void" else python_name(kind))


def field_type(h, struct, field, following):
    """The ctypes type of a member; following: the member behind it."""
    kind, bound = type_of(field), re.search(r"\[(\w+)\]$", field)
    if "(*" in field:
        return python_name(struct) + python_name("sr1_" + name_of(field))
    if bound:
        return f"{h.value(kind)} * {bound[1]}"
    if "*" not in kind:
        return h.value(kind)
    if kind == "const char *":
        sized = struct in h.filled and following.startswith("size_t ")
        return "c_void_p" if sized else "c_char_p"
    return "c_void_p" if struct in h.filled or kind == "char *" else h.pointer(kind)


def callback_type(h, name):
    """CFUNCTYPE(result, argument, ...); text that comes with a length is an address."""
    result, arguments = h.callbacks[name]
    types = [str(h.value(result))]
    for i, a in enumerate(arguments):
        kind = type_of(a)
        following = arguments[i + 1] if i + 1 < len(arguments) else ""
        if "*" not in kind:
            types.append(h.value(kind))
        elif kind == "const char *":
            types.append("c_void_p" if following.startswith("size_t ") else "c_char_p")
        else:
            types.append(h.pointer(kind))
    return f"CFUNCTYPE({', '.join(types)})"


def argument_type(h, argument):
    """As an argument a handle has a type of its own (_address.py)."""
    kind = type_of(argument)
    base = kind.replace("const", "").replace("*", "").strip()
    if "*" not in kind:
        return h.value(kind)
    if kind == "const char *":
        return "c_char_p"
    if base in h.handles and kind.count("*") == 1:
        return base[4:].upper()
    return h.pointer(kind)


def result_type(h, name, result, arguments):
    sized = any(type_of(a) == "size_t *" for a in arguments)
    if result == "sr1_status" and name not in GIVES_BACK:
        return "STATUS"
    if result == "const char *" and not sized:
        return "c_char_p"
    return "c_void_p" if "*" in result else str(h.value(result))


# ---- text ----


def call(head, items, tail, indent=0):
    """head + items + tail in one line, or in as many as are needed."""
    pad = " " * indent
    line = pad + head + ", ".join(items) + tail
    if len(line) <= WIDTH:
        return line
    lines, inner = [pad + head], " " * (indent + 4)
    for item in items:
        if len(lines) > 1 and len(lines[-1]) + len(item) + 2 <= WIDTH:
            lines[-1] += f" {item},"
        else:
            lines.append(f"{inner}{item},")
    return "\n".join(lines + [pad + tail.lstrip(",")])


def imports(module, names):
    return call(f"from {module} import (", sorted(names, key=str.lower), ")").replace(
        "(", "" if len(names) == 1 else "("
    ).replace(")", "" if len(names) == 1 else ")")


def words(text, wanted):
    return sorted(set(re.findall(r"\b\w+\b", text)) & set(wanted))


CTYPES = ["CFUNCTYPE", "POINTER", "c_char_p", "c_void_p", *set(NUMBERS.values())]


def structs_text(h):
    parts, done = [], set()

    def add_callback(name):
        if name in done:
            return
        done.add(name)
        text = callback_type(h, name)
        for needed in re.findall(r"POINTER\(([A-Z]\w+)\)", text):
            add_struct(next(s for s in h.structs if python_name(s) == needed))
        head = f"{name} = CFUNCTYPE("
        parts.append(call(head, split_list(text[len("CFUNCTYPE(") : -1]), ")"))

    def add_struct(struct):
        if struct in done:
            return
        done.add(struct)
        fields, rows = h.structs[struct], []
        for i, field in enumerate(fields):
            following = fields[i + 1] if i + 1 < len(fields) else ""
            kind = field_type(h, struct, field, following)
            for needed in re.findall(r"POINTER\(([A-Z]\w+)\)", kind):
                add_struct(next(s for s in h.structs if python_name(s) == needed))
            if kind in h.callbacks:
                add_callback(kind)
            rows.append(f'        ("{name_of(field)}", {kind}),')
        parts.append("\n".join([f"\n\nclass {python_name(struct)}(Sized):",
                                "    _fields_ = [", *rows, "    ]\n\n"]))

    for name in (n for n in h.callbacks if n.endswith("Fn")):
        add_callback(name)
    for struct in h.structs:
        add_struct(struct)
    body = re.sub(r"\n{3,}", "\n\n\n", "\n".join(parts)).strip("\n")
    used = words(body, CTYPES)
    return (
        f'"""Structs and callback types of the public headers, field by field.\n\n{NOTE}\n'
        '"""\n\nfrom __future__ import annotations\n\n'
        f"{imports('ctypes', used)}\n\nfrom ._sized import Sized\n\n{body}\n"
    )


def functions_text(h):
    rows, handles = [], set()
    for header, functions in h.functions.items():
        rows.append(f"    # {header}")
        for result, name, arguments in functions:
            types = [result_type(h, name, result, arguments)]
            types += [argument_type(h, a) for a in arguments]
            handles |= {t for t in types if t.isupper() and t != "STATUS"}
            tail = ",)," if len(types) == 1 else "),"
            rows.append(call(f'"{name}": (', types, tail, 4))
    body = "\n".join(rows)
    ours = [python_name(s) for s in h.structs] + list(h.callbacks)
    constants = "\n".join(f'{t} = handle("sr1_{t.lower()}")' for t in sorted(handles))
    return (
        '"""Every function of the public headers: result type, then argument types.\n\n'
        f"{NOTE}\nSTATUS marks a sr1_status that is raised as an exception when it is not "
        'SR1_OK.\n"""\n\nfrom __future__ import annotations\n\n'
        f"{imports('ctypes', words(body, CTYPES))}\nfrom typing import Any, Dict, Tuple\n\n"
        f"from ._address import handle\n{imports('._structs', words(body, ours))}\n\n"
        f"STATUS = object()\n\n{constants}\n\n# fmt: off\n"
        f"FUNCTIONS: Dict[str, Tuple[Any, ...]] = {{\n{body}\n}}\n"
    )


def main(arguments):
    h = Headers(ROOT)
    wanted = {"_structs.py": structs_text(h), "_functions.py": functions_text(h)}
    stale = [n for n, text in wanted.items()
             if not (PACKAGE / n).exists() or (PACKAGE / n).read_text() != text]
    if arguments == ["--set"]:
        for name in stale:
            (PACKAGE / name).write_text(wanted[name])
        return 0
    for name in stale:
        print(f"{PACKAGE / name}: not as the headers have it; "
              "run python3 tools/dev/ctypes_tables.py --set")
    return 1 if stale or arguments else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
