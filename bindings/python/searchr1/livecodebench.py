"""Unpack the private tests of LiveCodeBench's rows.

    python3 -m searchr1.livecodebench test5.jsonl problems.jsonl

They come compressed and pickled, which the library does not read. Here a pickled text is
read and nothing else."""

from __future__ import annotations

import pickle
import sys
import zlib
from typing import Sequence

from .code import unpack_livecodebench


def main(arguments: Sequence[str]) -> int:
    if len(arguments) != 2:
        print("usage: python3 -m searchr1.livecodebench IN OUT", file=sys.stderr)
        return 2
    try:
        print(f"{arguments[1]}: {unpack_livecodebench(*arguments)} rows")
    except (OSError, ValueError, pickle.UnpicklingError, zlib.error) as error:
        print(f"searchr1.livecodebench: {arguments[0]}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
