"""The wheel with library and tools, made from a prefix with a few files."""

import importlib.util
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def prefix(tmp_path):
    for name, text in {
        "bin/sr1-say": "#!/bin/sh\necho said \"$@\"\nexit 7\n",
        "lib/libsearchr1.so.0": "a library",
        "lib/pkgconfig/searchr1.pc": "not for users of a wheel",
        "share/searchr1/quickstart/grpo.yaml": "max_steps: 1\n",
        "share/doc/searchr1/README.md": "not in a wheel",
    }.items():
        path = tmp_path / "prefix" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (tmp_path / "prefix/bin/sr1-say").chmod(0o755)
    (tmp_path / "prefix/lib/libsearchr1.so").symlink_to("libsearchr1.so.0")
    return tmp_path / "prefix"


@pytest.fixture
def wheel(prefix, tmp_path):
    spec = importlib.util.spec_from_file_location(
        "backend", ROOT / "bindings/python/backend.py"
    )
    backend = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(backend)
    return tmp_path / backend.build_platform_wheel(prefix, tmp_path)


def test_files_modes_and_needs(wheel):
    with zipfile.ZipFile(wheel) as z:
        names = set(z.namelist())
        inside = {n for n in names if n.startswith("searchr1/prefix/")}
        assert inside == {
            "searchr1/prefix/bin/sr1-say",
            "searchr1/prefix/lib/libsearchr1.so.0",
            "searchr1/prefix/share/searchr1/quickstart/grpo.yaml",
        }
        mode = z.getinfo("searchr1/prefix/bin/sr1-say").external_attr >> 16
        assert mode & 0o777 == 0o755
        info = next(n for n in names if n.endswith(".dist-info/METADATA"))[: -len("METADATA")]
        assert "Requires-Dist: torch==2.11.0\n" in z.read(info + "METADATA").decode()
        assert "Root-Is-Purelib: false\n" in z.read(info + "WHEEL").decode()
        entries = z.read(info + "entry_points.txt").decode()
        assert entries == "[console_scripts]\nsr1-say = searchr1._tools:run\n"
        listed = {row.split(",")[0] for row in z.read(info + "RECORD").decode().splitlines()}
        assert listed == names


def test_the_same_prefix_gives_the_same_bytes(wheel, prefix, tmp_path):
    first = wheel.read_bytes()
    os.utime(prefix / "bin/sr1-say", (1, 1))
    command = [sys.executable, str(ROOT / "bindings/python/backend.py"), str(prefix)]
    subprocess.run([*command, str(tmp_path)], check=True, stdout=subprocess.DEVNULL)
    assert wheel.read_bytes() == first


def run_tool(folder, name, *words):
    """As the script that pip writes for an entry point does."""
    code = f"import sys; sys.argv = {[name, *words]!r}; import _tools; _tools.run()"
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    )


def test_a_command_becomes_its_program(wheel, tmp_path):
    with zipfile.ZipFile(wheel) as z:
        z.extractall(tmp_path / "site")
    folder = tmp_path / "site/searchr1"
    (folder / "prefix/bin/sr1-say").chmod(0o755)
    done = run_tool(folder, "/somewhere/bin/sr1-say", "a b", "--c")
    assert (done.returncode, done.stdout) == (7, "said a b --c\n")
    missing = run_tool(folder, "sr1-none")
    assert missing.returncode == 1 and "install searchr1 anew" in missing.stderr
