"""calls.py HEADER... - C that calls every public function, from the public headers.

Prints for each function a row of misuse_functions (tests/misuse/misuse.h): how to call it
with arguments from an array, what its parameters are, and whether its comment speaks of
NULL; and for each public struct its fields. Nothing here knows a function or a struct by
name: what is new in a header is covered when the tests are next built.
"""
import re
import sys

INTEGERS = {"size_t": (8, 0), "uint64_t": (8, 0), "int64_t": (8, 1), "uint32_t": (4, 0),
            "int32_t": (4, 1), "sr1_status": (4, 1), "uint8_t": (1, 0)}
REALS = {"double": 8, "float": 4}


def squeeze(text):
    return re.sub(r"\s+", " ", text).strip()


def uncomment(text):
    return re.sub(r"/\*.*?\*/", " ", text, flags=re.S)


def split_list(text):
    """Split at commas outside of parentheses."""
    parts, depth, part = [], 0, ""
    for c in text:
        depth += (c == "(") - (c == ")")
        if c == "," and depth == 0:
            parts.append(part)
            part = ""
        else:
            part += c
    return [squeeze(p) for p in parts + [part]]


class Headers:
    def __init__(self, paths):
        self.functions, self.structs, self.handles, self.callbacks = [], {}, set(), set()
        self.comments = {}
        for path in paths:
            with open(path, encoding="utf-8") as file:
                self.read(file.read())
        self.handles -= set(self.structs)
        # What only a struct points to is no handle: no function takes or makes one.
        used = " ".join(returned + " " + arguments for returned, _, arguments in self.functions)
        self.handles &= set(re.findall(r"\bsr1_\w+", used))

    def read(self, raw):
        text = re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", "", raw, flags=re.M)
        plain = uncomment(text)
        for m in re.finditer(r"typedef struct (sr1_\w+) \{(.*?)\n\} \1;", plain, re.S):
            self.structs[m[1]] = [f for f in map(squeeze, m[2].split(";")) if f]
        for m in re.finditer(r"typedef struct (sr1_\w+) \1;", plain):
            self.handles.add(m[1])
        for m in re.finditer(r"typedef [^;{]*?\(\*(sr1_\w+)\)\(", plain):
            self.callbacks.add(m[1])
        comment = ""
        for m in re.finditer(r"/\*(.*?)\*/|SR1_API ([^;]*?)\b(sr1_\w+)\(([^;]*)\);", text, re.S):
            if m[1] is not None:
                comment = m[1]
                continue
            self.functions.append((squeeze(uncomment(m[2])), m[3], uncomment(m[4])))
            self.comments[m[3]] = squeeze(comment.replace("\n *", " "))

    def comment(self, name, depth=3):
        """Its own comment, and those it refers to ("As sr1_bm25_verify")."""
        text = self.comments.get(name, "")
        if depth:
            text += "".join(self.comment(other, depth - 1)
                            for other in re.findall(r"\bsr1_\w+", text))
        return text

    def kind(self, type_):
        """(enum kind, name of the type pointed to, whether what it points to is const)"""
        base = squeeze(type_.replace("const", " ").replace("*", " "))
        stars = type_.count("*")
        const = "const" in type_.split("*")[0]
        if stars == 0:
            if base in self.callbacks:
                return "FUNCTION", "", 0
            return ("REAL" if base in REALS else "INTEGER"), base, 0
        if stars == 1 and base == "void" and not const:
            return "USER", base, 0
        if stars == 1 and base in self.handles:
            return "HANDLE", base, const
        if stars == 1 and base in self.structs:
            return "STRUCT", base, const
        if stars == 1 and base == "char" and const:
            return "TEXT", base, 1
        if stars == 2 and type_.rstrip("* ").endswith("const") and "*const *" in type_:
            return "POINTERS", base, 1
        if stars == 1 and const:
            return "INPUT", base, 1
        return "OUTPUT", base, 0


def declared(text):
    """"const char *const *paths" -> (type, name); "float a[4]" -> array"""
    m = re.match(r"(.*?)(\w+)((?:\[[^]]*\])*)$", text)
    return squeeze(m[1]), m[2], m[3]


def emit_shapes(h):
    taken = {h.kind(declared(a)[0])[1] for _, _, arguments in h.functions
             for a in split_list(arguments) if a != "void"}
    for name, fields in sorted(h.structs.items()):
        if name not in taken:
            continue
        print("static const struct field fields_%s[] = {" % name)
        for field in fields:
            m = re.match(r"[^(]*\(\*(\w+)\)\(", field)
            parts = [field] if m else split_list(field)
            for part in parts:
                if m:
                    kind, base, fname = "FUNCTION", "", m[1]
                else:
                    type_, fname, array = declared(part)
                    kind, base, _ = h.kind(type_)
                    if array:
                        kind = "ARRAY"
                print('    {"%s", "%s", %s, offsetof(%s, %s), sizeof(((%s *)0)->%s)},' %
                      (fname, base, kind, name, fname, name, fname))
        print("};")
        init = name + "_init"
        init = "(void (*)(void *))%s" % init if any(
            f[1] == init and "," not in f[2] for f in h.functions) else "NULL"
        print("static const struct shape shape_%s = {\"%s\", sizeof(%s), %s,\n"
              "    fields_%s, sizeof fields_%s / sizeof fields_%s[0]};" %
              (name, name, name, init, name, name, name))


def emit_function(h, result, name, arguments):
    params = [] if squeeze(arguments) == "void" else \
        [declared(a)[:2] for a in split_list(arguments)]
    slots = []
    for i, (type_, _) in enumerate(params):
        kind = h.kind(type_)[0]
        slots.append("(%s)a[%d].%s" % (type_, i, {"REAL": "d", "INTEGER": "i",
                                                  "FUNCTION": "f"}.get(kind, "p")))
    call = "%s(%s)" % (name, ", ".join(slots))
    if result == "void":
        kind, body = "NOTHING", call + ";"
    elif "*" in result:
        kind = "STRING" if result.startswith("const char") else "POINTER"
        body = "r->p = (void *)(uintptr_t)%s;" % call
    elif result in REALS:
        kind, body = "NUMBER", "r->d = %s;" % call
    else:
        kind = "STATUS" if result == "sr1_status" else "COUNT"
        body = "r->i = (int64_t)%s;" % call
    print("static void call_%s(const union slot *a, union slot *r)\n{\n    (void)a;\n"
          "    (void)r;\n    %s\n}" % (name, body))
    if params:
        print("static const struct param params_%s[] = {" % name)
        for type_, pname in params:
            k, base, const = h.kind(type_)
            size, is_signed = INTEGERS.get(base, (0, 0))
            shape = "&shape_" + base if base in h.structs and k == "STRUCT" else "NULL"
            print('    {"%s", "%s", %s, %d, %d, %d, %s},' %
                  (pname, base, k, const, size, is_signed, shape))
        print("};")
    return '    {"%s", %s, %d, (void (*)(void))%s, call_%s, %s, %d},' % (
        name, kind, "NULL" in h.comment(name), name, name,
        "params_" + name if params else "NULL", len(params))


def main():
    h = Headers(sys.argv[1:])
    print("/* Generated by tests/misuse/calls.py. */")
    for _, name, _ in h.functions:
        print("#pragma weak %s" % name)
    print('#include "misuse/misuse.h"\n#include <searchr1/ext/ext.h>\n#include <searchr1/searchr1.h>\n')
    emit_shapes(h)
    rows = [emit_function(h, *f) for f in h.functions]
    print("const struct function misuse_functions[] = {")
    print("\n".join(rows))
    print("};\nconst size_t misuse_n_functions = %d;" % len(rows))
    print("const char *const misuse_handles[] = {%s, NULL};" %
          ", ".join('"%s"' % n for n in sorted(h.handles)))


if __name__ == "__main__":
    main()
