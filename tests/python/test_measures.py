"""Measures of search engines: judgements, rankings, whole sets of questions."""

import json
import math

import pytest

from searchr1 import Dataset, Hit, PythonSearch, Qrels, errors, measure_search


@pytest.fixture()
def qrels(tmp_path):
    path = tmp_path / "test.tsv"
    path.write_text("query-id\tcorpus-id\tscore\nq1\ta\t2\nq1\tb\t1\nq2\tc\t1\n")
    return Qrels(path)


@pytest.fixture()
def words():
    """Each word of a query is the id of a hit."""
    return PythonSearch(
        lambda queries, top_k: [
            [Hit(word, f"about {word}") for word in query.split()] for query in queries
        ]
    )


def questions(tmp_path, *rows):
    path = tmp_path / "questions.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return Dataset(path, answers_optional=True)


def test_judgements(qrels, tmp_path):
    assert len(qrels) == 3 and qrels.queries == 2
    assert qrels.grade("q1", "a") == 2 and qrels.grade("q1", "c") == 0
    (tmp_path / "wrong").write_text("q1 0 a -1\n")
    with pytest.raises(errors.ParseError, match="grades are from 0"):
        Qrels(tmp_path / "wrong")


def test_rankings_are_trec_evals(source, tmp_path):
    for line in (source / "tests/golden/rankings.jsonl").read_text().splitlines():
        row = json.loads(line)
        if not any(row["judged"].values()):
            continue  # such a file has nothing to compare with
        path = tmp_path / "qrels"
        path.write_text("".join(f"q 0 {d} {g}\n" for d, g in row["judged"].items()))
        m = Qrels(path).measure("q", row["ids"], row["k"])
        for name in ("recall", "success", "reciprocal_rank", "ndcg"):
            assert getattr(m, name) == pytest.approx(row[name], abs=1e-12)


def test_an_engine_is_measured(qrels, words, tmp_path):
    data = questions(
        tmp_path,
        {"_id": "q1", "text": "x a b"},
        {"_id": "q2", "text": "y"},
        {"_id": "q3", "text": "z"},
    )
    m = measure_search(words, data, qrels, top_k=2)
    assert (m.questions, m.judged, m.with_answers) == (2, 2, 0)
    assert m.recall == 0.25 and m.reciprocal_rank == 0.25 and math.isnan(m.hit_rate)
    assert m.ndcg == pytest.approx(2 / math.log2(3) / (2 + 1 / math.log2(3)) / 2)


def test_answers_and_gold_ids(words, tmp_path):
    data = questions(
        tmp_path,
        {"question": "x rome", "golden_answers": ["Rome!"], "docs": ["rome", "x", "y"]},
        {"question": "x", "golden_answers": ["Paris"]},
    )
    m = measure_search(words, data, gold_ids_field="docs")
    assert m.hit_rate == 0.5 and m.judged == 1
    assert m.recall == pytest.approx(2 / 3)


def test_failures(qrels, tmp_path):
    data = questions(tmp_path, {"question": "x", "golden_answers": ["y"]})
    with pytest.raises(errors.InvalidError, match="query 'q1' is none of the questions"):
        measure_search(PythonSearch(lambda q, k: [[]] * len(q)), data, qrels)

    def broken(queries, top_k):
        raise RuntimeError("no engine")

    with pytest.raises(RuntimeError, match="no engine"):
        measure_search(PythonSearch(broken), data)
    one = measure_search(PythonSearch(lambda q, k: [OSError("down")] * len(q)), data)
    assert one.failed == 1 and one.questions == 0
