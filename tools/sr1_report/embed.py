"""Put the page's parts together as C source: embed.py page.html page.css SCRIPT.js...

The page is page.html with the style sheet and the scripts in their places. Its policy
(Content-Security-Policy) names them by their hashes, so that nothing else in the page can
run. Two strings come out: what stands before the data, and what follows.
"""

import base64
import hashlib
import pathlib
import sys


def source_hash(text):
    digest = hashlib.sha256(text.encode()).digest()
    return "'sha256-" + base64.b64encode(digest).decode() + "'"


def c_array(name, text):
    rows = [text.encode()[i : i + 16] for i in range(0, len(text.encode()), 16)]
    body = "\n".join("    " + ", ".join(f"{b:#x}" for b in row) + "," for row in rows)
    # char may be signed: bytes above 127 are refused below
    return f"const char {name}[] = {{\n{body}\n    0}};\n"


def main(page, style, *scripts):
    read = lambda path: pathlib.Path(path).read_text(encoding="utf-8")
    css = "\n" + read(style)
    js = "\n(() => {\n'use strict';\n" + "\n".join(map(read, scripts)) + "})();\n"
    html = read(page)
    policy = (
        "default-src 'none'; base-uri 'none'; form-action 'none'; "
        f"style-src {source_hash(css)}; script-src {source_hash(js)}; connect-src 'self'"
    )
    for place, text in (("@POLICY@", policy), ("@STYLE@", css), ("@SCRIPT@", js)):
        assert html.count(place) == 1 and "</s" not in text, place
        html = html.replace(place, text)
    assert html.isascii(), "write other characters as escapes"
    head, tail = html.split("@DATA@")
    print("/* Made from page/ by embed.py. */")
    print('#include "sr1_report/report.h"\n')
    print(c_array("page_head", head))
    print(c_array("page_tail", tail))


main(*sys.argv[1:])
