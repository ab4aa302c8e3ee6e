"""sr1-report: the page is well formed, safe and true; its reader takes whatever it finds."""

import base64
import ctypes
import hashlib
import html.parser
import json
import os
import re
import resource
import shutil
import signal
import statistics
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

import searchr1

import tiny

SOURCE = Path(os.environ.get("SR1_SRC", Path(__file__).resolve().parents[2]))
TOOL = Path(os.environ.get("SR1_BUILD", SOURCE / "build")) / "tools" / "sr1-report"
VOID = {"meta", "br", "wbr", "link", "img", "input", "hr"}
HOSTILE = '</script><script>alert(1)</script><!-- ]]> \u2028 "\\ \x00 &lt; é 未找到'


def call(*arguments, code=0, cwd=None):
    done = subprocess.run(
        [TOOL, *map(str, arguments)], capture_output=True, text=True, cwd=cwd
    )
    assert done.returncode == code, done.stderr
    return done


class Page(html.parser.HTMLParser):
    """Elements must be closed in order; scripts and styles are kept."""

    def __init__(self, path):
        super().__init__()
        self.open, self.texts, self.policy, self.attributes = [], [], "", []
        self.source = path.read_text(encoding="utf-8")
        self.feed(self.source)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.attributes += attrs.items()
        if attrs.get("http-equiv") == "Content-Security-Policy":
            self.policy = attrs["content"]
        if tag in ("script", "style"):
            self.texts.append([tag, attrs, ""])
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] in ("script", "style"):
            self.texts[-1][2] += data

    @property
    def data(self):
        (text,) = [t for tag, attrs, t in self.texts if attrs.get("id") == "data"]
        return json.loads(text)


def write_lines(path, lines):
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def trajectory(step=1, reward=1.0, advantage=0.5, **more):
    """A line of trajectories.jsonl: a prompt of 2, 2 policy tokens, 1 inserted, 1 policy."""
    pieces = ["<search>", " caf\u00e9</search>", "<information>x</information>", "done"]
    ends = [len("".join(pieces[: i + 1]).encode()) for i in range(4)]
    line = {
        "query": "Where?", "query_id": "q1", "sample": 0, "group_key": "00ff",
        "data_source": "nq", "ground_truths": ["here"], "generated_text": "".join(pieces),
        "final_answer": "here", "stop_reason": "answer", "reward": reward,
        "reward_parts": [{"name": "answer", "value": reward, "weight": 1.0}],
        "advantage": advantage,
        "searches": [{"turn": 0, "query": "caf\u00e9", "status": 0, "hits": 2,
                      "hit_ids": ["a", "b"]}],
        "temperature": 1.0, "top_p": 1.0, "top_k": 0, "weights_version": 0,
        "prompt_tokens": 2, "policy_tokens": 3,
        "segments": [
            {"source": "policy", "turn": 0, "token_begin": 2, "token_count": 2,
             "text_begin": 0, "text_len": ends[1]},
            {"source": "environment", "turn": 0, "token_begin": 4, "token_count": 1,
             "text_begin": ends[1], "text_len": ends[2] - ends[1]},
            {"source": "policy", "turn": 1, "token_begin": 5, "token_count": 1,
             "text_begin": ends[2], "text_len": ends[3] - ends[2]},
        ],
        "full_input_ids": [7, 8, 11, 12, 13, 14], "generated_positions": [2, 3, 5],
        "token_steps": [
            {"token_id": i, "token_text": t, "log_prob": -0.25, "position": p, "turn": u}
            for i, t, p, u in ((11, pieces[0], 2, 0), (12, pieces[1], 3, 0),
                               (14, pieces[3], 5, 1))
        ],
        "values": [0.125, 0.25, 0.5], "step": step,
    }  # fmt: skip
    return {**line, **more}


def metrics(step, **more):
    return {
        "step": step, "loss": 1 / step, "avg_reward": step / 10, "reward": step / 10,
        "health/alarms": 0, "training/trajectories": 4, "env/number_of_searches": 6,
        "timing_s/step": 0.5, **more,
    }  # fmt: skip


def make_run(folder, rows=(), trajectories=(), config=None):
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(config or {"max_steps": 20}))
    write_lines(folder / "metrics.jsonl", rows)
    write_lines(folder / "trajectories.jsonl", trajectories)
    return folder


def report(tmp_path, *runs, arguments=()):
    out = tmp_path / "page.html"
    call(*runs, "-o", out, *arguments)
    page = Page(out)
    return page, page.data


@pytest.fixture()
def run(tmp_path):
    return make_run(
        tmp_path / "first",
        [metrics(s) for s in range(1, 21)],
        [trajectory(s) for s in range(1, 21)],
    )


# ---- the page ----


def test_the_page_stands_alone(tmp_path, run):
    page, data = report(tmp_path, run)
    hashes = []
    for tag, attrs, text in page.texts:
        assert "src" not in attrs
        if attrs.get("id") != "data":
            digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
            hashes.append(f"{tag}-src 'sha256-{digest}'")
    assert len(hashes) == 2 and all(h in page.policy for h in hashes)
    assert page.policy.startswith("default-src 'none'")
    assert "http" not in page.source.replace("http://www.w3.org/2000/svg", "").replace(
        "http-equiv", ""
    ).split('<script type="application/json"')[0]
    assert not {"src", "href", "style", "onclick"} & {name for name, _ in page.attributes}
    assert data["runs"][0]["label"] == "first"


def test_exact_output(tmp_path, run):
    done = call(run, cwd=tmp_path)
    size = (tmp_path / "report.html").stat().st_size
    assert done.stdout == f"report.html ({size / 1000:.0f} kB)\n"
    assert done.stderr == ""
    assert sorted(p.name for p in tmp_path.iterdir()) == ["first", "report.html"]
    again = f"report.html ({size / 1000:.0f} kB), in place of the page that was there\n"
    assert call(run, cwd=tmp_path).stdout == again


def test_starts_and_changes_are_shown(tmp_path, run):
    start = {"begun": "2026-01-02T03:04:05Z", "ended": None, "host": HOSTILE, "pid": 12,
             "version": "0.1.0", "command": "sr1-train x.yaml"}  # fmt: skip
    change = {"step": 4, "time": "t", "key": "learning_rate", "from": "1", "to": "2",
              "by": "resume"}  # fmt: skip
    (run / "run.json").write_text(json.dumps({"format": 1, "starts": [start]}))
    (run / "config-changes.jsonl").write_text(json.dumps(change) + "\n[1]\n{\n" + "{}")
    page, data = report(tmp_path, run)
    assert data["runs"][0]["starts"] == [start]
    (figures,) = json.loads(call(run, "--json").stdout)
    assert figures["starts"] == [start]
    assert data["runs"][0]["changes"] == [change]
    assert "alert(1)</script>" not in page.source
    (run / "run.json").write_text("[]")
    os.remove(run / "config-changes.jsonl")
    data = report(tmp_path, run)[1]
    assert data["runs"][0]["starts"] is None and data["runs"][0]["changes"] == []


def changed(key, step, before, after):
    return {"step": step, "time": "t", "key": key, "from": before, "to": after, "by": "resume"}


def test_the_value_that_holds_is_shown(tmp_path):
    run = make_run(tmp_path / "r", [metrics(1)], config={"max_steps": 3, "seed": 1})
    write_lines(run / "config-changes.jsonl",
                [changed("max_steps", 3, "3", "4"), {"key": 7, "to": 1, "by": "resume"},
                 {**changed("seed", 3, "2", "1"), "by": "config.json"}, {"key": "seed"},
                 changed("max_steps", 4, "4", "5"), changed("name", 4, "", "x")])  # fmt: skip
    data = report(tmp_path, run)[1]
    assert data["runs"][0]["config"] == {"max_steps": 5, "seed": 1, "name": "x"}
    (run / "config.json").write_text("{broken")
    assert report(tmp_path, run)[1]["runs"][0]["config"] is None


def test_hostile_text_is_inert(tmp_path):
    name = "</script><script>alert(2)//"
    run = make_run(
        tmp_path / "a<b>&\"'",
        [metrics(1, **{name: 5.0})],
        [
            trajectory(
                query=HOSTILE,
                ground_truths=[HOSTILE],
                final_answer={"hex": "c0af3c2f736372697074"},
                stop_reason=HOSTILE,
                generated_text={"hex": "ff3c212d2d"},
                segments=[{"source": "environment", "turn": 0, "token_begin": 2,
                           "token_count": 1, "text_begin": 1, "text_len": 99}],
            )
        ],
        {"name": HOSTILE, name: [HOSTILE]},
    )  # fmt: skip
    page, data = report(tmp_path, run)
    assert len(page.texts) == 3  # the style, the data, the script
    assert "alert(1)</script>" not in page.source and "<!--" not in page.source
    assert "\u2028" not in page.source
    (t,) = data["trajectories"][0]["list"]
    assert t["query"] == t["stop"] == HOSTILE and t["gold"] == [HOSTILE]
    assert t["answer"] == "\ufffd\ufffd</script"
    assert t["segments"][0]["text"] == "<!--"  # a cut inside what is there
    assert data["runs"][0]["config"] == {"name": HOSTILE, name: [HOSTILE]}
    assert data["runs"][0]["columns"][name] == [5]


# ---- what a page opens with ----

SAMPLES = {
    "question": HOSTILE, "right_answer": "Rome",
    "samples": [
        {"name": "start", "text": HOSTILE, "figures": {"exact match": 0.25}},
        {"name": "grpo", "text": "<information>x</information>Rome"},
    ],
}


def test_one_question_at_every_stage(tmp_path):
    run = make_run(tmp_path / "r", [metrics(1)])
    (tmp_path / "s.json").write_text(json.dumps(SAMPLES))
    call(run, "--samples", tmp_path / "s.json", cwd=tmp_path)
    assert Page(tmp_path / "report.html").data["samples"] == SAMPLES


@pytest.mark.parametrize("text", ["", "[1]", "{}", '{"question": "q", "samples": []}',
                                  '{"question": "q", "samples": [{"name": "a"}]}'])
def test_samples_that_are_none(tmp_path, text):
    run = make_run(tmp_path / "r", [metrics(1)])
    (tmp_path / "s.json").write_text(text)
    done = call(run, "--samples", tmp_path / "s.json", code=2, cwd=tmp_path)
    assert "--samples" in done.stderr
    assert not (tmp_path / "report.html").exists()


def test_a_model_is_no_run(tmp_path):
    (tmp_path / "m").mkdir()
    (tmp_path / "m" / "config.json").write_text('{"architectures": ["Qwen3ForCausalLM"]}')
    done = call(tmp_path / "m", code=2, cwd=tmp_path)
    assert "holds a model, not a run" in done.stderr
    assert not (tmp_path / "report.html").exists()


def test_what_a_run_does_not_do_has_no_figure(tmp_path):
    rows = [metrics(s, **{"critic/vf_loss": 0}) for s in (1, 2)]
    (figures,) = json.loads(call(make_run(tmp_path / "r", rows), "--json").stdout)
    assert "value_loss_last" not in figures
    rows[1]["critic/vf_loss"] = 0.5
    (figures,) = json.loads(call(make_run(tmp_path / "s", rows), "--json").stdout)
    assert figures["value_loss_last"] == 0.5


# ---- which trajectories ----


def compress(text):
    """A frame of zstd."""
    zstd = ctypes.CDLL("libzstd.so.1")
    zstd.ZSTD_compress.restype = ctypes.c_size_t
    zstd.ZSTD_compressBound.restype = ctypes.c_size_t
    room = zstd.ZSTD_compressBound(ctypes.c_size_t(len(text)))
    out = ctypes.create_string_buffer(room)
    n = zstd.ZSTD_compress(out, ctypes.c_size_t(room), text, ctypes.c_size_t(len(text)), 3)
    return out.raw[:n]


def test_trajectories_are_from_all_of_a_small_run(tmp_path):
    run = make_run(tmp_path / "r", [metrics(s) for s in range(1, 161)])
    os.remove(run / "trajectories.jsonl")
    with open(run / "trajectories.jsonl.zst", "wb") as file:
        for s in range(1, 161):
            line = json.dumps(trajectory(s, reward=s % 7, advantage=s % 5)) + "\n"
            file.write(compress(line.encode()))
    (shown,) = report(tmp_path, run, arguments=["--trajectories", "40"])[1]["trajectories"]
    steps = [t["step"] for t in shown["list"]]
    assert shown["seen"] == 160 and len(steps) > 25
    assert {(s - 1) // 16 for s in steps} == set(range(10))  # some of every tenth
    (all_of_them,) = report(tmp_path, run)[1]["trajectories"]
    assert len(all_of_them["list"]) == 160


# ---- numbers ----


def test_rows_of_some_steps(tmp_path):
    """What took how long with log_interval 5; a row of a validation alone has no alarms."""
    rows = [{"step": 0, "val/reward": 0.5}] + [metrics(s) for s in (5, 10)]
    rows[2].update({"health/alarms": 1, "health/alarm_kl": 1})
    run = make_run(tmp_path / "r", rows)
    starts = [
        {"begun": "2026-02-28T23:59:50Z", "ended": "2026-03-01T00:00:20Z"},
        {"begun": "2026-03-01T10:00:00Z", "ended": "2026-03-01T10:00:12Z"},
    ]
    (run / "run.json").write_text(json.dumps({"format": 1, "starts": starts}))
    (figures,) = json.loads(call(run, "--json").stdout)
    assert figures["run_seconds"] == 42 and "seconds" not in figures
    texts = [v["text"] for v in figures["verdict"]]
    assert "Alarms rang in 1 of 2 rows, last at step 10, and still do." in texts
    assert any(text.startswith("Alarm kl in 1 of 2 rows, last at") for text in texts)
    del starts[0]["ended"]  # it was killed, and nobody knows when
    (run / "run.json").write_text(json.dumps({"format": 1, "starts": starts}))
    (figures,) = json.loads(call(run, "--json").stdout)
    assert "run_seconds" not in figures


def test_a_run_that_was_resumed_is_not_finished_before_its_end(tmp_path):
    run = make_run(tmp_path / "r", [metrics(s) for s in range(1, 6)], config={"max_steps": 5})
    (run / "model").mkdir()
    change = {"step": 6, "key": "max_steps", "from": "5", "to": "9", "by": "resume"}
    write_lines(run / "config-changes.jsonl", [change])
    for outcome, finished in (
        ("under way", False), ("stopped", False), ("failed", False), ("done", True),
    ):
        starts = [{"outcome": "done"}, {"outcome": outcome}]
        (run / "run.json").write_text(json.dumps({"format": 1, "starts": starts}))
        (figures,) = json.loads(call(run, "--json").stdout)
        assert figures["finished"] is finished and figures["steps_planned"] == 9
        texts = [v["text"] for v in figures["verdict"]]
        assert ("Not finished: 5 of 9 steps are done." in texts) is not finished
    (run / "run.json").unlink()  # of an older run
    (figures,) = json.loads(call(run, "--json").stdout)
    assert figures["finished"] is True


def test_a_run_that_learned_nothing(tmp_path):
    barren = {"health/alarms": 1, "health/alarm_zero_advantage": 1}
    rows = [metrics(s, **barren) for s in range(1, 4)]
    (figures,) = json.loads(call(make_run(tmp_path / "r", rows), "--json").stdout)
    first = figures["verdict"][0]
    assert first["tone"] == "bad" and first["text"].startswith("Nothing was learned: ")
    rows[1]["health/alarm_zero_advantage"] = 0
    (figures,) = json.loads(call(make_run(tmp_path / "s", rows), "--json").stdout)
    assert not figures["verdict"][0]["text"].startswith("Nothing was learned")


def test_trajectories_that_were_left_out(tmp_path):
    rows = [metrics(s, **{"training/excluded_trajectories": 8 * (s == 2)}) for s in (1, 2, 3)]
    (figures,) = json.loads(call(make_run(tmp_path / "r", rows), "--json").stdout)
    assert figures["verdict"][-2] == {
        "tone": "plain",
        "text": "Trajectories were left out in 1 of 3 rows, last at step 2: a search, a tool or "
                "the server failed.",
    }  # fmt: skip
    rows[2].update({"training/excluded_trajectories": 8, "training/unscored_trajectories": 8})
    (figures,) = json.loads(call(make_run(tmp_path / "s", rows), "--json").stdout)
    last = figures["verdict"][-2]
    assert last["tone"] == "bad" and "2 of 3 rows, last at step 3, and still are" in last["text"]
    assert "their reward could not be had" in last["text"]


def test_a_run_without_any_reward(tmp_path):
    lost = {"training/excluded_trajectories": 8, "training/unscored_trajectories": 8}
    rows = [metrics(s, **lost, **{"training/trajectories": 8}) for s in (1, 2, 3)]
    rows[2].update({"health/alarms": 1, "health/alarm_rewards": 1})
    (figures,) = json.loads(call(make_run(tmp_path / "r", rows), "--json").stdout)
    first, *rest = figures["verdict"]
    assert first["tone"] == "bad" and "no trajectory had a reward" in first["text"]
    (alarm,) = [v["text"] for v in rest if v["text"].startswith("Alarm rewards")]
    assert "in 1 of 3 rows" in alarm and alarm.endswith("the warnings say how it failed.")
    rows[1]["training/excluded_trajectories"] = 7
    (figures,) = json.loads(call(make_run(tmp_path / "s", rows), "--json").stdout)
    assert "no trajectory had a reward" not in figures["verdict"][0]["text"]


def test_figures_equal_python(tmp_path):
    rows = [
        metrics(s, **{"perf/rss_bytes": 100 * s, "kl_div": 0.01 * s})
        for s in range(1, 21)
    ]
    rows[4]["val/exact_match"] = 0.25
    rows[19]["val/exact_match"] = 0.75
    rows[2]["health/alarms"] = 2
    rows[2]["health/alarm_kl"] = 1
    run = make_run(tmp_path / "r", rows)
    (figures,) = json.loads(call(run, "--json").stdout)
    edge = lambda name, part: statistics.mean(r[name] for r in part)
    assert figures["reward_first"] == pytest.approx(edge("avg_reward", rows[:4]), rel=1e-6)
    assert figures["reward_last"] == pytest.approx(edge("avg_reward", rows[-4:]), rel=1e-6)
    assert figures["kl_last"] == pytest.approx(edge("kl_div", rows[-4:]), rel=1e-6)
    assert figures["exact_match_first"] == 0.25 and figures["exact_match_last"] == 0.75
    assert figures["memory_bytes_greatest"] == 2000
    assert figures["seconds"] == 10
    assert figures["searches_last"] == 1.5
    assert figures["rows_with_alarms"] == 1
    assert figures["steps_done"] == figures["steps_planned"] == 20 and figures["finished"]
    assert [v["text"] for v in figures["verdict"]] == [
        "Learning: the mean reward rose from 0.25 to 1.85.",
        "Exact match on validation went from 0.250 to 0.750.",
        "Alarms rang in 1 of 20 rows, last at step 3.",
        f"Alarm kl in 1 of 20 rows, last at step 3: {searchr1.alarms()['kl']}.",
    ]
    assert not (tmp_path / "report.html").exists()


@pytest.mark.parametrize(
    "environment, name, words",
    [
        ("critique", "validation_reward", "Reward on validation went from 0.250 to 0.750."),
        ("rooms", "success", "Success on validation went from 0.250 to 0.750."),
        ("tools", "exact_match", "Exact match on validation went from 0.250 to 0.750."),
    ],
)
def test_a_validation_tells_what_the_task_is(tmp_path, environment, name, words):
    metric = name.replace("validation_", "")
    rows = [metrics(s, **{"val/reward": 9, "val/success": 9, "val/exact_match": 9,
                          f"val/{metric}": s / 4}) for s in (1, 2, 3)]  # fmt: skip
    run = make_run(tmp_path / "r", rows, config={"environment": environment})
    (figures,) = json.loads(call(run, "--json").stdout)
    assert figures["verdict"][1]["text"] == words
    assert figures[f"{name}_first"] == 0.25 and figures[f"{name}_last"] == 0.75
    others = {"validation_reward", "success", "exact_match"} - {name}
    assert not any(f"{other}_last" in figures for other in others)


@pytest.mark.parametrize(
    "rewards, tone, words",
    [
        ([0.1 * (i % 3) for i in range(30)], "plain", "No clear change of the mean reward yet"),
        ([3 - i / 10 for i in range(30)], "bad", "Getting worse: the mean reward fell"),
        ([0.0] * 4 + [9.0] * 5, "plain", "Too few rows to judge: the mean reward was 0"),
    ],
)
def test_the_verdict_is_no_flatterer(tmp_path, rewards, tone, words):
    rows = [metrics(i + 1, avg_reward=r) for i, r in enumerate(rewards)]
    (figures,) = json.loads(call(make_run(tmp_path / "r", rows), "--json").stdout)
    first = figures["verdict"][0]
    assert first["tone"] == tone and first["text"].startswith(words)


def test_not_a_number_is_a_gap(tmp_path):
    rows = [metrics(1), metrics(2, loss=None), metrics(3)]
    run = make_run(tmp_path / "r", rows)
    with open(run / "metrics.jsonl", "a") as f:
        f.write('{"step": 4, "loss": NaN}\n{"step": 5, "loss": "high", "words": "x"}\n')
    run_data = report(tmp_path, run)[1]["runs"][0]
    assert run_data["steps"] == [1, 2, 3, 5]
    assert run_data["columns"]["loss"] == [1, None, 0.333333, None]
    assert run_data["columns"]["reward"] == "avg_reward"  # the same numbers, once
    assert "words" not in run_data["columns"]
    assert run_data["skippedRows"]["broken"] == 1


def test_long_runs_are_put_together(tmp_path):
    n = 5000
    rows = [
        {"step": s, "loss": s * s / 2, "x/min": s, "x/max": s, "health/alarms": +(s == 17)}
        | ({"val/exact_match": s / n} if s % 3 == 0 else {})
        for s in range(1, n + 1)
    ]
    data = report(tmp_path, make_run(tmp_path / "r", rows))[1]["runs"][0]
    merge, columns = data["merge"], data["columns"]
    assert merge == 8 and data["rows"] == n and len(data["steps"]) == n // 8
    parts = [range(i * 8 + 1, i * 8 + 9) for i in range(n // 8)]
    assert data["steps"] == [p[-1] for p in parts]
    means = [statistics.mean(s * s / 2 for s in p) for p in parts]
    assert columns["loss"] == pytest.approx(means, rel=1e-5)
    few = [statistics.mean(s / n for s in p if s % 3 == 0) for p in parts]
    assert columns["val/exact_match"] == pytest.approx(few, rel=1e-5)
    assert columns["x/min"] == [p[0] for p in parts]
    assert columns["x/max"] == [p[-1] for p in parts]
    assert columns["health/alarms"] == [0, 0, 1] + [0] * (n // 8 - 3)


def test_trajectories_as_a_run_writes_them(model_folder, tmp_path):
    questions = tiny.questions(tmp_path / "train.jsonl")
    folder = tmp_path / "run"
    keys = tiny.config(model_folder, train_file=questions, out=folder, max_steps=3)
    with searchr1.Trainer(keys, tiny.engine) as trainer:
        trainer.run()
    written = list(searchr1.Trajectory.read(folder / "trajectories.jsonl.zst"))
    data = report(tmp_path, folder)[1]["trajectories"][0]
    assert data["seen"] == data["shown"] == len(written) > 3
    for t, shown in zip(written, data["list"]):
        steps = t.steps
        assert shown["ids"] == [s.token_id for s in steps]
        assert shown["at"] == [s.position for s in steps]
        assert shown["turns"] == [s.turn for s in steps]
        assert shown["texts"] == [s.text for s in steps]
        assert shown["logProbs"] == pytest.approx([s.log_prob for s in steps], rel=1e-3)
        assert shown["query"] == t.query and shown["reward"] == pytest.approx(t.reward)
    # one that is being written: the last frame has not come whole
    packed = folder / "trajectories.jsonl.zst"
    packed.write_bytes(packed.read_bytes()[:-7])
    data = report(tmp_path, folder)[1]["trajectories"][0]
    assert 0 < data["seen"] < len(written) and not data["error"]
    assert len(list(searchr1.Trajectory.read(packed))) == data["seen"]
    packed.write_bytes(b"no zstd" * 9)
    assert report(tmp_path, folder)[1]["trajectories"][0]["error"]
    with pytest.raises(searchr1.errors.CorruptError):
        list(searchr1.Trajectory.read(packed))


def test_trajectories_of_validations(model_folder, tmp_path):
    questions = tiny.questions(tmp_path / "train.jsonl")
    folder = tmp_path / "run"
    keys = tiny.config(
        model_folder, train_file=questions, out=folder, max_steps=2, validate_interval=1,
        validation_file=tiny.questions(tmp_path / "v.jsonl", 4), validation_group_size=2,
        validation_temperature=1.0, log_validation_trajectories=3,
    )  # fmt: skip
    with searchr1.Trainer(keys, tiny.engine) as trainer:
        trainer.run()
    written = list(
        searchr1.Trajectory.read(folder / "validation-trajectories.jsonl.zst")
    )
    data = report(tmp_path, folder)[1]
    (shown,) = data["validations"]
    assert shown["seen"] == shown["shown"] == len(written) == 2 * 3
    assert [t["step"] for t in shown["list"]] == [1, 1, 1, 2, 2, 2]
    assert [t["id"] for t in shown["list"]] == [t.query_id for t in written]
    assert [t["reward"] for t in shown["list"]] == pytest.approx(
        [t.reward for t in written]
    )
    assert data["trajectories"][0]["seen"] > 0
    few = report(tmp_path, folder, arguments=["--trajectories", "4"])[1]
    assert few["validations"][0]["shown"] <= 2 >= few["trajectories"][0]["shown"]
    (folder / "validation-trajectories.jsonl.zst").unlink()
    assert report(tmp_path, folder)[1]["validations"][0]["missing"]


# ---- a tolerant reader ----


def test_what_cannot_be_read_is_counted(tmp_path, run):
    with open(run / "metrics.jsonl", "a") as f:
        f.write('[1]\n{"loss": 1}\n{"step": 3}\nnonsense\n{"step": 21, "lo')
    with open(run / "trajectories.jsonl", "ab") as f:
        f.write(b'{"a": [1, 2}\n"text"\n' + b"x" * (17 << 20) + b'\n{"query": "cut')
    data = report(tmp_path, run)[1]
    assert data["runs"][0]["skippedRows"] == {
        "broken": 3, "tooLong": 0, "cut": 1, "backward": 1,
    }  # fmt: skip
    t = data["trajectories"][0]
    assert t["skipped"] == {"broken": 2, "tooLong": 1, "cut": 1, "backward": 0}
    assert t["seen"] == t["shown"] == 20


def test_a_run_that_has_just_begun(tmp_path):
    run = tmp_path / "new"
    run.mkdir()
    (run / "config.json").write_text("{}")
    data = report(tmp_path, run)[1]
    assert data["runs"][0]["rows"] == 0 and data["trajectories"][0]["missing"] == 1
    assert "no metrics yet" in data["runs"][0]["verdict"][0]["text"]
    (run / "config.json").write_text("{broken")
    (run / "checkpoints" / "step-7").mkdir(parents=True)
    (run / "checkpoints" / "step-7" / "state.json").write_text('{"state": {"planned": 9}}')
    data = report(tmp_path, run)[1]["runs"][0]
    assert data["config"] is None
    assert data["figures"]["steps_done"] == 7 and data["figures"]["steps_planned"] == 9
    copy = run / "checkpoints" / "step-30"  # of another step, which somebody keeps
    copy.mkdir()
    (copy / "state.json").write_text('{"step": 7, "state": {"planned": 90}}')
    data = report(tmp_path, run)[1]["runs"][0]
    assert data["figures"]["steps_done"] == 7 and data["figures"]["steps_planned"] == 9


def test_wrong_usage(tmp_path, run):
    assert "name the folder of a run" in call(code=2).stderr
    assert "No such file" in call(tmp_path / "none", code=2).stderr
    assert "holds no run" in call(tmp_path, code=2).stderr
    assert "cannot write" in call(run, "-o", tmp_path / "no" / "page.html", code=2).stderr
    assert "not from 0 to" in call(run, "--trajectories", -1, code=2).stderr
    (run / "page").mkdir()
    assert "is a folder" in call(run, "-o", run / "page", code=2).stderr
    assert sorted(p.name for p in run.iterdir()) == [
        "config.json", "metrics.jsonl", "page", "trajectories.jsonl",
    ]  # fmt: skip


# ---- trajectories ----


def test_a_trajectory_is_as_it_was(tmp_path):
    run = make_run(tmp_path / "r", [metrics(1)], [trajectory()])
    (t,) = report(tmp_path, run)[1]["trajectories"][0]["list"]
    assert t["ids"] == [11, 12, 14] and t["at"] == [2, 3, 5] and t["turns"] == [0, 0, 1]
    assert t["texts"] == ["<search>", " caf\u00e9</search>", "done"]
    assert t["logProbs"] == [-0.25] * 3 and t["promptIds"] == [7, 8]
    assert t["columns"] == {"values": [0.125, 0.25, 0.5]}
    assert [s["policy"] for s in t["segments"]] == [1, 0, 1]
    assert t["segments"][1]["text"] == "<information>x</information>"
    assert t["searches"] == [
        {"turn": 0, "query": "caf\u00e9", "status": 0, "hits": 2, "ids": ["a", "b"]}
    ]
    assert t["parts"] == [["answer", 1, 1]] and t["gold"] == ["here"]


def test_choices_are_spread_over_the_run(tmp_path):
    lines = [trajectory(s, reward=(s * 37) % 101, advantage=(s * 53) % 97 - 48)
             for s in range(1, 1001)]  # fmt: skip
    run = make_run(tmp_path / "r", [metrics(1)], lines)
    chosen = report(tmp_path, run, arguments=["--trajectories", 40])[1]["trajectories"][0]
    assert chosen["seen"] == 1000 and chosen["shown"] == len(chosen["list"])
    assert 30 < chosen["shown"] <= 40
    steps = [t["step"] for t in chosen["list"]]
    assert steps == sorted(steps) and len(set(steps)) == len(steps)
    for k in range(10):  # lines are about equally long: a part holds about 100
        part = [t for t in chosen["list"] if -15 < t["step"] - 100 * k < 115]
        inner = lines[100 * k + 15 : 100 * k + 85]
        assert max(t["reward"] for t in part) >= max(t["reward"] for t in inner)
        assert min(t["reward"] for t in part) <= min(t["reward"] for t in inner)
        strongest = max(abs(t["advantage"]) for t in inner)
        assert max(abs(t["advantage"]) for t in part) >= strongest
    none = report(tmp_path, run, arguments=["--trajectories", 0])[1]["trajectories"][0]
    assert none["list"] == [] and none["seen"] == 1000


def test_the_page_stays_small(tmp_path):
    lines = [trajectory(s, query="q" * 400_000) for s in range(1, 101)]
    run = make_run(tmp_path / "r", [metrics(1)], lines)
    t = report(tmp_path, run)[1]["trajectories"][0]
    assert (tmp_path / "page.html").stat().st_size < 10_000_000
    assert 5 < t["shown"] < 20 and t["tooBig"] == 100 - t["shown"]
    assert max(x["step"] for x in t["list"]) > 66 and min(x["step"] for x in t["list"]) < 34


def test_memory_does_not_grow_with_the_file(tmp_path):
    run = make_run(tmp_path / "r", [metrics(1)])
    block = "".join(json.dumps(trajectory(1, query="w " * 5000)) + "\n" for _ in range(90))
    with open(run / "trajectories.jsonl", "w") as f:
        for _ in range(200 * 2**20 // len(block) + 1):
            f.write(block)
    assert (run / "trajectories.jsonl").stat().st_size > 200 * 2**20
    most = 64 << 20  # bytes of address space, libraries included
    done = subprocess.run(
        [TOOL, run, "-o", tmp_path / "p.html"],
        capture_output=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (most, most)),
    )
    assert done.returncode == 0, done.stderr


# ---- several runs ----


def test_names_of_any_bytes(tmp_path):
    run = make_run(tmp_path / "plain", [metrics(1)])
    odd = os.fsencode(tmp_path) + b"/r\xff\xc3\xa9"
    os.rename(run, odd)
    done = subprocess.run([TOOL, odd, "--json"], capture_output=True, check=True)
    assert json.loads(done.stdout)[0]["run"] == "r???"
    subprocess.run([TOOL, odd, "-o", tmp_path / "page.html"], check=True)
    assert Page(tmp_path / "page.html").data["runs"][0]["label"] == "r\ufffd\u00e9"


def test_runs_are_told_apart(tmp_path):
    a = make_run(tmp_path / "x" / "grpo", [metrics(1)], [trajectory()])
    b = make_run(tmp_path / "y" / "grpo", [metrics(1)], [trajectory()])
    data = report(tmp_path, a, b, str(tmp_path / "x" / "grpo") + "/")[1]
    assert [r["label"] for r in data["runs"]][:2] != ["grpo", "grpo"]
    data = report(tmp_path, a, f"{b}/")[1]
    assert [r["label"] for r in data["runs"]] == ["x/grpo", "y/grpo"]
    assert [t["list"][0]["run"] for t in data["trajectories"]] == [0, 1]


# ---- in a browser ----

BROWSER = shutil.which("chromium") or shutil.which("google-chrome")


def dumped(tmp_path):
    done = subprocess.run(
        [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=3000",
         f"--user-data-dir={tmp_path}/profile", "--dump-dom", f"file://{tmp_path}/page.html"],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    return done.stdout


def chart_of(page, title):
    """The figure of that title, or None."""
    found = [f for f in re.findall(r"<figure.*?</figure>", page, re.S) if title in f]
    return found[0] if found else None


@pytest.mark.skipif(BROWSER is None, reason="no Chromium here")
def test_axes_and_rates_say_what_happened(tmp_path):
    skipped = {"training/skipped_updates": 1, "learning_rate": 0}
    rows = [metrics(i, **skipped, **{"perf/rss_bytes": 163.2e6 + 2e5 * i,
                                     "env/refused_rate": 0.25}) for i in range(1, 6)]  # fmt: skip
    report(tmp_path, make_run(tmp_path / "r", rows, []))
    page = dumped(tmp_path)
    labels = re.findall(r'text-anchor="end"[^>]*>([0-9.]+ MB)<', chart_of(page, "Memory"))
    assert labels and len(labels) == len(set(labels))
    assert chart_of(page, "Refused actions")
    assert chart_of(page, "Learning rate") is None
    assert "Learning rate" not in "".join(re.findall(r"Always 0: [^<]*", page))


@pytest.mark.skipif(BROWSER is None, reason="no Chromium here")
def test_a_value_stands_with_its_change(tmp_path):
    a = make_run(tmp_path / "a", [metrics(1)], [], {"max_steps": 3})
    b = make_run(tmp_path / "b", [metrics(1)], [], {"max_steps": 3})
    write_lines(a / "config-changes.jsonl", [changed("max_steps", 3, "3", "5")])
    report(tmp_path, a, b)
    page = dumped(tmp_path)
    differs = page[page.index("What differs between the runs") :]
    assert "5; 3 before step 3</td>" in differs and ">3</td>" in differs


@pytest.mark.skipif(BROWSER is None, reason="no Chromium here")
def test_what_a_program_gave_is_shown(tmp_path):
    config = {"environment": "none", "search_engine": "mock", "rewards": "answer"}
    given = {"environment": "tools", "tools": ["town", "add"], "engine": "mine",
             "rewards": [["called", 1.0]]}  # fmt: skip
    a = make_run(tmp_path / "a", [metrics(1, loss=-2.5e-8)], [trajectory()], config)
    (a / "run.json").write_text(json.dumps({"format": 1, "starts": [{"given": given}]}))
    report(tmp_path, a)
    page = dumped(tmp_path)
    for text in ("tools (of the program: town, add)", "mine (of the program)", "answer, called"):
        assert f"<dd>{text}</dd>" in page
    assert "\u22122.5e\u22128" in page
    b = make_run(tmp_path / "b", [metrics(1)], [], config)
    report(tmp_path, a, b)
    differs = dumped(tmp_path).split("What differs between the runs")[1]
    assert ">tools (of the program: town, add)</td>" in differs and ">none</td>" in differs


@pytest.mark.skipif(BROWSER is None, reason="no Chromium here")
def test_a_long_question_is_no_heading(tmp_path):
    prompt = "You criticise answers.\n\n" + "The problem and its answer. " * 40
    report(tmp_path, make_run(tmp_path / "r", [metrics(1)], [trajectory(query=prompt)]))
    page = dumped(tmp_path)
    assert "<h3>You criticise answers. \u2026</h3>" in page
    assert re.search(r"The whole question</summary><pre[^>]*>You criticise answers.\n\n", page)


@pytest.mark.skipif(BROWSER is None, reason="no Chromium here")
@pytest.mark.parametrize("kind", ["one", "several", "empty", "hostile", "samples"])
def test_the_script_runs_without_errors(tmp_path, run, kind):
    other = make_run(tmp_path / "o", [metrics(1, **{"health/alarms": 1})],
                     [trajectory(query=HOSTILE, token_steps=[{"x": 1}], segments="?")])  # fmt: skip
    empty = tmp_path / "empty"
    empty.mkdir()
    (empty / "config.json").write_text("{}")
    runs = {
        "one": [run],
        "several": [run, other, empty],
        "empty": [empty],
        "hostile": [other],
        "samples": [run],
    }
    (tmp_path / "s.json").write_text(json.dumps(SAMPLES))
    samples = ["--samples", tmp_path / "s.json"] if kind == "samples" else []
    report(tmp_path, *runs[kind], arguments=samples)
    page = dumped(tmp_path)
    root = page.split(">")[1] + page.split(">")[2]
    assert 'data-errors="0"' in root and 'data-ready="1"' in root, page[:500]
    assert (page.count('class="line"') > 3) == (kind != "empty")
    assert page.count('class="sample"') == 2 * (kind == "samples")


# ---- a run that is under way ----


def ask(url, path="/", method="GET", **headers):
    request = urllib.request.Request(url + path, method=method, headers=headers)
    try:
        with urllib.request.urlopen(request) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def data_of(text):
    return json.loads(re.search(r'id="data">(.*?)</script>', text, re.S)[1])


@pytest.fixture()
def served(run):
    server = subprocess.Popen(
        [TOOL, run, "--serve", "--port", "0"], stdout=subprocess.PIPE, text=True
    )
    url = server.stdout.readline().split()[0]
    yield url
    server.send_signal(signal.SIGINT)
    assert server.wait(timeout=60) == 130


def test_a_run_under_way_is_served(served, run):
    assert served.startswith("http://127.0.0.1:")
    code, page = ask(served)
    made, before = data_of(page)["made"], data_of(page)
    assert code == 200 and "connect-src 'self'" in page
    assert ask(served, "/made") == (200, f"{made}\n")
    time.sleep(2.1)
    assert ask(served, "/made") == (200, f"{made}\n")  # nothing has changed
    with open(run / "metrics.jsonl", "a") as file:
        file.write(json.dumps(metrics(21, loss=0.125)) + "\n")
    assert int(ask(served, "/made")[1]) > made
    after = data_of(ask(served)[1])
    assert after["made"] > made and json.dumps(after) != json.dumps(before)
    assert "0.125" in json.dumps(after)


EARLIER = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <time.h>
#include <unistd.h>

time_t time(time_t *out)
{
    time_t (*real)(time_t *);
    time_t now;

    *(void **)&real = dlsym(RTLD_NEXT, "time");
    now = real(NULL) - (access("set_back", F_OK) == 0 ? 3600 : 0);
    if (out)
        *out = now;
    return now;
}
"""


@pytest.mark.skipif(not shutil.which("cc"), reason="no compiler here")
def test_a_clock_that_is_set_back_stops_no_page(tmp_path, run):
    (tmp_path / "earlier.c").write_text(EARLIER)
    shim = tmp_path / "earlier.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", shim, tmp_path / "earlier.c"], check=True)
    server = subprocess.Popen(
        [TOOL, run, "--serve", "--port", "0"],
        stdout=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "LD_PRELOAD": str(shim), "ASAN_OPTIONS": "verify_asan_link_order=0"},
    )
    try:
        url = server.stdout.readline().split()[0]
        made = int(ask(url, "/made")[1])
        (tmp_path / "set_back").touch()
        with open(run / "metrics.jsonl", "a") as file:
            file.write(json.dumps(metrics(21, loss=0.125)) + "\n")
        time.sleep(2.1)
        assert int(ask(url, "/made")[1]) > made
        assert "0.125" in json.dumps(data_of(ask(url)[1]))
    finally:
        server.send_signal(signal.SIGINT)
        assert server.wait(timeout=60) == 130


def test_others_are_not_served(served):
    for host in ("evil.example", "127.0.0.1", "localhost:1"):
        assert ask(served, Host=host)[0] == 403
    port = served.rpartition(":")[2]
    assert "begin at the same port" in ask(served, Host="localhost:8080")[1]
    assert ask(served, Host=f"localhost:{port}")[0] == 200
    for path in ("/config.json", "/../config.json", "/made/"):
        assert ask(served, path)[0] == 404
    assert ask(served, method="POST")[0] == 405
    code, head = ask(served, method="HEAD")
    assert (code, head) == (200, "")


def test_serving_has_its_own_options(tmp_path, run):
    wrong = call(run, "--serve", "-o", tmp_path / "p.html", code=2)
    assert "writes no file" in wrong.stderr
    assert "--expose" in call(run, "--serve", "--host", "192.0.2.1", code=2).stderr
