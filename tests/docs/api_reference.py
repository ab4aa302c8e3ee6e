#!/usr/bin/env python3
"""api_reference.py - the public functions, header by header, as docs/reference.md lists
them: each with its result, its arguments and the first sentence of its comment. Types with
fields, and enums, are listed by name. Run in the root of the sources."""

import re
import sys
from pathlib import Path

HEADERS = Path("include/searchr1")


def squeeze(text):
    return re.sub(r"\s+", " ", text).strip()


def uncomment(text):
    return re.sub(r"/\*.*?\*/", " ", text, flags=re.S)


def first_sentence(comment):
    """Up to the first full stop that ends one; colons may end it before a list."""
    text = squeeze(re.sub(r"\n \*", " ", comment))
    match = re.match(r"(.*?[^.A-Z][.:])(?= |$)", text)
    return (match[1] if match else text).rstrip(":").rstrip(".")


def escape(text):
    return text.replace("|", "\\|")


class Header:
    """What a header declares, in its order."""

    def __init__(self, path):
        self.name = str(path.relative_to(HEADERS.parent))
        raw = path.read_text(encoding="utf-8")
        self.about = first_sentence(re.match(r"/\* \S+ - (.*?)\*/", raw, re.S)[1])
        text = re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", "", raw, flags=re.M)
        self.functions, comment, end = [], "", 0
        pattern = r"/\*(.*?)\*/|SR1_API ([^;]*?)\b(sr1_\w+)\(([^;]*)\);"
        for m in re.finditer(pattern, text, re.S):
            if m[1] is not None:
                comment, end = m[1], m.end()
                continue
            # A comment is of the functions below it, as long as no blank line comes between.
            said = comment if "\n\n" not in text[end : m.start()] else ""
            end = m.end()
            arguments = squeeze(uncomment(m[4]))
            self.functions.append((squeeze(uncomment(m[2])), m[3], arguments, said))
        plain = uncomment(text)
        self.types = re.findall(r"^\} (sr1_\w+);", plain, re.M)
        self.constants = re.findall(r"\b(SR1_[A-Z0-9_]+)\b(?= *[=,\n}])", "".join(
            re.findall(r"\benum \{(.*?)\}", plain, re.S)))

    def print(self):
        print(f"\n### {self.name}\n\n{self.about}.\n")
        if self.types:
            print("Structs: " + ", ".join(f"`{name}`" for name in self.types) + ".\n")
        if self.constants:
            print("Constants: " + ", ".join(f"`{name}`" for name in self.constants) + ".\n")
        if not self.functions:
            return
        print("| function | |\n| --- | --- |")
        for result, name, arguments, comment in self.functions:
            call = escape(f"{result} {name}({arguments})").replace("* ", "*")
            print(f"| `{call}` | {escape(first_sentence(comment))} |")


def main():
    paths = sorted(HEADERS.glob("*.h")) + sorted((HEADERS / "ext").glob("*.h"))
    headers = [Header(path) for path in paths]
    count = sum(len(header.functions) for header in headers)
    bare = [f[1] for header in headers for f in header.functions if not f[3]]
    if bare:
        sys.exit(f"functions without a comment of their own: {', '.join(bare)}")
    print(f"\n{count} functions in {len(headers)} headers.")
    for header in headers:
        header.print()
    print()


if __name__ == "__main__":
    main()
