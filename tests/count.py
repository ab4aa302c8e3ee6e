"""Count test results: prints "PASSED FAILED SKIPPED" for a results file, and on standard
error the name of each test that did not pass.

    python3 tests/count.py build/meson-logs/testlog.json
    python3 tests/count.py build/pytest-0.xml

A cmocka program counts as its cases; any other meson test counts as one. Where the golden
data lie beside the checkout, a test has no reason to skip for want of them: then a skipped
test is a failure, except those that need a GPU, the real MiniLM, bubblewrap, a browser (by the reason it gives), or a
package of others: pyarrow, pandas, datasets, Jinja2, the SDK of MCP, and what a test has
"itself".
"""

import json
import os
import re
import sys
import xml.etree.ElementTree

GOLDEN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "shared", "data")
MAY_SKIP = re.compile(
    r"cuda|gpu|minilm|parquet|chat_templates|official_sdk|_itself|_themselves|verifiers_before"
    r"|of_pandas|bubblewrap|no Chromium here"
)


def number(pattern, text):
    """Sum of the first group of pattern over text."""
    return sum(int(n) for n in re.findall(pattern, text))


def meson_test(entry):
    """(passed, failed, skipped) of one line of testlog.json."""
    out = entry.get("stdout", "") + entry.get("stderr", "")
    good = number(r"\[  PASSED  \] (\d+) test", out)
    bad = number(r"\[  FAILED  \] [^\n]*?(\d+) test", out)
    skip = len(re.findall(r"^\[  SKIPPED \] [A-Za-z_]\w*$", out, re.M))
    result = entry["result"]
    if result in ("OK", "EXPECTEDFAIL"):
        return (good or (0 if skip else 1), 0, skip)
    if result == "SKIP":
        return (0, 0, 1)
    return (good, max(bad, 1), skip)


def from_meson(path):
    with open(path, encoding="utf-8") as log:
        for line in log:
            entry = json.loads(line)
            yield (entry["name"], *meson_test(entry))


def from_pytest(path):
    for case in xml.etree.ElementTree.parse(path).getroot().iter("testcase"):
        kinds = {child.tag for child in case}
        bad = bool(kinds & {"failure", "error"})
        skip = "skipped" in kinds and not bad
        name = f"{case.get('classname')}.{case.get('name')}"
        if skip:
            name += f" ({case.find('skipped').get('message')})"
        yield name, int(not bad and not skip), int(bad), int(skip)


def main(path):
    if not os.path.exists(path):
        print(f"count: {path} was not written: no test ran", file=sys.stderr)
        return 0, 1, 0
    strict = os.path.isdir(GOLDEN)
    total = [0, 0, 0]
    for name, good, bad, skip in from_pytest(path) if path.endswith(".xml") else from_meson(path):
        if skip and strict and not MAY_SKIP.search(name):
            bad, skip = bad + skip, 0
            print(f"skipped although the golden data are there: {name}", file=sys.stderr)
        elif bad:
            print(f"failed: {name}", file=sys.stderr)
        total = [total[0] + good, total[1] + bad, total[2] + skip]
    return total


print(*main(sys.argv[1]))
