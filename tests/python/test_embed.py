"""Embedders and rerankers: from folders, against the golden vectors; from Python."""

import json
import math
import struct

import pytest

from searchr1 import Embedder, PythonEmbedder, PythonReranker, Reranker, errors

numpy = pytest.importorskip("numpy")


@pytest.fixture(scope="module")
def golden(source):
    return source / "tests" / "golden" / "encoder"


def tensor(folder, name):
    """One float32 tensor of expected.safetensors."""
    data = (folder / "expected.safetensors").read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    entry = json.loads(data[8 : 8 + size])[name]
    begin, end = entry["data_offsets"]
    return numpy.frombuffer(data[8 + size + begin : 8 + size + end], "f4").reshape(
        entry["shape"]
    )


def facts(folder):
    return json.loads((folder / "expected.json").read_text())


def test_vectors_equal_transformers(golden):
    folder = golden / "bert-gelu"
    want = tensor(folder, "mean")
    with Embedder(folder, device="cpu") as e:
        got = e.embed(facts(folder)["texts"])
        assert got.dtype == numpy.float32 and got.shape == (7, e.dim)
        length = numpy.linalg.norm(want, axis=1, keepdims=True)
        assert numpy.abs(got - want / length).max() < 1e-5
        assert e.name == str(folder) and e.embed([]).shape == (0, e.dim)
    with Embedder(folder, device="cpu", pooling="cls", normalize=False) as e:
        got = e.embed(facts(folder)["texts"])
        assert numpy.abs(got - tensor(folder, "cls")).max() < 1e-5


def test_options(golden):
    folder = golden / "bert-gelu"
    with Embedder(folder, device="cpu") as plain, Embedder(
        folder, device="cpu", query_prefix="who ", document_tokens=4, batch_tokens=16
    ) as e:
        equal = plain.embed(["who built it", "the river"])
        assert numpy.allclose(e.embed(["built it"]), equal[0], atol=1e-5)
        cut = e.embed(["the river stands"], kind="document")
        assert numpy.allclose(cut, equal[1], atol=1e-5)
        cosine = float(e.embed(["rome"]) @ e.embed(["paris"]).T)
        assert e.similarity("rome", "paris") == pytest.approx(cosine, abs=1e-5)
        with pytest.raises(ValueError):
            e.embed(["rome"], kind="other")
    with Embedder(folder, device="cpu", document_folder=golden / "bert-prefix") as e:
        rome = ["rome"]
        assert not numpy.allclose(e.embed(rome), e.embed(rome, "document"), atol=1e-2)


def test_refusals(golden, tmp_path):
    with pytest.raises(errors.NotFoundError, match="check the path"):
        Embedder(tmp_path / "none")
    with pytest.raises(errors.UnsupportedError, match="architectures"):
        Reranker(golden / "bert-gelu", device="cpu")
    with pytest.raises(errors.InvalidError, match="pooling"):
        Embedder(golden / "bert-gelu", device="cpu", pooling="max")


def test_reranker(golden):
    folder = golden / "cross-encoder"
    with Reranker(folder, device="cpu") as r:
        scores = r.score(facts(folder)["query"], facts(folder)["texts"])
        assert numpy.abs(numpy.array(scores) - tensor(folder, "score")).max() < 1e-5
        assert r.score("who", []) == [] and r.name == str(folder)


def test_python_embedder():
    seen = []

    def embed(texts, kind):
        seen.append(kind)
        return [[len(text), text.count("a")] for text in texts]

    with PythonEmbedder(embed, dim=2, name="letters") as e:
        assert e.embed(["aa", "\u00e9b"]).tolist() == [[2, 2], [2, 0]]
        assert e.embed(["a"], kind="document").tolist() == [[1, 1]]
        assert seen == ["query", "document"] and e.name == "letters" and e.dim == 2
        assert e.similarity("a", "b") == pytest.approx(math.sqrt(0.5))

    class Encoder:
        def embed(self, texts, kind):
            return numpy.ones((len(texts), 3))

    assert PythonEmbedder(Encoder(), dim=3).embed(["x"]).tolist() == [[1, 1, 1]]


def test_python_embedder_fails():
    def one(texts, kind):
        return [[1.0, 2.0]]

    def broken(texts, kind):
        raise KeyError("no model")

    with pytest.raises(ValueError, match="1 vectors were given for 2 texts"):
        PythonEmbedder(one, dim=2).embed(["a", "b"])
    with pytest.raises(ValueError, match="3 numbers"):
        PythonEmbedder(one, dim=3).embed(["a"])
    with pytest.raises(KeyError, match="no model"):
        PythonEmbedder(broken, dim=3).embed(["a"])
    with pytest.raises(errors.InvalidError, match="dim"):
        PythonEmbedder(one, dim=0)
    with pytest.raises(errors.NumericError, match="not finite"):
        PythonEmbedder(lambda texts, kind: [[math.nan]], dim=1).embed(["a"])


def test_python_reranker():
    def score(query, texts):
        return [text.count(query) for text in texts]

    with PythonReranker(score) as r:
        assert r.score("a", ["banana", "b"]) == [3.0, 0.0]
    with pytest.raises(ValueError, match="0 scores"):
        PythonReranker(lambda query, texts: []).score("a", ["b"])
