"""Texts as vectors, and the fit of a query and a text as a number."""

from __future__ import annotations

from ctypes import byref, c_double, c_float, memmove, sizeof
from typing import Any, Callable, List, Optional, Sequence

from . import _arrays, _callbacks
from ._handle import Handle, make
from ._lib import lib
from ._structs import (
    EmbedderOps,
    EmbedderOpsEmbed,
    EncoderOptions,
    RerankerOps,
    RerankerOpsScore,
)
from ._text import PathLike, decode, optional, path_bytes, strings, terminated

KINDS = ("query", "document")
_CONCURRENT = 1

# What a Python embedder and reranker are: texts and their kind to rows of dim numbers;
# a query and texts to one number a text.
EmbedFunction = Callable[[List[str], str], Any]
ScoreFunction = Callable[[str, List[str]], Sequence[float]]


def _options(**given: Any) -> EncoderOptions:
    """The library's defaults, and over them what is not None."""
    options = EncoderOptions()
    lib.sr1_encoder_options_init(byref(options))
    options.struct_size = sizeof(options)
    for name, value in given.items():
        if value is not None:
            setattr(options, name, terminated(value) if isinstance(value, str) else value)
    return options


class Embedder(Handle):
    """A text encoder from a Hugging Face folder: BERT (E5, BGE, MiniLM), DPR, T5."""

    _free = "sr1_embedder_free"

    def __init__(
        self,
        folder: PathLike,
        pooling: Optional[str] = None,
        query_prefix: Optional[str] = None,
        document_prefix: Optional[str] = None,
        normalize: Optional[bool] = None,
        query_tokens: Optional[int] = None,
        document_tokens: Optional[int] = None,
        document_folder: Optional[PathLike] = None,
        device: str = "auto",
        dtype: Optional[str] = None,
        threads: int = 0,
        batch_tokens: Optional[int] = None,
    ) -> None:
        """What is None is read from the folder. pooling: "mean", "cls", "decoder" (T5);
        document_folder: a second encoder for documents (DPR)."""
        options = _options(
            pooling=pooling,
            query_prefix=query_prefix,
            document_prefix=document_prefix,
            normalize=None if normalize is None else int(normalize),
            query_tokens=query_tokens,
            document_tokens=document_tokens,
            document_folder=document_folder and path_bytes(document_folder),
            device=optional(device),
            dtype=optional(dtype),
            threads=threads,
            batch_tokens=batch_tokens,
        )
        super().__init__(make(lib.sr1_embedder_open, path_bytes(folder), byref(options)))

    def embed(self, texts: Sequence[str], kind: str = "query") -> Any:
        """The vectors of texts as float32 rows [n, dim] (without numpy: end to end).
        kind: "query" or "document"."""
        data = strings(texts)
        out = _arrays.empty(c_float, len(data), self.dim)
        with _callbacks.call():
            lib.sr1_embedder_embed(
                self, data, len(data), KINDS.index(kind), _arrays.pointer(out, c_float)
            )
        return out

    def similarity(self, a: str, b: str) -> float:
        """Cosine of the angle between the vectors of two texts, both as queries."""
        cosine = c_double()
        with _callbacks.call():
            lib.sr1_embedder_similarity(
                self, terminated(a), terminated(b), byref(cosine)
            )
        return cosine.value

    @property
    def name(self) -> str:
        return decode(lib.sr1_embedder_name(self))

    @property
    def dim(self) -> int:
        """Numbers of a vector."""
        return int(lib.sr1_embedder_dim(self))


class Reranker(Handle):
    """A cross-encoder from a Hugging Face folder (BertForSequenceClassification with one
    label), which reads a query and a text together."""

    _free = "sr1_reranker_free"

    def __init__(
        self,
        folder: PathLike,
        max_tokens: Optional[int] = None,
        device: str = "auto",
        dtype: Optional[str] = None,
        threads: int = 0,
        batch_tokens: Optional[int] = None,
    ) -> None:
        """max_tokens: of both texts; None: what the model reads, at most 512."""
        options = _options(
            document_tokens=max_tokens,
            device=optional(device),
            dtype=optional(dtype),
            threads=threads,
            batch_tokens=batch_tokens,
        )
        super().__init__(make(lib.sr1_reranker_open, path_bytes(folder), byref(options)))

    def score(self, query: str, texts: Sequence[str]) -> List[float]:
        """How well each text fits the query: higher is better."""
        data = strings(texts)
        out = (c_double * len(data))()
        with _callbacks.call():
            lib.sr1_reranker_score(self, terminated(query), data, len(data), out)
        return list(out)

    @property
    def name(self) -> str:
        return decode(lib.sr1_reranker_name(self))


# ---- in Python ----


class PythonEmbedder(Embedder):
    """An embedder from a function, or from an object with a method `embed`:

        def embed(texts, kind):
            return model.encode(texts)          # [n, dim]

    The library makes one call at a time unless concurrent. What the function raises comes
    out of the call that embedded."""

    def __init__(
        self,
        embedder: Any,
        dim: int,
        name: str = "python",
        concurrent: bool = False,
    ) -> None:
        function = embedder if callable(embedder) else embedder.embed
        ops = EmbedderOps(
            name=terminated(name),
            embed=_embed,
            destroy=_callbacks.destroy,
            dim=dim,
            flags=_CONCURRENT if concurrent else 0,
        )
        key = _callbacks.own((function, dim))
        try:
            Handle.__init__(self, make(lib.sr1_embedder_new, byref(ops), key))
        except Exception:
            _callbacks.disown(key)
            raise


class PythonReranker(Reranker):
    """A reranker from a function (query, texts) -> scores, or from an object with a
    method `score`; as PythonEmbedder."""

    def __init__(
        self, reranker: Any, name: str = "python", concurrent: bool = False
    ) -> None:
        function = reranker if callable(reranker) else reranker.score
        ops = RerankerOps(
            name=terminated(name),
            score=_score,
            destroy=_callbacks.destroy,
            flags=_CONCURRENT if concurrent else 0,
        )
        key = _callbacks.own(function)
        try:
            Handle.__init__(self, make(lib.sr1_reranker_new, byref(ops), key))
        except Exception:
            _callbacks.disown(key)
            raise


def _called_embed(key: int, texts: Any, n: int, kind: int, out: Any) -> int:
    function, dim = _callbacks.owned(key)
    return int(_callbacks.run(_give_rows, function, texts[:n], KINDS[kind], dim, out))


def _called_score(key: int, query: bytes, texts: Any, n: int, out: Any) -> int:
    function = _callbacks.owned(key)
    return int(_callbacks.run(_give_scores, function, query, texts[:n], out))


_embed = EmbedderOpsEmbed(_called_embed)
_score = RerankerOpsScore(_called_score)


def _flat(rows: Any, kind: Any) -> Any:
    """Rows, of numpy or lists, as one array end to end."""
    if _arrays.numpy is not None:
        found = _arrays.numpy.asarray(rows)
        return _arrays.as_array(found.reshape(-1), kind)
    return _arrays.as_array([v for row in rows for v in row], kind)


def _give_rows(
    function: EmbedFunction, texts: List[bytes], kind: str, dim: int, out: Any
) -> None:
    rows = function([decode(text) for text in texts], kind)
    if len(rows) != len(texts):
        raise ValueError(f"{len(rows)} vectors were given for {len(texts)} texts")
    data = _flat(rows, c_float)
    if len(data) != len(texts) * dim:
        raise ValueError(f"vectors of {dim} numbers are needed, not {len(rows[0])}")
    memmove(out, _arrays.pointer(data, c_float), len(data) * sizeof(c_float))


def _give_scores(
    function: ScoreFunction, query: bytes, texts: List[bytes], out: Any
) -> None:
    scores = function(decode(query), [decode(text) for text in texts])
    if len(scores) != len(texts):
        raise ValueError(f"{len(scores)} scores were given for {len(texts)} texts")
    for i, score in enumerate(scores):
        out[i] = score
