"""Datasets: rows, splits, refusals."""

import json

import pytest

from searchr1 import Dataset, errors


@pytest.fixture()
def path(tmp_path):
    path = tmp_path / "rows.jsonl"
    rows = [
        {
            "id": i,
            "question": f"q{i} \u00e9",
            "golden_answers": [f"a{i}", "b"],
            "more": [i],
        }
        for i in range(50)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_rows(path):
    with Dataset(path) as data:
        assert len(data) == 50
        row = data[-1]
        assert (row.id, row.question, row.answers) == ("49", "q49 \u00e9", ("a49", "b"))
        assert row.data_source == "rows" and row.fields["more"] == [49]
        assert [row.id for row in data] == [str(i) for i in range(50)]
        with pytest.raises(IndexError):
            data[50]


def test_fields_and_several_files(tmp_path, path):
    other = tmp_path / "other.csv"
    other.write_text("question,golden_answers,kind\nwho?,me,x\n")
    data = Dataset(path, other)
    assert len(data) == 51 and data[50].answers == ("me",)
    assert Dataset(other, source_field="kind")[0].data_source == "x"


def test_split_covers_everything_once(path):
    data = Dataset(path)
    parts = [
        data.part(name, validation=0.3, test=0.2, seed=4)
        for name in ("train", "validation", "test")
    ]
    data.close()  # parts keep the files
    ids = [row.id for part in parts for row in part]
    assert sorted(ids, key=int) == [str(i) for i in range(50)]


def test_refused(tmp_path):
    bad = tmp_path / "bad.jsonl"
    bad.write_text('{"question": "a", "golden_answers": "b"}\n{"question": 3}\n')
    with pytest.raises(errors.Error, match=r"bad\.jsonl.*2"):
        Dataset(bad)
    with pytest.raises(errors.FileError):
        Dataset(tmp_path / "none.jsonl")
