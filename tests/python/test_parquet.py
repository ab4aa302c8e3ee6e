"""Parquet to JSON lines and back; the round trip is skipped only without pyarrow."""

import errno
import json
import os
import subprocess
import sys

import pytest

from searchr1 import Dataset, parquet

RECORDS = [
    {
        "data_source": "nq",
        "prompt": [
            {
                "role": "user",
                "content": "Answer the given question. Question: who wrote é?\n",
            }
        ],
        "ability": "fact-reasoning",
        "reward_model": {"style": "rule", "ground_truth": {"target": ["Ann", "B"]}},
        "extra_info": {"split": "test", "index": i},
    }
    for i in range(3000)
]


def write(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def test_there_and_back(tmp_path):
    pytest.importorskip("pyarrow")
    source = write(tmp_path / "a.jsonl", RECORDS)
    table, back = str(tmp_path / "a.parquet"), str(tmp_path / "b.jsonl")
    assert parquet.main([source, table]) == 0
    assert parquet.main([table, back]) == 0
    with open(back, encoding="utf-8") as lines:
        assert [json.loads(line) for line in lines] == RECORDS
    row = next(iter(Dataset(back)))
    assert (row.question, row.answers, row.data_source) == (
        "who wrote é?",
        ("Ann", "B"),
        "nq",
    )


def test_what_json_has_no_form_for(tmp_path):
    """As in train= of the same file."""
    pyarrow = pytest.importorskip("pyarrow")
    import datetime

    table, out = tmp_path / "d.parquet", tmp_path / "d.jsonl"
    rows = [{"question": "when?", "golden_answers": ["a"], "day": datetime.date(2024, 2, 29)}]
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), table)
    assert parquet.main([str(table), str(out)]) == 0
    with Dataset.from_rows(str(table)) as same:
        assert json.loads(out.read_text()) == {**rows[0], "day": "2024-02-29"}
        assert same[0].question == "when?"


def test_a_column_without_a_form_is_named(tmp_path, capsys):
    """In the words of train= of the same file."""
    pyarrow = pytest.importorskip("pyarrow")
    write_table = pytest.importorskip("pyarrow.parquet").write_table
    import decimal

    out = tmp_path / "d.jsonl"
    for value, text in (
        (decimal.Decimal("1.5"), "Decimal has no form"),
        (b"x", "bytes has no form"),
        (float("nan"), "not JSON compliant"),
    ):
        table = tmp_path / "d.parquet"
        rows = [{"question": "who?", "golden_answers": ["a"], "worth": value}]
        write_table(pyarrow.Table.from_pylist(rows), table)
        assert parquet.main([str(table), str(out)]) == 1
        told = capsys.readouterr().err
        assert "row 0, column 'worth': " in told and text in told
        with pytest.raises((TypeError, ValueError), match=f"row 0, column 'worth': .*{text}"):
            Dataset.from_rows(str(table))
    assert not out.exists()


def test_a_file_of_the_same_name_and_part_is_not_touched(tmp_path):
    pytest.importorskip("pyarrow")
    source = write(tmp_path / "a.jsonl", RECORDS[:2])
    mine = tmp_path / "out.parquet.part"
    mine.write_text("mine")
    assert parquet.main([source, str(tmp_path / "out.parquet")]) == 0
    assert parquet.main([write(tmp_path / "b.jsonl", [3]), str(tmp_path / "b.parquet")]) == 1
    assert mine.read_text() == "mine"
    assert sorted(os.listdir(tmp_path)) == ["a.jsonl", "b.jsonl", "out.parquet", mine.name]


def test_errors_are_told(tmp_path, capsys):
    pytest.importorskip("pyarrow")
    bad = tmp_path / "bad.parquet"
    bad.write_bytes(b"no parquet")
    out = tmp_path / "out.jsonl"
    out.write_text("old")
    assert parquet.main([str(bad), str(out), "--force"]) == 1
    assert "bad.parquet" in capsys.readouterr().err
    assert out.read_text() == "old" and not (tmp_path / "out.jsonl.part").exists()
    ragged = write(tmp_path / "r.jsonl", [{"a": 1}, {"a": 1, "b": 2}])
    assert parquet.main([ragged, str(tmp_path / "r.parquet")]) == 1
    assert "lacks b" in capsys.readouterr().err
    nowhere = tmp_path / "nowhere"
    assert parquet.main([ragged, str(nowhere / "r.parquet")]) == 1
    assert capsys.readouterr().err.endswith(f"No such file or directory: '{nowhere}'\n")


def test_what_is_there_is_kept_without_force(tmp_path, capsys):
    pytest.importorskip("pyarrow")
    source = write(tmp_path / "a.jsonl", RECORDS[:2])
    out = tmp_path / "out.parquet"
    out.write_text("old")
    assert parquet.main([source, str(out)]) == 1
    assert "--force" in capsys.readouterr().err and out.read_text() == "old"
    assert parquet.main(["--force", source, str(out)]) == 0
    assert len(list(Dataset.from_rows(out))) == 2


def test_the_command_warns_of_nothing():
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-m", "searchr1.parquet"],
        capture_output=True,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        text=True,
    )
    assert ran.returncode == 2 and ran.stderr.startswith("usage: "), ran.stderr


def test_names_and_usage(capsys):
    assert parquet.main(["one"]) == 2
    assert parquet.main(["a.txt", "b.jsonl"]) == 1
    assert ".parquet" in capsys.readouterr().err


def test_without_pyarrow(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert parquet.main(["a.parquet", "b.jsonl"]) == 1
    assert "pyarrow is needed" in capsys.readouterr().err


def test_records(tmp_path):
    rows = [{"question": "who", "golden_answers": ["x"]}]
    source = write(tmp_path / "q.jsonl", rows)
    out = tmp_path / "records.jsonl"
    Dataset(source).write_records(out, data_source="nq", split="test")
    record = json.loads(out.read_text())
    assert record["data_source"] == "nq"
    assert record["prompt"][0]["content"].endswith("Question: who?\n")
    assert record["extra_info"] == {"split": "test", "index": 0}
    assert next(iter(Dataset(out))).answers == ("x",)


def test_a_write_that_fails_names_its_file(tmp_path, monkeypatch):
    class Arrow:
        ArrowException = RuntimeError

    def fill(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(parquet, "import_pyarrow", lambda: Arrow)
    monkeypatch.setattr(parquet, "_write_lines", fill)
    with pytest.raises(parquet.ParquetError, match="a.parquet to .*b.jsonl: .*No space left"):
        parquet.convert("a.parquet", str(tmp_path / "b.jsonl"))
