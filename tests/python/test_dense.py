"""Dense indexes built with Python embedders and from files, against numpy."""

import json

import pytest

from searchr1 import (
    Bm25,
    Dense,
    Hybrid,
    PythonEmbedder,
    build_bm25,
    build_dense,
    dense_estimate,
    dense_info,
    errors,
    import_dense,
    open_search,
    verify_dense,
)

numpy = pytest.importorskip("numpy")

ROWS, DIM = 120, 33


@pytest.fixture
def world(tmp_path):
    """(corpus, vectors of its rows, an embedder that knows them and counts its texts)"""
    rng = numpy.random.default_rng(3)
    vectors = rng.standard_normal((ROWS, DIM)).astype("f4")
    corpus = tmp_path / "corpus.jsonl"
    corpus.write_text(
        "".join(
            json.dumps({"id": f"d{i}", "contents": f"title {i}\nrow {i}"}) + "\n"
            for i in range(ROWS)
        )
    )
    seen = []

    def embed(texts, kind):
        seen.extend(texts)
        if kind == "query":
            return [query_vector(text) for text in texts]
        return vectors[[int(text.split()[-1]) for text in texts]]

    return corpus, vectors, PythonEmbedder(embed, DIM, name="numpy"), seen


def query_vector(text):
    return numpy.random.default_rng(len(text)).standard_normal(DIM).astype("f4")


def expected(vectors, query, k):
    scores = vectors.astype("f8") @ query_vector(query).astype("f8")
    return [(f"d{i}", scores[i]) for i in numpy.argsort(-scores, kind="stable")[:k]]


@pytest.mark.parametrize("dtype, kept", [
    ("fp32", lambda v: v),
    ("fp16", lambda v: v.astype("f2").astype("f4")),
    ("int8", lambda v: numpy.rint(v / (abs(v).max(1, keepdims=True) / 127))
     * (abs(v).max(1, keepdims=True) / 127)),
])
def test_hits_are_numpys(world, tmp_path, dtype, kept):
    corpus, vectors, embedder, _ = world
    build_dense(corpus, tmp_path / "i", embedder, dtype=dtype, batch=50)
    verify_dense(tmp_path / "i")
    with Dense(tmp_path / "i", embedder) as engine:
        for result in engine.run(["who", "where is it", "a third query"], 7):
            want = expected(kept(vectors), result.query, 7)
            assert [hit.id for hit in result.hits] == [name for name, _ in want]
            for hit, (name, score) in zip(result.hits, want):
                assert hit.score == pytest.approx(score, abs=2e-3)
                assert hit.contents == f"title {name[1:]}\nrow {name[1:]}"
        assert engine.info["documents"] == ROWS and engine.info["dtype"] == dtype
        assert engine.info["device"] == "cpu" and engine.info["device_queries"] == 0
    info = dense_info(tmp_path / "i")
    assert info["device_bytes"] > info["search_bytes"]
    assert info["embedder"] == "numpy" and info["dim"] == DIM


def test_vectors_from_a_file(world, tmp_path):
    corpus, vectors, embedder, _ = world
    build_dense(corpus, tmp_path / "built", embedder)
    vectors.tofile(tmp_path / "emb.memmap")
    import_dense(corpus, tmp_path / "emb.memmap", DIM, tmp_path / "i",
                 embedder_name="numpy")
    assert (tmp_path / "i").read_bytes() == (tmp_path / "built").read_bytes()
    with pytest.raises(errors.Error, match="are not rows of 32"):
        import_dense(corpus, tmp_path / "emb.memmap", DIM - 1, tmp_path / "j")


def test_a_build_goes_on(world, tmp_path):
    corpus, _, embedder, seen = world
    calls = []

    def stop(done, total, documents, resumed):
        calls.append((done, total, documents, resumed))
        if documents == 80:
            raise KeyError("enough")

    with pytest.raises(KeyError, match="enough"):
        build_dense(corpus, tmp_path / "i", embedder, batch=40, progress=stop)
    assert len(seen) == 80 and not (tmp_path / "i").exists()
    calls.clear()
    build_dense(corpus, tmp_path / "i", embedder, batch=40,
                progress=lambda *figures: calls.append(figures))
    assert len(seen) == ROWS
    assert calls[-1] == (corpus.stat().st_size, corpus.stat().st_size, ROWS, 80)


def test_an_embedder_that_fails(world, tmp_path):
    corpus, _, embedder, _ = world

    def broken(texts, kind):
        raise OSError("no model")

    with pytest.raises(OSError, match="no model"):
        build_dense(corpus, tmp_path / "i", PythonEmbedder(broken, DIM))
    build_dense(corpus, tmp_path / "i", embedder)
    with Dense(tmp_path / "i", PythonEmbedder(broken, DIM)) as engine:
        with pytest.raises(OSError, match="no model"):
            engine.search("who")
    with pytest.raises(errors.Error, match="vectors of 33 numbers"):
        Dense(tmp_path / "i", PythonEmbedder(broken, DIM + 1))


def test_devices(world, tmp_path):
    """Without a GPU: refused with what is missing; "auto" is content with the CPU."""
    corpus, vectors, embedder, _ = world
    build_dense(corpus, tmp_path / "i", embedder)
    with Dense(tmp_path / "i", embedder, device="auto") as engine:
        on = engine.info["device"]
        want = [name for name, _ in expected(vectors, "who", 5)]
        assert [hit.id for hit in engine.search("who", 5)] == want
    if on == "cpu":
        with pytest.raises(errors.Error, match="device cuda"):
            Dense(tmp_path / "i", embedder, device="cuda")
    with pytest.raises(errors.Error, match="is not one of auto, cpu, cuda"):
        Dense(tmp_path / "i", embedder, device="tpu")


def test_estimate(world):
    corpus, _, embedder, _ = world
    estimate = dense_estimate(corpus, embedder, dtype="fp16")
    assert abs(estimate["documents"] - ROWS) <= 2
    assert estimate["embed_seconds"] > 0
    assert dense_estimate(corpus, dim=768)["search_bytes"] >= (ROWS - 2) * 768 * 4


def test_beside_bm25(world, tmp_path):
    corpus, _, embedder, _ = world
    build_dense(corpus, tmp_path / "d", embedder)
    build_bm25(corpus, tmp_path / "b")
    with Hybrid([Bm25(tmp_path / "b"), Dense(tmp_path / "d", embedder)]) as both:
        assert len(both.search("row 7", 5)) == 5


def test_by_configuration(source, world, tmp_path):
    corpus = world[0]
    golden = source / "tests" / "golden" / "encoder"
    from searchr1 import Embedder

    with Embedder(golden / "bert-gelu", device="cpu") as encoder:
        build_dense(corpus, tmp_path / "d", encoder)
        with Dense(tmp_path / "d", encoder) as engine:
            want = [hit.id for hit in engine.search("the river", 3)]
    build_bm25(corpus, tmp_path / "b")
    keys = {"search_dense_index": str(tmp_path / "d"), "search_index": str(tmp_path / "b")}
    with open_search({"search_engine": "dense", **keys}) as engine:
        assert [hit.id for hit in engine.search("the river", 3)] == want
    with open_search({"search_engine": "hybrid", **keys,
                      "search_reranker": str(golden / "cross-encoder")}) as engine:
        assert engine.name == "rerank" and len(engine.search("row 7", 3)) == 3
    hybrid = {"search_engine": "hybrid", **keys}
    with open_search({**hybrid, "search_hybrid_weights": "0.001,1"}) as engine:
        assert engine.search("the river", 1)[0].id == want[0]
        assert engine.search("the river", 1)[0].score == pytest.approx(1.001 / 61, rel=0.02)
    for wrong in ("1", "1,2,3", "1,x", "1,0"):
        with pytest.raises(errors.Error, match="weight"):
            open_search({**hybrid, "search_hybrid_weights": wrong})
    with open_search({"search_engine": "dense", "search_index_device": "auto", **keys}) as e:
        assert [hit.id for hit in e.search("the river", 3)] == want
    with pytest.raises(errors.Error, match="part of itself"):
        open_search({"search_engine": "hybrid", "search_hybrid": "bm25,hybrid", **keys})
