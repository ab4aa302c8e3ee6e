"""FAISS indexes built here and read, against numpy; in one process with libtorch."""

import json

import pytest

from searchr1 import Faiss, PythonEmbedder, build_faiss, errors

numpy = pytest.importorskip("numpy")

ROWS, DIM = 60, 8


@pytest.fixture
def world(tmp_path):
    """(corpus, file of the vectors, vectors, an embedder that knows a query's vector)"""
    vectors = numpy.random.default_rng(5).standard_normal((ROWS, DIM)).astype("f4")
    vectors.tofile(tmp_path / "vectors.f32")
    corpus = tmp_path / "corpus.jsonl"
    corpus.write_text(
        "".join(json.dumps({"id": i, "contents": f"row {i}"}) + "\n" for i in range(ROWS))
    )
    embedder = PythonEmbedder(
        lambda texts, kind: [vectors[int(text)] for text in texts], DIM
    )
    return corpus, tmp_path / "vectors.f32", vectors, embedder


@pytest.mark.parametrize("factory", ["Flat", "IVF4,Flat", "HNSW16"])
def test_build_and_search(world, tmp_path, factory):
    corpus, file, vectors, embedder = world
    path = tmp_path / "i.faiss"
    seen = []
    try:
        build_faiss(file, path, factory, DIM, progress=lambda *f: seen.append(f))
    except errors.UnsupportedError as missing:
        assert "libfaiss-dev" in str(missing)
        pytest.skip("no bridge to FAISS")
    assert seen == [(0, ROWS), (ROWS, ROWS)]
    tuned = {"IVF4,Flat": {"nprobe": 4}, "HNSW16": {"ef_search": ROWS}}.get(factory, {})
    with Faiss(path, corpus, embedder, **tuned) as engine:
        for query in (0, 7, 59):
            scores = vectors @ vectors[query]
            order = numpy.argsort(-scores)[:5]
            hits = engine.search(str(query), 5)
            assert [int(hit.id) for hit in hits] == order.tolist()
            assert [hit.score for hit in hits] == pytest.approx(scores[order].tolist(), 1e-5)
            assert hits[0].row == {"id": int(order[0]), "contents": f"row {order[0]}"}
    with pytest.raises(errors.InvalidError, match="embedder"):
        Faiss(path, corpus, PythonEmbedder(lambda texts, kind: [], DIM + 1))


def test_what_progress_raises_comes_back(world, tmp_path):
    def stop(done, total):
        raise ValueError("enough")

    path = tmp_path / "i.faiss"
    try:
        with pytest.raises(ValueError, match="enough"):
            build_faiss(world[1], path, "Flat", DIM, progress=stop)
    except errors.UnsupportedError:
        pytest.skip("no bridge to FAISS")
    assert not path.exists()
