"""The declarations of the package are those of the public headers."""

import ctypes
import re
import subprocess
import sys

import pytest

from searchr1 import _structs, errors
from searchr1._functions import FUNCTIONS
from searchr1._lib import lib


@pytest.fixture(scope="module")
def headers(source):
    """Text of all public headers without comments and preprocessor lines."""
    text = "\n".join(
        p.read_text() for p in sorted((source / "include/searchr1").rglob("*.h"))
    )
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    return re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*$", "", text, flags=re.M)


def python_name(c_name):
    return "".join(part.capitalize() for part in c_name[4:].split("_"))


def test_declarations_are_written_from_the_headers(source):
    """_structs.py and _functions.py are what tools/dev/ctypes_tables.py writes."""
    tool = source / "tools/dev/ctypes_tables.py"
    done = subprocess.run([sys.executable, tool], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "")


def test_every_function_is_declared(headers):
    names = set(re.findall(r"SR1_API\s[^;]*?\b(sr1_\w+)\(", headers))
    assert len(names) == headers.count("SR1_API") > 150
    assert names == set(FUNCTIONS)
    assert all(hasattr(lib, name) for name in names)


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
