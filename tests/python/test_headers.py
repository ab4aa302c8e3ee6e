"""The declarations of the package are those of the public headers."""

import ctypes
import re
import subprocess
from ctypes import POINTER, c_char_p, c_int32, c_size_t, c_void_p

import pytest

from searchr1 import _structs, errors
from searchr1._functions import FUNCTIONS, STATUS
from searchr1._lib import lib

NUMBERS = {
    "double": ctypes.c_double,
    "float": ctypes.c_float,
    "size_t": c_size_t,
    "sr1_status": c_int32,
}
NUMBERS.update(
    {
        f"{u}int{n}_t": getattr(ctypes, f"c_{u}int{n}")
        for u in ("", "u")
        for n in (8, 32, 64)
    }
)
RAW = {"sr1_set_error"}  # gives back the status it is told


@pytest.fixture(scope="module")
def headers(source):
    """Text of all public headers without comments and preprocessor lines."""
    text = "\n".join(
        p.read_text() for p in sorted((source / "include/searchr1").glob("*.h"))
    )
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    return re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*$", "", text, flags=re.M)


def python_name(c_name):
    return "".join(part.capitalize() for part in c_name[4:].split("_"))


def python_type(declaration, result=False, sized=False):
    """The ctypes type of a C type; sized: a length comes with the result."""
    base = declaration.replace("const", "").replace("*", "").strip()
    stars = declaration.count("*")
    ours = getattr(_structs, python_name(base), None) if base.startswith("sr1_") else None
    if base == "char" and stars == 1:
        return c_void_p if result and sized else c_char_p
    if base == "char":
        return POINTER(c_char_p) if "const" in declaration else POINTER(c_void_p)
    if base in NUMBERS:
        if stars == 0:
            return NUMBERS[base]
        return c_void_p if result else POINTER(NUMBERS[base] if stars == 1 else c_void_p)
    if ours is not None and stars < 2:
        return POINTER(ours) if stars else ours
    return {0: None, 1: c_void_p, 2: POINTER(c_void_p)}[stars]


def declared(headers):
    for result, name, arguments in re.findall(
        r"SR1_API\s+([\w\s*]+?)(sr1_\w+)\(([^)]*)\);", headers
    ):
        types = [
            re.sub(r"\w+$", "", a.strip()) for a in arguments.split(",") if a != "void"
        ]
        sized = any(t.replace(" ", "") == "size_t*" for t in types)
        yield name, (result, sized), types


def test_every_function_is_declared(headers):
    names = {name for name, _, _ in declared(headers)}
    assert len(names) == headers.count("SR1_API") > 150
    assert names == set(FUNCTIONS)
    assert all(hasattr(lib, name) for name in names)


def test_types_of_functions(headers):
    wrong = []
    for name, (result, sized), types in declared(headers):
        status = result.strip() == "sr1_status" and name not in RAW
        wanted = (
            STATUS if status else python_type(result, True, sized),
            *map(python_type, types),
        )
        if FUNCTIONS[name] != wanted:
            wrong.append((name, FUNCTIONS[name], wanted))
    assert not wrong


def test_statuses(source):
    text = (source / "include/searchr1/base.h").read_text()
    codes = {int(code) for code in re.findall(r"X\(SR1_E_\w+, (-\d+),", text)}
    assert codes == set(errors.BY_STATUS)


@pytest.fixture(scope="module")
def layouts(source, tmp_path_factory):
    """{"sr1_x": size, "sr1_x.member": (offset, size)} as agreed or compiled."""
    stored = source / "lib/abi/layouts"
    text = stored.read_text() if stored.exists() else compiled(source, tmp_path_factory)
    lines = [
        line.split() for line in text.splitlines() if line and not line.startswith("#")
    ]
    return {name: tuple(map(int, numbers)) for name, *numbers in lines}


def compiled(source, tmp_path_factory):
    program = tmp_path_factory.mktemp("layouts") / "layouts"
    subprocess.run(
        [
            "sh",
            "-c",
            ". tests/lint/common.sh; stripped $(c_files include) | awk -v mode=layouts "
            f"-f tests/abi/names.awk | cc -std=c11 -Iinclude -x c -o {program} -",
        ],
        cwd=source,
        check=True,
    )
    return subprocess.run([program], capture_output=True, text=True, check=True).stdout


def test_layouts_of_structs(layouts):
    assert len(layouts) > 200
    for name, numbers in layouts.items():
        struct, _, member = name.partition(".")
        ours = getattr(_structs, python_name(struct))
        if member:
            field = getattr(ours, member)
            assert (field.offset, field.size) == numbers, name
        else:
            assert (ctypes.sizeof(ours),) == numbers, name


def test_no_struct_has_more_members(layouts):
    for name in (n for n in layouts if "." not in n):
        ours = getattr(_structs, python_name(name))
        members = [n for n in layouts if n.startswith(name + ".")]
        assert len(members) == len(ours._fields_) + 1, name
