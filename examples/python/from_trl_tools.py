"""A script of TRL with a tool, ported (docs/guides.md): from_trl_tools.py MODEL_FOLDER OUT"""
import sqlite3
import sys

import searchr1
from searchr1.adapters import of_trl

# ---- as it stands in the script of TRL ----


def query_towers(sql_command: str) -> list:
    """
    Execute a read-only SQL command on the database of towers.

    Args:
        sql_command: The SQL command to execute.

    Returns:
        A list of tuples containing the query results.
    """
    with sqlite3.connect("file:towers.db?mode=ro", uri=True) as database:
        return database.execute(sql_command).fetchall()


def correctness_reward(completions, answer, **kwargs):
    return [float(a in c[-1]["content"]) for c, a in zip(completions, answer)]


def query_reward(completions, **kwargs):  # WHERE in each query, and something found
    rewards = []
    for completion in completions:
        calls = [c for turn in completion for c in turn.get("tool_calls", [])]
        sql = [c["function"]["arguments"].get("sql_command", "") for c in calls]
        found = [turn["content"] for turn in completion if turn["role"] == "tool"]
        hits = any(isinstance(rows, list) and rows for rows in found)
        rewards.append(0.5 * bool(sql and all(" WHERE " in q for q in sql)) + 0.5 * hits)
    return rewards


data = [{"prompt": [{"role": "user", "content": f"Where is tower {i}?"}], "answer": "Paris"}
        for i in range(8)]

# ---- the port ----
folder, out = sys.argv[1:] if len(sys.argv) == 3 else sys.exit(__doc__)
with sqlite3.connect("towers.db") as database:
    database.execute("CREATE TABLE IF NOT EXISTS towers (id PRIMARY KEY, town)")
    row = "INSERT OR IGNORE INTO towers VALUES (?, 'Paris')"
    database.executemany(row, [(i,) for i in range(8)])
config = dict(compat="trl", protocol="hermes", environment="tools", search_engine="none",
              model_name_or_path=folder, out=out + "/run", enable_thinking=False,
              max_tokens=64, max_turns=4, group_size=8, batch_size=2, max_steps=3)
rewards = {f.__name__: of_trl(f) for f in (correctness_reward, query_reward)}
with searchr1.Trainer(config, train=data, tools=[query_towers], rewards=rewards) as trainer:
    trainer.run(step=lambda r, _: print(f"step {r.step}: reward {r.avg_reward:.3f}"))
