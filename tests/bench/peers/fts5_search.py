"""SQLite's FTS5 with its bm25() over the folder of bench_passages: a peer of
bench_search.c. Words of a question are joined by OR, as BM25 takes them.

usage: fts5_search.py FOLDER [QUESTIONS]"""
import json
import os
import sqlite3
import sys
import time


def main(folder, asked=100):
    path = f"{folder}/fts5.db"
    if os.path.exists(path):
        os.remove(path)
    with open(f"{folder}/corpus.jsonl", encoding="utf-8") as rows:
        texts = [(json.loads(row)["contents"],) for row in rows]
    with open(f"{folder}/questions.txt", encoding="utf-8") as lines:
        questions = [" OR ".join(line.split()) for line in lines][:int(asked)]
    db = sqlite3.connect(path)
    db.execute("PRAGMA journal_mode = OFF")
    db.execute("PRAGMA synchronous = OFF")
    db.execute("PRAGMA cache_size = -500000")
    began, wall = time.process_time(), time.perf_counter()
    db.execute("CREATE VIRTUAL TABLE t USING fts5(text, content='', tokenize='ascii')")
    db.executemany("INSERT INTO t (text) VALUES (?)", texts)
    db.commit()
    print(json.dumps({
        "what": "search", "event": "build", "passages": len(texts),
        "build_s": round(time.process_time() - began, 2),
        "build_wall_s": round(time.perf_counter() - wall, 2),
        "versions": [sqlite3.sqlite_version]}), flush=True)
    del texts
    db.execute("INSERT INTO t (t) VALUES ('optimize')")  # not counted
    db.commit()
    ask = "SELECT rowid, rank FROM t WHERE t MATCH ? ORDER BY rank LIMIT 3"
    db.execute(ask, (questions[0],)).fetchall()
    times = []
    for question in questions:
        began = time.process_time()
        db.execute(ask, (question,)).fetchall()
        times.append(time.process_time() - began)
    times.sort()
    print(json.dumps({
        "what": "search", "event": "ask", "questions": len(times),
        "queries_s": round(len(times) / sum(times), 2),
        "p50_us": round(1e6 * times[len(times) // 2]),
        "p99_us": round(1e6 * times[len(times) * 99 // 100]),
        "versions": [sqlite3.sqlite_version]}), flush=True)
    db.close()
    os.remove(path)


main(*sys.argv[1:])
