"""What pip calls to pack the package (PEP 517): a wheel is a zip file with three texts.

Written out because setuptools needs the package wheel beside it on Debian 12, which an
offline virtual environment does not have.

`python3 backend.py PREFIX FOLDER` packs what `meson install` put into PREFIX too: a wheel
with the library and its tools (tools/package makes it fit for other distributions).
"""

import base64
import hashlib
import os
import re
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
VERSION = re.search(r'__version__ = "(.+)"', (HERE / "searchr1/__init__.py").read_text())[
    1
]
STEM = f"searchr1-{VERSION}"

METADATA = f"""Metadata-Version: 2.1
Name: searchr1
Version: {VERSION}
Summary: Train language models to reason, search and answer (ctypes over libsearchr1)
License: Apache-2.0
Requires-Python: >=3.9
Provides-Extra: numpy
Requires-Dist: numpy; extra == "numpy"
"""
# The library is linked to this torch's C++ interface, which changes with each release.
NEEDS_TORCH = "Requires-Dist: torch==2.11.0\n"
WHEEL = """Wheel-Version: 1.0
Generator: searchr1
Root-Is-Purelib: {pure}
Tag: {tag}
"""


def _sources():
    names = sorted(
        p.name for p in (HERE / "searchr1").iterdir() if p.suffix in (".py", ".typed")
    )
    return {f"searchr1/{name}": (HERE / "searchr1" / name).read_bytes() for name in names}


def _write(out, name, data, mode=0o644):
    entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
    entry.external_attr = (0o100000 | mode) << 16
    entry.compress_type = zipfile.ZIP_DEFLATED
    out.writestr(entry, data)


def _wheel(folder, files, metadata=METADATA, tag="py3-none-any", modes=None):
    """Write the wheel of these files, {name: bytes}; modes has those that are not 0644."""
    pure = str(tag == "py3-none-any").lower()
    files = dict(files)
    files[f"{STEM}.dist-info/METADATA"] = metadata.encode()
    files[f"{STEM}.dist-info/WHEEL"] = WHEEL.format(pure=pure, tag=tag).encode()
    record = f"{STEM}.dist-info/RECORD"
    lines = []
    for name, data in files.items():
        digest = (
            base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        )
        lines.append(f"{name},sha256={digest},{len(data)}\n")
    files[record] = "".join([*lines, f"{record},,\n"]).encode()
    path = Path(folder) / f"{STEM}-{tag}.whl"
    with zipfile.ZipFile(path, "w") as out:
        for name, data in files.items():
            _write(out, name, data, (modes or {}).get(name, 0o644))
    return path.name


# Parts of an installed prefix that serve a user of the wheel. Links are not followed:
# libsearchr1.so is the compiler's name of libsearchr1.so.0.
INSTALLED = ("bin", "lib", "libexec", "share/searchr1")


def _installed(prefix):
    for part in INSTALLED:
        for path in sorted((prefix / part).rglob("*")):
            if path.is_file() and not path.is_symlink() and path.suffix != ".pc":
                yield f"searchr1/prefix/{path.relative_to(prefix)}", path


def build_platform_wheel(prefix, folder):
    """The package with the library and the tools of an installed prefix. The tools become
    commands of the environment that the wheel is installed into."""
    files, modes = _sources(), {}
    for name, path in _installed(Path(prefix)):
        files[name] = path.read_bytes()
        modes[name] = path.stat().st_mode & 0o777
    tools = sorted(os.path.basename(n) for n in files if n.startswith("searchr1/prefix/bin/"))
    files[f"{STEM}.dist-info/entry_points.txt"] = (
        "[console_scripts]\n" + "".join(f"{t} = searchr1._tools:run\n" for t in tools)
    ).encode()
    platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
    return _wheel(folder, files, METADATA + NEEDS_TORCH, f"py3-none-{platform}", modes)


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    return _wheel(wheel_directory, _sources())


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    """`pip install -e`: the package stays where it is."""
    return _wheel(wheel_directory, {"searchr1.pth": f"{HERE}\n".encode()})


def build_sdist(sdist_directory, config_settings=None):
    path = Path(sdist_directory) / f"{STEM}.tar.gz"
    with tarfile.open(path, "w:gz") as out:
        for name in ("pyproject.toml", "backend.py", *_sources()):
            out.add(HERE / name, f"{STEM}/{name}")
    return path.name


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: backend.py PREFIX FOLDER")
    print(build_platform_wheel(*sys.argv[1:]))
