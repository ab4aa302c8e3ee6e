"""python3 programs.py FILE - run the programs of a JSON lines file: each row has "tests",
"right", which has to pass all of them, and "bugs", each of which has to fail one. Prints the
number of programs run; exit status 1 and the row when one does not do what it has to."""

import json
import sys


def program(text):
    assert text.startswith("```python\n") and text.endswith("\n```"), text
    return text[len("```python\n") : -len("```")]


def passes(text, tests):
    names = {}
    exec(program(text), names)
    try:
        for test in tests:
            exec(test, names)
    except (AssertionError, IndexError):
        return False
    return True


def main():
    ran = 0
    with open(sys.argv[1]) as rows:
        for line in rows:
            row = json.loads(line)
            if not passes(row["right"], row["tests"]):
                sys.exit("does not pass: " + line)
            for bug in row["bugs"]:
                if passes(bug, row["tests"]):
                    sys.exit("passes: " + bug + "\n" + line)
            ran += 1 + len(row["bugs"])
    print(ran)


main()
