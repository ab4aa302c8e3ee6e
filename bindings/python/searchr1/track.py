"""Follow a run from its files, and give its metrics to a tracker:

    python3 -m searchr1.track RUN --to wandb|trackio|swanlab|mlflow
                              [--project NAME] [--once] [--interval SECONDS]

RUN may be under way, on any machine that sees its folder, or be over; the training itself
knows nothing of it. RUN/tracked-NAME.json says how far the tracker is, so the same command
goes on in the same run of the tracker, also after RUN was resumed. It ends when the run
does; --once ends it when all rows are there. The tracker's package has to be installed, and
is told where to send things by its own variables (WANDB_MODE=offline, ...)."""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import sys
import time
import zlib
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Tuple

Row = Dict[str, Any]
LONGEST_ROW = 1 << 20  # bytes


class TrackError(Exception):
    """What is wrong, for people."""


# ---- trackers ----


class Wandb:
    """Weights & Biases."""

    def __init__(self, project: str, name: str, config: Row, known: Optional[str]) -> None:
        import wandb

        self.run = wandb.init(
            project=project, name=name, config=config, id=known, resume="allow"
        )
        self.id = str(self.run.id)

    def log(self, metrics: Row, step: int) -> None:
        self.run.log(metrics, step=step)

    def finish(self, failed: bool) -> None:
        self.run.finish(exit_code=int(failed))


class Trackio:
    """Hugging Face's trackio, whose runs are known by their names."""

    def __init__(self, project: str, name: str, config: Row, known: Optional[str]) -> None:
        import trackio

        self.trackio, self.id = trackio, known or name
        trackio.init(project=project, name=self.id, config=config, resume="allow")

    def log(self, metrics: Row, step: int) -> None:
        self.trackio.log(metrics, step=step)

    def finish(self, failed: bool) -> None:
        self.trackio.finish()


class Swanlab:
    """SwanLab."""

    def __init__(self, project: str, name: str, config: Row, known: Optional[str]) -> None:
        import swanlab

        self.swanlab = swanlab
        more = {"id": known, "resume": "allow"} if known else {}
        run = swanlab.init(project=project, experiment_name=name, config=config, **more)
        self.id = str(getattr(run, "id", "") or name)

    def log(self, metrics: Row, step: int) -> None:
        self.swanlab.log(metrics, step=step)

    def finish(self, failed: bool) -> None:
        self.swanlab.finish()


def mlflow_name(name: str) -> str:
    """A name that MLflow takes: a path in its normal form, of at most 250 characters."""
    clean = "".join(c if c.isalnum() or c in "_-./ " else "_" for c in name)
    clean = re.sub(r"(^|(?<=/))(?=[./]|$)", "_", clean)
    if len(clean) <= 250:
        return clean
    return f"{clean[:241]}-{zlib.crc32(name.encode()):08x}"


class Mlflow:
    """MLflow's own client: the server is that of MLFLOW_TRACKING_URI."""

    def __init__(self, project: str, name: str, config: Row, known: Optional[str]) -> None:
        import mlflow

        self.mlflow = mlflow
        mlflow.set_experiment(project)
        run = mlflow.start_run(run_id=known, run_name=None if known else name)
        self.id = str(run.info.run_id)
        if not known:
            mlflow.log_params({k: str(v)[:500] for k, v in config.items() if v != ""})

    def log(self, metrics: Row, step: int) -> None:
        self.mlflow.log_metrics({mlflow_name(k): v for k, v in metrics.items()}, step=step)

    def finish(self, failed: bool) -> None:
        self.mlflow.end_run("FAILED" if failed else "FINISHED")


TRACKERS: Dict[str, Callable[[str, str, Row, Optional[str]], Any]] = {
    "wandb": Wandb,
    "trackio": Trackio,
    "swanlab": Swanlab,
    "mlflow": Mlflow,
}


# ---- the run ----


def _load(path: Path) -> Row:
    try:
        return dict(json.loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise TrackError(f"{path}: {error}") from error


def _save(path: Path, state: Row) -> None:
    part = path.with_suffix(".part")
    part.write_text(json.dumps(state))
    os.replace(part, path)


def read_rows(path: Path, begin: int) -> Iterator[Tuple[Row, int]]:
    """The whole rows from an offset on, each with the offset behind it. What is still
    being written is not among them."""
    with open(path, "rb") as file:
        file.seek(begin)
        for line in file:
            if not line.endswith(b"\n"):
                return
            begin += len(line)
            try:
                row = json.loads(line)
            except ValueError:
                continue
            if isinstance(row, dict):
                yield row, begin


def ends_with_step(path: Path, end: int, step: int) -> bool:
    """Is the row before an offset that of this step? Else the run went back to a
    checkpoint since, and what lies where has changed."""
    with open(path, "rb") as file:
        if end > os.fstat(file.fileno()).st_size:
            return False
        begin = max(0, end - LONGEST_ROW)
        file.seek(begin)
        text = file.read(end - begin)
    if not text.endswith(b"\n"):
        return not text
    try:
        return bool(json.loads(text[:-1].rpartition(b"\n")[2])["step"] == step)
    except (ValueError, KeyError, TypeError):
        return False


def numbers(row: Row) -> Row:
    """The figures of a row."""
    return {
        name: value
        for name, value in row.items()
        if name != "step" and isinstance(value, (int, float)) and math.isfinite(value)
    }


class Follower:
    """A run, and the tracker that its rows go to."""

    def __init__(self, run: Path, to: str, project: str) -> None:
        if not (run / "config.json").exists():
            raise TrackError(f"{run}: there is no config.json; name the folder of a run")
        self.run, self.state_path = run, run / f"tracked-{to}.json"
        self.state = _load(self.state_path)
        config = _load(run / "config.json")
        known = self.state.get("id")
        try:
            self.tracker = TRACKERS[to](project, run.resolve().name, config, known)
        except ImportError as error:
            raise TrackError(
                f"{to} is not installed ({error}); python3 -m pip install {to}"
            ) from error
        self.state = {"id": self.tracker.id, "sent": 0, "step": -1, **self.state}
        _save(self.state_path, self.state)  # whatever comes, it is the same run there

    def send(self) -> int:
        """Rows that are new since the last time; how many."""
        path, count = self.run / "metrics.jsonl", 0
        if not path.exists():
            return 0
        begin = int(self.state["sent"])
        if not ends_with_step(path, begin, self.state["step"]):
            begin = 0  # steps that were sent are passed over
        try:
            for row, end in read_rows(path, begin):
                step = int(row.get("step", 0))
                if step > self.state["step"]:  # a resumed run repeats some
                    self.tracker.log(numbers(row), step)
                    self.state["step"] = step
                    count += 1
                self.state["sent"] = end
        finally:
            _save(self.state_path, self.state)
        return count

    def outcome(self) -> str:
        """How the last start of the run ended: "under way", "done", ..."""
        starts: List[Row] = _load(self.run / "run.json").get("starts") or [{}]
        return str(starts[-1].get("outcome", "under way"))


def follow(
    run: Path, to: str, project: str = "searchr1", once: bool = False, interval: float = 5.0
) -> int:
    """Give the rows of a run to a tracker until the run ends; how many there were."""
    follower = Follower(run, to, project)
    sent, outcome = 0, "under way"
    try:
        while True:
            outcome = follower.outcome()  # before the rows: those written since are sent
            sent += follower.send()
            if once or outcome != "under way":
                return sent
            time.sleep(interval)
    finally:
        follower.tracker.finish(outcome not in ("done", "stopped", "under way"))


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python3 -m searchr1.track",
        description="Follow a run from its files, and give its metrics to a tracker.",
    )
    parser.add_argument("run", type=Path, help="folder of a run")
    parser.add_argument("--to", required=True, choices=sorted(TRACKERS))
    parser.add_argument("--project", default="searchr1", help="project, or experiment")
    parser.add_argument("--once", action="store_true", help="do not wait for more rows")
    parser.add_argument("--interval", type=float, default=5.0, help="seconds between looks")
    given = parser.parse_args(list(arguments))
    try:
        count = follow(given.run, given.to, given.project, given.once, given.interval)
    except TrackError as error:
        print(f"searchr1.track: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("searchr1.track: stopped; the same command goes on", file=sys.stderr)
        return 130
    print(f"{given.run}: {count} row{'' if count == 1 else 's'} to {given.to}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
