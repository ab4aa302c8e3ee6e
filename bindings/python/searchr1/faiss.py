"""FAISS indexes: those of the faiss package are opened, others built."""

from __future__ import annotations

from ctypes import byref
from typing import Any, Callable, Optional

from . import _callbacks
from ._handle import make
from ._lib import lib
from ._structs import FaissBuildOptions, FaissOptions, FaissProgressFn
from ._text import PathLike, optional, path_bytes, terminated
from .embed import Embedder
from .search import Search


class Faiss(Search):
    """An index written by faiss.write_index, asked by embedding the queries.

    documents: the corpus that was embedded, or a BM25 or dense index of it. nprobe (IVF)
    and ef_search (HNSW) 0: as the file says. errors.UnsupportedError where FAISS's bridge
    is not there says what to install."""

    def __init__(
        self,
        path: PathLike,
        documents: PathLike,
        embedder: Embedder,
        nprobe: int = 0,
        ef_search: int = 0,
    ) -> None:
        options = FaissOptions(nprobe=nprobe, ef_search=ef_search)
        super().__init__(
            make(
                lib.sr1_search_open_faiss,
                path_bytes(path),
                path_bytes(documents),
                embedder,
                byref(options),
            ),
        )


def build_faiss(
    vectors: PathLike,
    index: PathLike,
    factory: str,
    dim: int = 0,
    metric: str = "inner_product",
    threads: int = 0,
    train_sample: int = 1 << 18,
    progress: Optional[Callable[[int, int], Any]] = None,
    force: bool = False,
) -> None:
    """Build an index by FAISS's description ("IVF256,Flat", "HNSW32", "PQ16", ...).

    vectors: a dense index, or a file of raw float32 rows of dim numbers. metric:
    "inner_product" or "l2". progress(done, total): vectors added, of all; if it raises,
    the build stops and an old index stands as it was. A file at `index` that is no FAISS
    index is refused; force: replace it."""

    def tell(user: int, *figures: int) -> int:
        return _callbacks.run(progress, *figures)

    options = FaissBuildOptions(
        dim=dim, threads=threads, metric=optional(metric), train_sample=train_sample,
        force=force,
    )
    thunk = FaissProgressFn(tell) if progress else FaissProgressFn()
    with _callbacks.call():
        lib.sr1_faiss_build(
            path_bytes(vectors), path_bytes(index), terminated(factory), byref(options),
            thunk, None,
        )
