"""Run one program that prints a JSON object a line, and print its lines with what can only
be seen from outside: seconds from its start to the line (at_s), its peak resident memory
(peak_rss_mib), and the cores that others used meanwhile (others_cores; 0 is quiet).

    measure.py LABEL=TEXT ... -- PROGRAM ARGUMENT ..."""
import json
import os
import subprocess
import sys
import time


def machine_seconds():
    """Processor seconds of the whole machine."""
    with open("/proc/stat", encoding="ascii") as stat:
        ticks = [int(word) for word in stat.readline().split()[1:9]]
    return (sum(ticks) - ticks[3] - ticks[4]) / os.sysconf("SC_CLK_TCK")


def main(words):
    cut = words.index("--")
    labels = dict(word.split("=", 1) for word in words[:cut])
    busy, began = machine_seconds(), time.perf_counter()
    child = subprocess.Popen(words[cut + 1:], stdout=subprocess.PIPE, text=True)
    lines = [(time.perf_counter() - began, line) for line in child.stdout]
    _, status, usage = os.wait4(child.pid, 0)
    wall = time.perf_counter() - began
    others = (machine_seconds() - busy - usage.ru_utime - usage.ru_stime) / wall
    code = os.waitstatus_to_exitcode(status)
    for at, line in lines:
        if line.startswith("{"):
            print(json.dumps({**labels, **json.loads(line), "at_s": round(at, 3),
                              "wall_s": round(wall, 3),
                              "peak_rss_mib": usage.ru_maxrss // 1024,
                              "others_cores": round(max(others, 0.0), 2)}), flush=True)
    child.returncode = code
    return code


sys.exit(main(sys.argv[1:]))
