#!/usr/bin/env python3
"""recipe.py FOLDER ... - what a run of tools/recipe came to.

Prints the time of each step and a table of the tests, writes NAME.json (figures) and
NAME.csv (one row for each row of the runs' metrics), and holds the run to what its recipe
promises. A promise is an expression over
    test(name, figure[, source])   of tests/name.json, all questions or those of one source
    room(before, after, figure)    share of what was left to 1 that the second test gained
    last(run, metric)              its last value
    area(run, metric)              under its curve over the steps, divided by their number
Exit status: 0, or 1 when a promise is not kept. --brief prints no verdict.

recipe.py --collect OUT.csv CSV... puts those of several seeds into one.
"""
import argparse
import csv
import json
import os
import sys


def read_json(path):
    with open(path) as f:
        return json.load(f)


def read_metrics(folder):
    with open(os.path.join(folder, "metrics.jsonl")) as lines:
        return [json.loads(line) for line in lines]


class NoFigure(Exception):
    """What is missing for a figure, for people."""


def points(runs, run, metric):
    """(step, value) of the rows of a run that have the metric, of which there are some."""
    found = [(row["step"], row[metric]) for row in runs[run] if metric in row]
    if not found:
        raise NoFigure(f"run {run} has no row with the metric {metric}")
    return found


def area_under(runs, run, metric):
    """Mean height of the line through the points: the trapezoidal rule over the steps."""
    curve = points(runs, run, metric)
    span = curve[-1][0] - curve[0][0]
    if span == 0:
        raise NoFigure(f"run {run} has one row with the metric {metric}: no area")
    return sum((x1 - x0) * (y0 + y1) / 2
               for (x0, y0), (x1, y1) in zip(curve, curve[1:])) / span


def step_times(folder, steps):
    """(name, wall seconds, CPU seconds) of each step."""
    times = []
    for name in steps:
        with open(os.path.join(folder, "done", name)) as f:
            wall, cpu = f.read().splitlines()[-1].split()
        times.append((name, int(wall), int(cpu)))
    return times


def print_table(rows):
    """The first column to the left, the others to the right."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        cells = [row[0].ljust(widths[0])]
        cells += [cell.rjust(w) for cell, w in zip(row[1:], widths[1:])]
        print("  ".join(cells).rstrip())


def number(value):
    if isinstance(value, float):
        return f"{value:.3f}"
    return "-" if value is None else str(value)


def print_times(times):
    rows = [("step", "seconds", "CPU seconds")]
    rows += [(name, str(wall), str(cpu)) for name, wall, cpu in times]
    rows += [("all", str(sum(t[1] for t in times)), str(sum(t[2] for t in times)))]
    print_table(rows)


def print_tests(tests, columns):
    rows = [["test", "questions"] + columns]
    for name, parts in tests.items():
        for part, figures in parts.items():
            if isinstance(figures, dict) and (part == "all" or len(parts) > 2):
                label = name if part == "all" else "  " + part
                rows.append([label, number(figures.get("rows"))] +
                            [number(figures.get(c)) for c in columns])
    print_table(rows)


def write_curve(path, seed, runs, metrics):
    with open(path, "w", newline="") as f:
        out = csv.writer(f, lineterminator="\n")
        out.writerow(["run", "seed", "step"] + metrics)
        for name, rows in runs.items():
            for row in rows:
                values = [row.get(m) for m in metrics]
                out.writerow([name, seed, row["step"]] +
                             ["" if v is None else f"{v:.6g}" for v in values])


def share_of_room(before, after):
    return (after - before) / (1 - before) if before < 1 else 1.0


def keep(promise, tests, runs):
    """Does the run keep it? What the parts came to is printed too."""
    seen = []

    def told(label, value):
        seen.append(f"{label} = {value:.3f}")
        return value

    names = {
        "test": lambda name, figure, source="all": told(
            f"{name} {figure}", tests[name][source][figure]),
        "room": lambda before, after, figure: told(
            f"{figure} {tests[before]['all'][figure]:.3f} -> "
            f"{tests[after]['all'][figure]:.3f}: share of the room",
            share_of_room(tests[before]["all"][figure], tests[after]["all"][figure])),
        "last": lambda run, metric: told(
            f"last {metric} of {run}", points(runs, run, metric)[-1][1]),
        "area": lambda run, metric: told(
            f"area of {metric} of {run}", area_under(runs, run, metric)),
    }
    try:
        kept = bool(eval(promise, {"__builtins__": {}}, names))  # a line of our own recipe
    except NoFigure as error:
        print(f"NOT KEPT: {promise}  ({error})")
        return False
    print(f"{'kept' if kept else 'NOT KEPT'}: {promise}  ({', '.join(seen)})")
    return kept


def collect(out, paths):
    with open(out, "w") as f:
        for i, path in enumerate(paths):
            with open(path) as curve:
                f.writelines(curve.readlines()[min(i, 1):])


def read_arguments():
    p = argparse.ArgumentParser()
    p.add_argument("folder")
    p.add_argument("--recipe")
    p.add_argument("--seed", type=int)
    p.add_argument("--brief", action="store_true")
    p.add_argument("--promises")
    for option in ("--steps", "--tests", "--runs", "--metrics", "--columns"):
        p.add_argument(option, type=str.split, default=[])
    return p.parse_args()


def main():
    if sys.argv[1:2] == ["--collect"]:
        collect(sys.argv[2], sys.argv[3:])
        return 0
    a = read_arguments()
    tests = {t: read_json(os.path.join(a.folder, "tests", t + ".json")) for t in a.tests}
    runs = {r: read_metrics(os.path.join(a.folder, r)) for r in a.runs}
    times = step_times(a.folder, a.steps)
    print()
    print_times(times)
    if tests:
        print()
        print_tests(tests, a.columns)
    base = os.path.join(a.folder, a.recipe)
    write_curve(base + ".csv", a.seed, runs, a.metrics)
    print()
    with open(a.promises) as f:
        promises = [] if a.brief else f.read().splitlines()
    kept = [keep(p, tests, runs) for p in promises]
    summary = {"recipe": a.recipe, "seed": a.seed, "brief": a.brief,
               "steps": {n: {"seconds": w, "cpu_seconds": c} for n, w, c in times},
               "tests": tests, "promises": dict(zip(promises, kept))}
    with open(base + ".json", "w") as f:
        json.dump(summary, f, indent=2)
        f.write("\n")
    print(f"figures: {base}.json; curves: {base}.csv")
    return 0 if all(kept) else 1


if __name__ == "__main__":
    sys.exit(main())
