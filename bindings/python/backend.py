"""What pip calls to pack the package (PEP 517): a wheel is a zip file with three texts.

Written out because setuptools needs the package wheel beside it on Debian 12, which an
offline virtual environment does not have.
"""

import base64
import hashlib
import re
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
WHEEL = """Wheel-Version: 1.0
Generator: searchr1
Root-Is-Purelib: true
Tag: py3-none-any
"""


def _sources():
    names = sorted(
        p.name for p in (HERE / "searchr1").iterdir() if p.suffix in (".py", ".typed")
    )
    return {f"searchr1/{name}": (HERE / "searchr1" / name).read_bytes() for name in names}


def _wheel(folder, files):
    files = dict(files)
    files[f"{STEM}.dist-info/METADATA"] = METADATA.encode()
    files[f"{STEM}.dist-info/WHEEL"] = WHEEL.encode()
    record = f"{STEM}.dist-info/RECORD"
    lines = []
    for name, data in files.items():
        digest = (
            base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        )
        lines.append(f"{name},sha256={digest},{len(data)}\n")
    files[record] = "".join([*lines, f"{record},,\n"]).encode()
    path = Path(folder) / f"{STEM}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as out:
        for name, data in files.items():
            out.writestr(name, data)
    return path.name


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
