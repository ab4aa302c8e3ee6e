"""Unpack the private tests of LiveCodeBench's rows.

    python3 -m searchr1.livecodebench test5.jsonl problems.jsonl

They come compressed and pickled, which the library does not read. Here a pickled text is
read and nothing else. An existing file is replaced only with --force."""

from __future__ import annotations

import pickle
import sys
import zlib
from typing import Sequence

from .code import unpack_livecodebench


def main(arguments: Sequence[str]) -> int:
    names = [name for name in arguments if name != "--force"]
    if len(names) != 2:
        print("usage: python3 -m searchr1.livecodebench IN OUT [--force]", file=sys.stderr)
        return 2
    try:
        count = unpack_livecodebench(*names, force=len(names) < len(arguments))
        print(f"{names[1]}: {count} rows")
    except FileExistsError as error:
        print(f"searchr1.livecodebench: {error}", file=sys.stderr)
        return 1
    except (OSError, ValueError, pickle.UnpicklingError, zlib.error) as error:
        print(f"searchr1.livecodebench: {names[0]}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
