"""Plots and a table of a benchmark run, from its JSON lines.

    plot.py roofline RESULTS.jsonl OUT.svg   rates of decoding against the limits that
                                             bench_limits.c measured
    plot.py growth RESULTS.jsonl OUT.svg     tokens a second against context and batch; the
                                             table goes to standard output"""
import json
import math
import statistics
import sys

WIDTH, HEIGHT, LEFT, TOP, RIGHT, BOTTOM = 760, 420, 62, 24, 190, 44
COLORS = ("#1f5fa8", "#c2571a", "#2f8a4c", "#7a4fa3", "#8a6d1f", "#a83250", "#3a8d99")
DASHES = {1: "", 8: "8 3", 32: "3 3", 128: "8 3 2 3", 256: "1 4"}
MARKS = {"ours": "circle", "transformers": "square", "llama.cpp": "triangle"}


class Chart:
    """Two axes of logarithms."""

    def __init__(self, x_range, y_range, x_name, y_name):
        self.x, self.y, self.parts, self.keys = x_range, y_range, [], []
        self._frame(x_name, y_name)

    def at(self, x, y):
        def place(v, low, high, size):
            return (math.log(v) - math.log(low)) / (math.log(high) - math.log(low)) * size
        return (LEFT + place(x, *self.x, WIDTH - LEFT - RIGHT),
                HEIGHT - BOTTOM - place(y, *self.y, HEIGHT - TOP - BOTTOM))

    def text(self, x, y, words, anchor="start", turn=""):
        self.parts.append(f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{turn}>'
                          f'{words}</text>')

    def line(self, points, color, style=""):
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in (self.at(*p) for p in points))
        self.parts.append(f'<polyline points="{path}" fill="none" stroke="{color}"'
                          f'{style}/>')

    def _ticks(self, low, high):
        return [10.0 ** e * k for e in range(math.floor(math.log10(low)),
                                             math.ceil(math.log10(high)) + 1)
                for k in (1, 2, 5) if low <= 10.0 ** e * k <= high]

    def _frame(self, x_name, y_name):
        for x in self._ticks(*self.x):
            self.line([(x, self.y[0]), (x, self.y[1])], "#ddd")
            self.text(self.at(x, 1)[0], HEIGHT - BOTTOM + 16, f"{x:g}", "middle")
        for y in self._ticks(*self.y):
            self.line([(self.x[0], y), (self.x[1], y)], "#ddd")
            self.text(LEFT - 6, self.at(1, y)[1] + 4, f"{y:g}", "end")
        self.text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 8, x_name, "middle")
        self.text(14, (TOP + HEIGHT - BOTTOM) / 2, y_name, "middle",
                  f' transform="rotate(-90 14 {(TOP + HEIGHT - BOTTOM) / 2:.0f})"')

    def _shape(self, x, y, mark, color):
        if mark == "square":
            return f'<rect x="{x - 4:.1f}" y="{y - 4:.1f}" width="8" height="8" fill="{color}"/>'
        if mark == "triangle":
            return (f'<polygon points="{x:.1f},{y - 5:.1f} {x - 5:.1f},{y + 4:.1f} '
                    f'{x + 5:.1f},{y + 4:.1f}" fill="{color}"/>')
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{color}"/>'

    def point(self, x, y, mark, color):
        self.parts.append(self._shape(*self.at(x, y), mark, color))

    def key(self, mark, color, words):
        y = TOP + 10 + 18 * len(self.keys)
        self.keys.append(words)
        self.parts.append(self._shape(WIDTH - RIGHT + 16, y - 4, mark, color))
        self.text(WIDTH - RIGHT + 28, y, words)

    def line_key(self, color, style, words):
        y = TOP + 10 + 18 * len(self.keys)
        self.keys.append(words)
        self.parts.append(f'<path d="M{WIDTH - RIGHT + 8} {y - 4}h30" stroke="{color}"'
                          f'{style}/>')
        self.text(WIDTH - RIGHT + 44, y, words)

    def write(self, path):
        with open(path, "w", encoding="utf-8") as out:
            out.write(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} '
                      f'{HEIGHT}" font-family="sans-serif" font-size="12">\n'
                      f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>\n'
                      + "\n".join(self.parts) + "\n</svg>\n")


def by(lines, *keys):
    """Lines with the same values of these keys, in the order of their first."""
    groups = {}
    for line in lines:
        groups.setdefault(tuple(line.get(key) for key in keys), []).append(line)
    return groups


def median(lines, field):
    return statistics.median(line[field] for line in lines)


def span(values, by_factor=1.6):
    return min(values) / by_factor, max(values) * by_factor


def list_rates(lines):
    """(shape, dtype, who, intensity, GFLOP/s) of each decode batch: multiplications and
    additions for each byte of weights that a step reads, and how many a second."""
    decodes = [line for line in lines if line.get("what") == "decode"
               and "part" not in line and "cache" not in line]
    bytes_of = {(line["shape"], line["dtype"]): line["step_bytes"] for line in decodes
                if "step_bytes" in line}
    for (shape, dtype, who, batch), group in by(decodes, "shape", "dtype", "who",
                                                "batch").items():
        if (shape, dtype) in bytes_of:
            weights = bytes_of[shape, dtype]
            flops = 2 * weights / (2 if dtype == "bf16" else 4)
            yield (shape, dtype, who, batch * flops / weights,
                   median(group, "decode_tok_s") * flops / 1e9)


def roofline(lines, out):
    limits = [line for line in lines if line.get("what") == "limits"]
    rates = list(list_rates(lines))
    assert limits and rates, "no limits, or no decoding, among the results"
    read = max(line["read_huge_gb_s"] for line in limits)
    peaks = {dtype: max(line[f"{dtype}_gflop_s"] for line in limits)
             for dtype in ("fp32", "bf16")}
    x_range = span([rate[3] for rate in rates])
    y_range = span([rate[4] for rate in rates] + list(peaks.values()))
    chart = Chart(x_range, y_range, "multiplications and additions for each byte of weights",
                  "GFLOP/s")
    for dtype, peak in peaks.items():
        ridge = min(max(peak / read, x_range[0]), x_range[1])
        start = (max(x_range[0], y_range[0] / read), max(x_range[0] * read, y_range[0]))
        chart.line([start, (ridge, min(peak, ridge * read)), (x_range[1], peak)], "#444",
                   "" if dtype == "fp32" else ' stroke-dasharray="6 3"')
        chart.text(WIDTH - RIGHT - 4, chart.at(1, peak)[1] - 5, f"products in {dtype}", "end")
    for i, ((shape, dtype, who), group) in enumerate(by_series(rates)):
        color = COLORS[i % len(COLORS)]
        chart.line([rate[3:] for rate in group], color)
        for rate in group:
            chart.point(*rate[3:], MARKS[who], color)
        chart.key(MARKS[who], color, f"{shape} {dtype}, {'here' if who == 'ours' else who}")
    chart.write(out)


def by_series(rates):
    series = {}
    for rate in rates:
        series.setdefault(rate[:3], []).append(rate)
    return [(key, sorted(group)) for key, group in series.items()]


def growth(lines, out):
    found = [line for line in lines if line.get("what") == "decode"
             and line.get("part") == "growth"]
    assert found, "no growth among the results"
    rows = {key: (median(group, "decode_tok_s"), median(group, "prefill_tok_s"),
                  median(group, "cache_mib"))
            for key, group in by(found, "shape", "dtype", "batch", "prompt").items()}
    chart = Chart(span([key[3] for key in rows], 1.2), span([v[0] for v in rows.values()]),
                  "tokens of context", "tokens a second, decoding")
    series = {}
    for key, value in rows.items():
        series.setdefault(key[:3], []).append((key[3], value[0]))
    shapes = list(dict.fromkeys(key[:2] for key in series))
    for (shape, dtype, batch), points in series.items():
        color = COLORS[shapes.index((shape, dtype))]
        style = f' stroke-width="1.5" stroke-dasharray="{DASHES.get(batch) or "none"}"'
        chart.line(sorted(points), color, style)
        for point in points:
            chart.point(*point, "circle", color)
        chart.line_key(color, style, f"{shape} {dtype}, batch {batch}")
    chart.write(out)
    print("| model | batch | context | decoding, tokens/s | prefill, tokens/s | cache, MiB |")
    print("| --- | --- | --- | --- | --- | --- |")
    for (shape, dtype, batch, prompt), (decode, prefill, cache) in sorted(rows.items()):
        print(f"| {shape} {dtype} | {batch} | {prompt} | {decode:,.0f} | {prefill:,.0f} | "
              f"{cache:,.0f} |")


def main(kind, results, out):
    with open(results, encoding="utf-8") as f:
        lines = [json.loads(line) for line in f]
    {"roofline": roofline, "growth": growth}[kind](lines, out)


main(*sys.argv[1:])
