"""The commands of a wheel: sr1-train and the others, which are programs in prefix/bin.

They are started in place of this process, so signals, standard streams and exit codes
are theirs.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

BIN = Path(__file__).resolve().parent / "prefix" / "bin"


def run() -> None:
    """Become the program of the name that this was started by."""
    name = os.path.basename(sys.argv[0])
    program = str(BIN / name)
    try:
        os.execv(program, [program, *sys.argv[1:]])
    except OSError as error:
        sys.exit(f"{name}: {program}: {error.strerror}; install searchr1 anew")
