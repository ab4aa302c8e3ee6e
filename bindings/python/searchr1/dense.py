"""Exact search over vectors: build an index with an encoder, or from vectors you have."""

from __future__ import annotations

from ctypes import byref, c_void_p
from typing import Any, Callable, Dict, Optional

from . import _callbacks
from ._handle import make
from ._lib import lib
from ._structs import (
    DenseBuildOptions,
    DenseEstimate,
    DenseInfo,
    DenseOptions,
    DenseProgressFn,
)
from ._text import PathLike, optional, path_bytes, take
from .embed import Embedder
from .search import Search

# done and total bytes of the corpus, documents, and how many of these an earlier build did
Progress = Callable[[int, int, int, int], Any]


def _build_options(**given: Any) -> DenseBuildOptions:
    return DenseBuildOptions(
        **{name: optional(v) if isinstance(v, str) else v for name, v in given.items()}
    )


def _run(call: Callable[..., Any], progress: Optional[Progress]) -> None:
    """Call with a thunk for progress; what that raises comes out of here."""

    def tell(user: int, *figures: int) -> int:
        return _callbacks.run(progress, *figures)

    with _callbacks.call():
        call(DenseProgressFn(tell) if progress else DenseProgressFn())


def build_dense(
    corpus: PathLike,
    index: PathLike,
    embedder: Embedder,
    dtype: str = "fp32",
    text_format: str = "plain",
    zstd_level: int = 3,
    batch: int = 256,
    progress: Optional[Progress] = None,
    force: bool = False,
) -> None:
    """Embed a corpus of lines {"id", "contents"}, `batch` texts at a time. dtype: "fp32",
    "fp16" or "int8".

    Stopped at any moment, the same call goes on after the last whole batch; an old index
    stands as it was until the new one is done. A file at `index` that is no dense index is
    refused; force: replace it."""
    options = _build_options(
        dtype=dtype, text_format=text_format, zstd_level=zstd_level, batch=batch,
        force=force,
    )
    _run(
        lambda thunk: lib.sr1_dense_build(
            path_bytes(corpus), path_bytes(index), embedder, byref(options), thunk, None
        ),
        progress,
    )


def import_dense(
    corpus: PathLike,
    vectors: PathLike,
    dim: int,
    index: PathLike,
    dtype: str = "fp32",
    text_format: str = "plain",
    zstd_level: int = 3,
    embedder_name: str = "",
    progress: Optional[Progress] = None,
    force: bool = False,
) -> None:
    """An index from a file of raw fp32 rows of dim numbers, one a row of the corpus and in
    its order (Search-R1's emb_*.memmap; numpy's array.tofile). embedder_name: the folder
    of the encoder they are from, which sr1-search opens for queries. force: as
    build_dense."""
    options = _build_options(
        dtype=dtype,
        text_format=text_format,
        zstd_level=zstd_level,
        batch=1,
        embedder_name=embedder_name,
        force=force,
    )
    _run(
        lambda thunk: lib.sr1_dense_import(
            path_bytes(corpus),
            path_bytes(vectors),
            dim,
            path_bytes(index),
            byref(options),
            thunk,
            None,
        ),
        progress,
    )


def dense_estimate(
    corpus: PathLike,
    embedder: Optional[Embedder] = None,
    dim: int = 0,
    dtype: str = "fp32",
    batch: int = 256,
) -> Dict[str, Any]:
    """What build_dense will take: documents, index_bytes, search_bytes, build_bytes,
    embed_seconds. Without an embedder, dim says how long vectors are."""
    options = _build_options(dtype=dtype, zstd_level=3, batch=batch)
    estimate = DenseEstimate()
    with _callbacks.call():
        lib.sr1_dense_estimate_get(
            path_bytes(corpus), embedder, dim, byref(options), byref(estimate)
        )
    return estimate.as_dict()


def dense_info(path: PathLike) -> Dict[str, Any]:
    """documents, dim, dtype, sizes in bytes and the embedder's name, without loading the
    index; search_bytes is what every search goes through, device_bytes what a device
    needs for it at most."""
    info = DenseInfo()
    lib.sr1_dense_info_read(path_bytes(path), byref(info))
    name = c_void_p()
    lib.sr1_dense_embedder_name(path_bytes(path), byref(name))
    return {**info.as_dict(), "embedder": take(name)}


def verify_dense(path: PathLike) -> None:
    """Read a whole index and compare its checksums; raises when a byte has changed."""
    lib.sr1_dense_verify(path_bytes(path))


class Dense(Search):
    """A dense index, asked by embedding the queries: exact inner products with every
    vector. threads 0: one a processor. device: where vectors are searched, "cpu", "cuda",
    "cuda:1" or "auto"; results do not depend on it. other_weights: the embedder may be of
    other weights than the one that made the index, where the two were trained to go
    together."""

    def __init__(
        self,
        path: PathLike,
        embedder: Embedder,
        threads: int = 0,
        device: str = "cpu",
        other_weights: bool = False,
    ) -> None:
        options = DenseOptions(
            threads=threads, device=optional(device), other_weights=other_weights
        )
        super().__init__(
            make(lib.sr1_search_open_dense, path_bytes(path), embedder, byref(options)),
        )

    @property
    def info(self) -> Dict[str, Any]:
        """documents, dim, dtype, embedder, sizes in bytes; device, and how many queries
        were searched there and how many of them the CPU had to search again."""
        info = DenseInfo()
        lib.sr1_dense_info_get(self, byref(info))
        return info.as_dict()
