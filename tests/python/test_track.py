"""Trackers: MLflow by the library, against a server of the tests and, where it is
installed, MLflow itself; others that follow a run's files."""

import json
import logging
import os
import posixpath
import re
import socket
import subprocess
import sys
import threading
import time
import types
import urllib.request

import pytest

import searchr1.log
from searchr1 import Trainer, errors, track

import tiny
from json_server import JsonServer

ROWS = [
    {"id": f"q{i}", "question": f"Where is tower {i}?", "golden_answers": ["Paris"]}
    for i in range(6)
]


def is_valid(metric):
    """As mlflow.utils.validation has it: its pattern, MAX_ENTITY_KEY_LENGTH, and
    path_not_unique."""
    name = metric["key"]
    path = posixpath.normpath(name)
    return (
        re.fullmatch(r"[/\w.\- ]*", name) and len(name) <= 250 and path == name
        and path != "." and not path.startswith(("..", "/"))
    )


class FakeMlflow(JsonServer):
    """What is used of its REST API, with the limits of log-batch."""

    def __init__(self):
        self.down, self.calls, self.runs, self.experiments = False, [], {}, {}
        self.authorization, self.refused = None, 0
        self.bad_steps = ()  # of rows that are refused
        super().__init__()

    def get(self, handler):
        self.authorization = handler.headers["Authorization"]
        if self.down:
            return 503, {}
        name = handler.path.split("experiment_name=")[1]
        if name not in self.experiments:
            return 404, {"error_code": "RESOURCE_DOES_NOT_EXIST"}
        return 200, {"experiment": {"experiment_id": self.experiments[name]}}

    def post(self, handler, text):
        call, body = handler.path.rpartition("mlflow/")[2], json.loads(text)
        if self.down:
            return 503, {}
        self.calls.append(call)
        return getattr(self, call.replace("/", "_").replace("-", "_"))(body)

    def experiments_create(self, body):
        self.experiments[body["name"]] = str(len(self.experiments) + 7)
        return 200, {"experiment_id": self.experiments[body["name"]]}

    def runs_create(self, body):
        assert body["experiment_id"] in self.experiments.values()
        run = f"run{len(self.runs)}"
        self.runs[run] = {"params": {}, "metrics": [], "status": "RUNNING", **body}
        return 200, {"run": {"info": {"run_id": run}}}

    def runs_update(self, body):
        if body["run_id"] not in self.runs:
            return 400, {"error_code": "INVALID_PARAMETER_VALUE"}  # as MLflow 3.18
        self.runs[body["run_id"]].update(status=body["status"], end=body.get("end_time"))
        return 200, {}

    def runs_log_batch(self, body):
        if "params" in body and self.refused:
            self.refused -= 1
            return 503, {}
        run = self.runs[body["run_id"]]
        if not all(map(is_valid, body.get("metrics", []))):
            return 400, {"error_code": "INVALID_PARAMETER_VALUE", "message": "a bad name"}
        if any(m["step"] in self.bad_steps for m in body.get("metrics", [])):
            return 400, {"error_code": "INVALID_PARAMETER_VALUE", "message": "a bad row"}
        assert len(body.get("metrics", [])) <= 1000 and len(body.get("params", [])) <= 100
        for param in body.get("params", []):
            assert run["params"].setdefault(param["key"], param["value"]) == param["value"]
        run["metrics"] += body.get("metrics", [])
        return 200, {}


@pytest.fixture()
def server():
    server = FakeMlflow()
    yield server
    server.close()


@pytest.fixture()
def settings(model_folder, tmp_path, server):
    return tiny.config(
        model_folder, out=tmp_path / "run", max_steps=2, save_interval=1,
        mlflow_tracking_uri=server.url + "/", mlflow_experiment="towers",
    )


def rows_of(folder):
    return [json.loads(line) for line in open(folder / "metrics.jsonl")]


def check_metrics(run, rows):
    """Every number of every row, once, under its name at its step."""
    got = [(m["key"], m["step"], m["value"], m["timestamp"]) for m in run["metrics"]]
    want = [
        (key, row["step"], value, row["perf/timestamp"] * 1000)
        for row in rows
        for key, value in row.items()
        if isinstance(value, (int, float)) and key not in ("step", "perf/timestamp")
    ]
    assert sorted(got) == sorted(want) and len(want) > 100


def test_metrics_and_keys_arrive(settings, server, tmp_path):
    with Trainer(settings, tiny.engine, train=ROWS) as trainer:
        trainer.run()
    (run,) = server.runs.values()
    check_metrics(run, rows_of(tmp_path / "run"))
    assert run["status"] == "FINISHED" and run["end"] > 1e12 and run["run_name"] == "run"
    assert run["params"]["learning_rate"] == "0.001" and run["params"]["group_size"] == "4"
    assert server.experiments == {"towers": "7"}
    with Trainer.resume(tmp_path / "run", tiny.engine, max_steps=3) as trainer:
        trainer.run()
    assert server.calls.count("runs/create") == 1
    check_metrics(run, rows_of(tmp_path / "run"))
    server.runs.clear()  # deleted at the server: another one has all rows
    with Trainer.resume(tmp_path / "run", tiny.engine, max_steps=4) as trainer:
        trainer.run()
    (run,) = server.runs.values()
    check_metrics(run, rows_of(tmp_path / "run"))


def warnings_of_a_run(settings, caplog):
    """Trains, and gives what was said of MLflow."""
    searchr1.log.send_to(logging.getLogger("tracked"))
    try:
        with caplog.at_level(logging.WARNING, "tracked"):
            with Trainer(settings, tiny.engine, train=ROWS) as trainer:
                trainer.run()
    finally:
        searchr1.log.send_to(searchr1.log.logger)
    return [r.getMessage() for r in caplog.records if "MLflow" in r.getMessage()]


def test_a_server_that_is_down_costs_nothing(settings, server, tmp_path, caplog):
    server.down = True
    told = warnings_of_a_run(settings, caplog)
    assert ["HTTP 503" in text or "503" in text for text in told] == [True, False]
    assert "are sent when it answers" in told[0] and "does not have the last" in told[1]
    assert server.runs == {} and len(rows_of(tmp_path / "run")) == 2
    server.down = False
    with Trainer.resume(tmp_path / "run", tiny.engine, max_steps=3) as trainer:
        trainer.run()
    (run,) = server.runs.values()
    check_metrics(run, rows_of(tmp_path / "run"))


def test_names_are_those_that_a_server_takes(settings, server, tmp_path):
    sources = ["", "nq/", "https://x/y", "..", ".x", "a" * 300, "b" * 300, "a" * 300 + "c"]
    settings["validate_interval"] = 1
    rows = [{**ROWS[0], "id": f"v{i}", "data_source": s} for i, s in enumerate(sources)]
    with Trainer(settings, tiny.engine, train=ROWS, validation=rows) as trainer:
        trainer.run()
    (run,) = server.runs.values()
    keys = {m["key"] for m in run["metrics"] if m["step"] == 2}
    numbers = [key for key, value in rows_of(tmp_path / "run")[-1].items()
               if isinstance(value, (int, float)) and key not in ("step", "perf/timestamp")]
    assert len(keys) == len(numbers) and run["status"] == "FINISHED"
    assert any("aaa" in key for key in keys) and any("https" in key for key in keys)


def test_names_of_the_tracker_are_too():
    names = ["val/f1/", "val/f1/nq/", "https://x/y", "a/../b", ".", "..", "..x", "", "/x",
             "e" * 300, "e" * 301]
    clean = [track.mlflow_name(name) for name in names]
    assert all(is_valid({"key": name}) for name in clean) and len(set(clean)) == len(names)
    assert track.mlflow_name("val/f1/nq.test-1") == "val/f1/nq.test-1"


def test_a_row_that_is_refused_keeps_no_other(settings, server, tmp_path, caplog):
    server.bad_steps = (1, 3)
    settings["max_steps"] = 5
    (told,) = warnings_of_a_run(settings, caplog)
    (run,) = server.runs.values()
    check_metrics(run, [row for row in rows_of(tmp_path / "run") if row["step"] not in (1, 3)])
    assert run["status"] == "FINISHED"
    assert "refuses a row of metrics" in told and "a bad row" in told


def test_keys_are_sent_again(settings, server):
    server.refused = 1
    with Trainer(settings, tiny.engine, train=ROWS) as trainer:
        trainer.run()
    (run,) = server.runs.values()
    assert run["params"]["group_size"] == "4" and run["metrics"]


def test_addresses_and_credentials(settings, server, monkeypatch):
    settings["mlflow_tracking_uri"] = "env"
    with Trainer(settings, tiny.engine, train=ROWS) as trainer:
        with pytest.raises(errors.ConfigError, match="MLFLOW_TRACKING_URI is not set"):
            trainer.run()
    assert not os.path.exists(settings["out"] + "/config.json")  # nothing was written
    monkeypatch.setenv("MLFLOW_TRACKING_URI", server.url)
    monkeypatch.setenv("MLFLOW_TRACKING_TOKEN", "secret")
    with Trainer(settings, tiny.engine, train=ROWS) as trainer:
        trainer.run()
    assert server.authorization == "Bearer secret" and len(server.runs) == 1
    settings["out"] += "-2"
    settings["mlflow_tracking_uri"] = "ftp://x"
    with Trainer(settings, tiny.engine, train=ROWS) as trainer:
        match = "searchr1.track RUN --to mlflow: mlflow_tracking_uri"
        with pytest.raises(errors.ConfigError, match=match):
            trainer.run()
        with pytest.raises(errors.ConfigError, match=match):
            Trainer.check(settings)
    assert not os.path.exists(settings["out"] + "/config.json")


def test_mlflow_itself(settings, tmp_path):
    """The server of the package, and what its own client then reads."""
    mlflow = pytest.importorskip("mlflow")
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-m", "mlflow", "server", "--port", str(port), "--workers",
               "1", "--backend-store-uri", f"sqlite:///{tmp_path}/m.db",
               "--default-artifact-root", str(tmp_path / "artifacts")]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_for(url + "/health")
        settings["mlflow_tracking_uri"] = url
        with Trainer(settings, tiny.engine, train=ROWS) as trainer:
            trainer.run()
        with Trainer.resume(tmp_path / "run", tiny.engine, max_steps=4) as trainer:
            trainer.run()
        client = mlflow.MlflowClient(url)
        experiment = client.get_experiment_by_name("towers")
        (run,) = client.search_runs([experiment.experiment_id])
        assert run.info.status == "FINISHED" and run.data.params["group_size"] == "4"
        rows = rows_of(tmp_path / "run")
        for name in ("loss", "rewards/answer/mean", "critic/score/mean"):
            history = client.get_metric_history(run.info.run_id, name)
            assert [(m.step, m.value) for m in history] == [
                (row["step"], row[name]) for row in rows
            ]
        os.environ["MLFLOW_TRACKING_URI"] = url
        assert track.main([str(tmp_path / "run"), "--to", "mlflow", "--project", "again"]) == 0
        experiment = client.get_experiment_by_name("again")
        (run,) = client.search_runs([experiment.experiment_id])
        history = client.get_metric_history(run.info.run_id, "loss")
        assert [m.step for m in history] == [1, 2, 3, 4]
    finally:
        os.environ.pop("MLFLOW_TRACKING_URI", None)
        server.terminate()
        server.wait()


def wait_for(url):
    for _ in range(600):
        try:
            return urllib.request.urlopen(url).read()
        except OSError:
            time.sleep(0.5)
    raise AssertionError(f"{url} does not answer")


# ---- those that follow ----


class Recorder(types.ModuleType):
    """wandb, trackio and swanlab, as far as they are used."""

    def __init__(self, name):
        super().__init__(name)
        self.logged, self.inits, self.ends = [], [], []
        self.id = "abc"

    def init(self, **given):
        self.inits.append(given)
        return self

    def log(self, metrics, step):
        self.logged.append((step, metrics))

    def finish(self, exit_code=None):
        self.ends.append(exit_code)


def write_run(folder, steps, outcome="done"):
    """As a run does: rows come before the outcome, and run.json is there whole."""
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps({"group_size": "4"}))
    with open(folder / "metrics.jsonl", "a") as file:
        for step in steps:
            file.write(json.dumps({"step": step, "loss": step / 2, "none": None}) + "\n")
    (folder / "run.part").write_text(json.dumps({"starts": [{"outcome": outcome}]}))
    os.replace(folder / "run.part", folder / "run.json")


@pytest.mark.parametrize("name", ["wandb", "trackio", "swanlab"])
def test_a_run_is_followed(name, tmp_path, monkeypatch, capsys):
    fake = Recorder(name)
    monkeypatch.setitem(sys.modules, name, fake)
    run = tmp_path / "run"
    write_run(run, (1, 2), "under way")
    with open(run / "metrics.jsonl", "a") as file:
        file.write('{"step": 3, "lo')  # is being written
    assert track.main([str(run), "--to", name, "--once"]) == 0
    assert fake.logged == [(1, {"loss": 0.5}), (2, {"loss": 1.0})]
    with open(run / "metrics.jsonl", "a") as file:
        file.write('ss": 1.5}\n')

    def go_on():
        time.sleep(0.3)
        write_run(run, (3, 4), "under way")  # a resumed run repeats a step
        write_run(run, (5,))

    writer = threading.Thread(target=go_on)
    writer.start()
    assert track.main([str(run), "--to", name, "--interval", "0.05", "--project", "p"]) == 0
    writer.join()
    assert [step for step, _ in fake.logged] == [1, 2, 3, 4, 5]
    first, second = fake.inits
    assert first["config"] == {"group_size": "4"} and second["project"] == "p"
    if name == "wandb":
        assert (first["id"], second["id"], second["resume"]) == (None, "abc", "allow")
        assert fake.ends == [0, 0]
    assert "3 rows to" in capsys.readouterr().out


def test_a_run_that_went_back_loses_no_step(tmp_path, monkeypatch):
    fake = Recorder("wandb")
    monkeypatch.setitem(sys.modules, "wandb", fake)
    run = tmp_path / "run"
    write_run(run, (1, 2, 3))
    assert track.main([str(run), "--to", "wandb", "--once"]) == 0
    rows = [json.dumps({"step": i, "l": i}) + "\n" for i in (1, 2, 3, 4, 5)]  # shorter
    (run / "metrics.jsonl").write_text("".join(rows))
    assert track.main([str(run), "--to", "wandb", "--once"]) == 0
    assert [step for step, _ in fake.logged] == [1, 2, 3, 4, 5]


def test_a_follower_that_fails_goes_on_in_the_same_run(tmp_path, monkeypatch):
    """Before the run has rows, and where the tracker takes some of them only."""
    fake = Recorder("wandb")
    monkeypatch.setitem(sys.modules, "wandb", fake)
    run = tmp_path / "run"
    write_run(run, (), "under way")
    (run / "metrics.jsonl").unlink()
    assert track.main([str(run), "--to", "wandb", "--once"]) == 0
    write_run(run, (1, 2, 3))
    log = fake.log

    def full(metrics, step):
        if step == 3 and fake.log is full:
            raise ConnectionError("full")
        log(metrics, step)

    fake.log = full
    with pytest.raises(ConnectionError):
        track.main([str(run), "--to", "wandb", "--once"])
    fake.log = log
    assert track.main([str(run), "--to", "wandb", "--once"]) == 0
    assert [step for step, _ in fake.logged] == [1, 2, 3]
    assert [given["id"] for given in fake.inits] == [None, "abc", "abc"]


def test_what_is_wrong_is_said(tmp_path, monkeypatch, capsys):
    assert track.main([str(tmp_path), "--to", "wandb"]) == 1
    assert "name the folder of a run" in capsys.readouterr().err
    write_run(tmp_path / "run", (1,))
    monkeypatch.setitem(sys.modules, "wandb", None)
    assert track.main([str(tmp_path / "run"), "--to", "wandb"]) == 1
    assert "pip install wandb" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["wandb", "trackio"])
def test_the_trackers_themselves(name, tmp_path, monkeypatch):
    pytest.importorskip(name)
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_DIR", str(tmp_path))
    monkeypatch.setenv("TRACKIO_DIR", str(tmp_path / "trackio"))
    write_run(tmp_path / "run", (1, 2))
    command = [sys.executable, "-m", "searchr1.track", "run", "--to", name, "--once"]
    for steps, told in (((), "2 rows"), ((3, 4), "2 rows")):
        write_run(tmp_path / "run", steps)
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert f"{told} to {name}" in done.stdout
    assert json.loads((tmp_path / "run" / f"tracked-{name}.json").read_text())["step"] == 4
