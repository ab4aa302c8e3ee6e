"""Rows, environments and tools that a program has, given to a trainer as they are."""

import datetime
import gc
import json
import shutil

import pytest

import searchr1
from searchr1 import Dataset, Query, Reply, Trainer, errors

import tiny

ROWS = [
    {"id": f"q{i}", "question": f"Where is tower {i}?", "golden_answers": ["Paris"]}
    for i in range(6)
]
OTHER = [*ROWS[:5], {**ROWS[5], "question": "Where is it?"}]


@pytest.fixture()
def settings(model_folder, tmp_path):
    return tiny.config(model_folder, out=tmp_path / "run", max_steps=2, save_interval=1)


def test_rows_train_as_their_file_does(settings, tmp_path):
    """The same run, to the bit, by rows and by a file with the same rows."""
    sums = []
    file = tmp_path / "train.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    for out, train in (("a", iter(ROWS)), ("b", file)):
        settings["out"] = tmp_path / out
        with Trainer(settings, tiny.engine, train=train) as trainer:
            assert trainer.plan.rows == 6
            trainer.run()
            sums.append((tmp_path / out / "model" / "model.safetensors").read_bytes())
    assert sums[0] == sums[1]
    assert not (tmp_path / "b" / "rows").exists()  # a file stays where it is


def test_a_run_keeps_its_rows(settings, tmp_path):
    with Trainer(settings, tiny.engine, train=ROWS, validation=ROWS[:2]) as trainer:
        trainer.run()
    with pytest.raises(ValueError, match="began with other rows for train"):
        Trainer.resume(tmp_path / "run", tiny.engine, train=OTHER, max_steps=3)
    moved = tmp_path / "moved"
    shutil.move(str(tmp_path / "run"), moved)
    for step, rows in ((3, None), (4, ROWS)):  # not given again, or the same ones
        with Trainer.resume(moved, tiny.engine, train=rows, max_steps=step) as trainer:
            assert (trainer.plan.rows, trainer.plan.validation_rows) == (6, 2)
            trainer.run()
            assert trainer.steps_done == step
    (kept,) = (moved / "rows").glob("*/train.jsonl")
    kept.write_text(kept.read_text().replace("tower 5", "tower 6"))
    with pytest.raises(errors.ConfigError, match="train_file"):
        Trainer.resume(moved, tiny.engine, max_steps=5)


def test_nothing_is_left_without_a_run(settings, tmp_path):
    with Trainer(settings, tiny.engine, train=ROWS) as trainer:
        trainer.train_step([Query("Where is it?", ["Paris"])])
        assert (tmp_path / "run" / "rows").exists()
    del trainer
    assert not (tmp_path / "run").exists()
    with pytest.raises(errors.Error):
        Trainer(settings, tiny.engine, train=[{"question": "no answer"}])
    with pytest.raises(ValueError, match="no rows"):
        Trainer(settings, tiny.engine, train=iter(()))
    assert not (tmp_path / "run").exists()


def test_a_trainer_is_made_again(settings, tmp_path):
    """As where a cell is run twice: the first one's end takes nothing from the second."""
    first = Trainer(settings, tiny.engine, train=ROWS)
    second = Trainer(settings, tiny.engine, train=ROWS)
    first.close()
    del first
    gc.collect()
    second.run()
    second.close()
    with Trainer.resume(tmp_path / "run", tiny.engine, max_steps=3) as trainer:
        assert trainer.plan.rows == 6
    settings["out"] = tmp_path / "lr=1,beta=0"
    with pytest.raises(ValueError, match="comma"):
        Trainer(settings, tiny.engine, train=ROWS)
    assert not (tmp_path / "lr=1,beta=0").exists()


def test_both_a_file_and_rows(settings, tmp_path):
    settings["train_file"] = tiny.questions(tmp_path / "t.jsonl")
    with pytest.raises(TypeError, match="names train_file"):
        Trainer(settings, tiny.engine, train=ROWS)


def test_datasets_of_a_program():
    class Scalar:
        def tolist(self):
            return 7

    rows = [{**ROWS[0], "level": Scalar(), "day": datetime.date(2026, 1, 2)}]
    data = Dataset.from_rows(rows, name="mine")
    assert len(data) == 1 and data[0].data_source == "mine"
    assert data[0].fields["level"] == 7 and data[0].fields["day"] == "2026-01-02"
    assert Dataset.from_rows(rows, answer_field="id")[0].answers == ("q0",)
    class NotATime:  # as NaT of pandas
        def __eq__(self, other):
            return False

        def isoformat(self):
            return "NaT"

    for bad, text in (
        ([3], "row 0 is no mapping"),
        ([{**ROWS[0], "day": NotATime()}], "row 0, column 'day': NaT is no date"),
        ([ROWS[0], {"question": b"x"}], "row 1, column 'question': bytes has no form in JSON"),
        (
            [{**ROWS[0], "golden_answers": ["x", {"y": -(2**63) - 1}]}],
            "row 0, column 'golden_answers': -9223372036854775809 is a whole number of "
            "more than 64 bits; give it as text",
        ),
        (5, "rows are wanted: .* not int"),
        ([{"question": "x", "a": [float("nan")]}], "row 0, column 'a': "),
        ({"train": ROWS, "test": ROWS}, "choose one split"),
    ):
        with pytest.raises((TypeError, ValueError), match=text):
            Dataset.from_rows(bad)


def test_rows_of_a_dataset(settings, tmp_path):
    """What its options and its form made of a row comes with it."""
    file = tmp_path / "q.csv"
    file.write_text("q,golden_answers,level\nWhere?,\"['Paris', 'here']\",3\nWho?,x,4\n")
    given = Dataset(file, question_field="q")
    again = Dataset.from_rows(given)
    for one, other in zip(given, again):
        assert (one.id, one.question, one.answers) == (other.id, other.question, other.answers)
        assert other.data_source == "q" and other.fields["level"] == one.fields["level"]
    assert again[0].answers == ("Paris", "here")
    with Trainer(settings, tiny.engine, train=given) as trainer:
        assert trainer.plan.rows == 2
    messages = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
    rows = [{**ROWS[0], "history": messages}]
    asked = Dataset.from_rows(Dataset.from_rows(rows))[0]
    assert list(asked.history) == messages and asked.id == "q0"


def test_rows_of_pandas_and_pyarrow():
    class Frame:  # what is used of a table of pandas
        class Line(dict):
            def notna(self):
                return [value == value for value in self.values()]

        def iterrows(self):
            return enumerate(self.Line(row, level=float("nan")) for row in ROWS)

    class Table:  # and of pyarrow
        class schema:
            names = list(ROWS[0])

        def to_batches(self):
            return [self]

        def to_pylist(self):
            return ROWS

    for table in (Frame(), Table()):
        assert [row.question for row in Dataset.from_rows(table)] == [
            row["question"] for row in ROWS
        ]


def test_gaps_of_pandas_are_null(tmp_path):
    pandas = pytest.importorskip("pandas")
    gaps = [{"level": None, "day": None}, {"level": 2, "day": datetime.datetime(2026, 1, 2)}]
    table = pandas.DataFrame([{**row, **gap} for row, gap in zip(ROWS, gaps)])
    table["count"] = pandas.array([None, 3], dtype="Int64")
    first, second = Dataset.from_rows(table)
    assert [first.fields[name] for name in ("level", "day", "count")] == [None] * 3
    assert (second.fields["level"], second.fields["count"]) == (2, 3)


def test_two_columns_of_one_name_of_pandas_are_refused(tmp_path):
    pandas = pytest.importorskip("pandas")
    pyarrow = pytest.importorskip("pyarrow")
    write_table = pytest.importorskip("pyarrow.parquet").write_table
    names = [*ROWS[0], "level", "level"]
    frame = pandas.DataFrame([[*row.values(), 1, 2] for row in ROWS], columns=names)
    columns = [list(column) for column in zip(*frame.values.tolist())]
    table = pyarrow.Table.from_arrays([pyarrow.array(column) for column in columns], names)
    write_table(table, tmp_path / "t.parquet")
    for rows in (frame, table, tmp_path / "t.parquet"):
        with pytest.raises(ValueError, match="two columns have the name 'level'"):
            Dataset.from_rows(rows)


def test_half_a_surrogate_pair_is_what_it_is_in_files(tmp_path):
    """A whole one that was read as two halves is its character."""
    row = {"question": "a\ud800b \ud83d\ude00?", "golden_answers": ["x"]}
    file = tmp_path / "escaped.jsonl"
    file.write_text(json.dumps(row) + "\n")
    assert Dataset.from_rows([row])[0].question == "a\ufffdb \U0001f600?"
    assert Dataset(file)[0].question == Dataset.from_rows([row])[0].question


def test_parquet_arrow_and_datasets(settings, tmp_path):
    datasets = pytest.importorskip("datasets")
    data = datasets.Dataset.from_list(ROWS)
    data.to_parquet(tmp_path / "a.parquet")
    data.save_to_disk(tmp_path / "saved")
    (arrow,) = (tmp_path / "saved").glob("*.arrow")
    for rows in (data, data.to_pandas(), tmp_path / "a.parquet", arrow, data.with_format("np")):
        assert [row.answers for row in Dataset.from_rows(rows)] == [("Paris",)] * 6
    with Trainer(settings, tiny.engine, train=data) as trainer:
        trainer.run()
    with Trainer.resume(tmp_path / "run", tiny.engine, train=data, max_steps=3) as trainer:
        trainer.run()


def test_an_evaluation_of_rows(rollout):
    assert rollout.evaluate(ROWS).total.rows == 6
    assert rollout.evaluate(Dataset.from_rows(ROWS), max_rows=2).total.rows == 2


class Counter:
    """An environment with a state for each trajectory."""

    def __init__(self):
        self.turns, self.seen = {}, []

    def begin(self, episode):
        self.turns[episode.number] = 0
        self.seen.append(episode.row["id"])

    def finish(self, number):
        del self.turns[number]

    def __call__(self, actions):
        return [Reply("In Paris.", reward=1.0, success=True) for action in actions]


def test_an_environment_of_ones_own(settings, tmp_path):
    counter = Counter()
    settings["rewards"] = ["environment", "answer"]
    with Trainer(settings, train=ROWS, env=counter) as trainer:
        trainer.run()
    assert set(counter.seen) <= {row["id"] for row in ROWS} and counter.turns == {}
    with pytest.raises(errors.ConfigError, match="environment"):
        Trainer.resume(tmp_path / "run", max_steps=3).run()
    with Trainer.resume(tmp_path / "run", env=counter, max_steps=3) as trainer:
        trainer.run()


def test_tools_of_ones_own(settings):
    def where(name: str) -> str:
        """Where a tower is."""
        return "Paris"

    with Trainer(settings, train=ROWS, tools=[where]) as trainer:
        assert trainer.config["protocol"] == "hermes"
        trainer.run()
    with pytest.raises(TypeError, match="exclude each other"):
        Trainer(settings, train=ROWS, tools=[where], env=Counter())
    settings["protocol"], settings["prompt_template"] = "search-r1", "none"
    with searchr1.Rollout(settings, tools=[where]) as rollout:
        (t,) = rollout.generate(["Where?"], greedy=True)
        assert "not valid JSON" in t.generated_text
