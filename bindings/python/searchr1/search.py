"""Search engines: ask a batch of queries, read the hits."""

from __future__ import annotations

import json
import os
from ctypes import (
    byref,
    c_char_p,
    c_double,
    c_int32,
    c_size_t,
    c_uint32,
    c_void_p,
    sizeof,
    string_at,
)
from functools import cached_property, partial
from itertools import repeat
from operator import itemgetter
from typing import (
    Any,
    Callable,
    Dict,
    Iterable,
    Iterator,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Sequence,
    Union,
)

from . import _callbacks
from ._arrays import listed
from ._handle import Handle, make
from ._identity import identity_of
from ._lib import lib
from ._structs import (
    Bm25BuildOptions,
    Bm25Info,
    Bm25Options,
    Bm25ProgressFn,
    DiskCacheOptions,
    ExternalOptions,
    HybridOptions,
    RerankOptions,
    SearchCounters,
    SearchHttpOptions,
    SearchOps,
    SearchOpsSearch,
    SearchTable,
)
from ._text import PathLike, decode, encode, optional, path_bytes, strings, terminated
from .config import Config, as_config
from .embed import Embedder

STATUSES = ("ok", "empty", "timeout", "error")
_CONCURRENT, _THREADS, _WAITS = 1, 2, 4


class _HitFields(NamedTuple):
    id: str
    contents: str  # a Search-R1 corpus has "Title", newline, text
    score: float = 1.0
    row: Any = None


class Hit(_HitFields):
    """A document that was found. id: "" where it has none; score: higher is better, within
    one engine only. Hits of one call that are of the same document share its row."""

    __slots__ = ()

    @property
    def row(self) -> Optional[Dict[str, Any]]:  # type: ignore[override]
        """The document's JSON object, where there is one; parsed when it is read."""
        row = self[3]
        return row.parsed() if isinstance(row, _Row) else row

    def __iter__(self) -> Iterator[Any]:
        return iter((self[0], self[1], self[2], self.row))


class _Found(Handle):
    """The results of one call, in the library."""

    _free = "sr1_search_results_free"


class _Row:
    """A document's JSON object, copied out of the library and parsed when it is read."""

    __slots__ = ("found", "address", "value")
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, found: _Found, address: int) -> None:
        self.found: Optional[_Found] = found
        self.address = address
        self.value: Any = None

    def parsed(self) -> Any:
        found = self.found  # another thread may parse it too
        if found is not None:
            self.value = json.loads(decode(string_at(self.address)))
            self.found = None
        return self.value

    def __eq__(self, other: object) -> bool:
        return bool(
            self.parsed() == (other.parsed() if isinstance(other, _Row) else other)
        )

    def __repr__(self) -> str:
        return repr(self.parsed())


class _Columns:
    """The hits of one call, all queries', field by field. A field is copied out of the
    library when it is read, each document's once."""

    def __init__(self, found: _Found, table: SearchTable) -> None:
        self._found, self._table = found, table  # the table's arrays are the results'

    @cached_property
    def ids(self) -> Sequence[str]:
        return self._of_hits(map(bytes.decode, self._of_documents(self._table.ids)))

    @cached_property
    def contents(self) -> Sequence[str]:
        return self._of_hits(map(bytes.decode, self._of_documents(self._table.contents)))

    @cached_property
    def rows(self) -> Sequence[Optional[_Row]]:
        rows = listed(self._table.rows, c_void_p, self._table.documents)
        return self._of_hits(row and _Row(self._found, row) for row in rows)

    @cached_property
    def scores(self) -> List[float]:
        return listed(self._table.scores, c_double, self._table.hits)

    @cached_property
    def documents(self) -> List[int]:
        return listed(self._table.hit_documents, c_uint32, self._table.hits)

    def _of_documents(self, address: Optional[int]) -> List[bytes]:
        return listed(address, c_char_p, self._table.documents)

    def _of_hits(self, values: Iterable[Any]) -> Sequence[Any]:
        """A value of each document as one of each hit."""
        of_documents = list(values)
        if self._table.hits < 2:  # itemgetter makes no tuple of one
            return [of_documents[d] for d in self.documents]
        return itemgetter(*self.documents)(of_documents)  # type: ignore[no-any-return]


class Hits(Sequence[Hit]):
    """The hits of one query, best first. A Hit is made when it is read."""

    __slots__ = ("_columns", "_here")
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, columns: _Columns, begin: int, end: int) -> None:
        self._columns, self._here = columns, slice(begin, end)

    @property
    def ids(self) -> List[str]:
        """The id of each hit."""
        return list(self._columns.ids[self._here])

    @property
    def contents(self) -> List[str]:
        """The text of each hit, in less time than a Hit for each takes."""
        return list(self._columns.contents[self._here])

    @property
    def scores(self) -> List[float]:
        """The score of each hit."""
        return self._columns.scores[self._here]

    def __len__(self) -> int:
        return self._here.stop - self._here.start  # type: ignore[no-any-return]

    def __iter__(self) -> Iterator[Hit]:
        c, here = self._columns, self._here
        return map(
            _new_hit, zip(c.ids[here], c.contents[here], c.scores[here], c.rows[here])
        )

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return list(self)[index]
        c, k = self._columns, range(self._here.start, self._here.stop)[index]
        return _new_hit((c.ids[k], c.contents[k], c.scores[k], c.rows[k]))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, (Hits, list, tuple)) and list(self) == list(other)

    def __repr__(self) -> str:
        return repr(list(self))

    def __reduce__(self) -> Any:
        return list, (list(self),)


class Result(NamedTuple):
    """How one query ended. message: why there are no hits."""

    query: str
    hits: Hits
    status: str  # one of STATUSES
    message: str


_new_hit = partial(tuple.__new__, Hit)
_new_result = partial(tuple.__new__, Result)

# What a Python engine answers to one query: hits, best first, each a Hit, a mapping with
# its fields, or the contents alone (then it has no id); an exception object for a query that failed alone.
Answer = Union[str, Exception, Sequence[Union[Hit, Mapping[str, Any], str]], None]
SearchFunction = Callable[[List[str], int], Sequence[Answer]]


class Search(Handle):
    """An engine. Searching may run in several threads at a time."""

    _free = "sr1_search_free"

    def run(self, queries: Sequence[str], top_k: int = 3) -> List[Result]:
        """The results of each query, at most top_k hits (1 to 10000) for one."""
        data, out = strings(queries), c_void_p()
        try:
            with _callbacks.call():
                lib.sr1_search_run(self, data, len(data), top_k, byref(out))
        except BaseException:  # a callback's, after the call
            lib.sr1_search_results_free(out)
            raise
        assert out.value is not None
        return _read_results(_Found(out.value), queries)

    def search(self, query: str, top_k: int = 3) -> List[Hit]:
        """The hits of one query."""
        return list(self.run([query], top_k)[0].hits)

    def set_cache(self, max_bytes: int) -> None:
        """Keep answers in so much memory; 0, as at the start: none."""
        lib.sr1_search_set_cache(self, max_bytes)

    def set_threads(self, threads: int) -> None:
        """Spread a batch over threads, where the engine allows it (0: one a core)."""
        lib.sr1_search_set_threads(self, threads)

    @property
    def name(self) -> str:
        return decode(lib.sr1_search_name(self))

    @property
    def counters(self) -> Dict[str, int]:
        """Counts since it was opened: queries (of them blank, duplicates, cache_hits,
        sent), failed, calls (of the engine); of engines behind HTTP requests, retries, rate_waits, refused; of
        disk caches disk_hits, disk_stale; of chains and hybrids fallbacks."""
        counters = SearchCounters()
        lib.sr1_search_counters_get(self, byref(counters))
        return counters.as_dict()


def _read_results(results: _Found, queries: Sequence[str]) -> List[Result]:
    """All of them in one call."""
    table = SearchTable()
    lib.sr1_search_results_table(results, byref(table))
    columns = _Columns(results, table)
    ends = listed(table.ends, c_size_t, table.queries)
    hits = map(Hits, repeat(columns), [0, *ends], ends)
    statuses = listed(table.status, c_int32, table.queries)
    names = map(STATUSES.__getitem__, statuses)
    messages: Iterable[str] = repeat("")
    if any(statuses):
        messages = [
            decode(lib.sr1_search_results_message(results, i)) if status else ""
            for i, status in enumerate(statuses)
        ]
    return list(map(_new_result, zip(queries, hits, names, messages)))


# ---- built-in engines ----


class Mock(Search):
    """The information of the first keyword that occurs in the query, case ignored."""

    def __init__(self, knowledge: Union[Mapping[str, str], PathLike]) -> None:
        """knowledge: keyword to information, or a JSON file of it."""
        if isinstance(knowledge, Mapping):
            keys, values = strings(knowledge.keys()), strings(knowledge.values())
            super().__init__(make(lib.sr1_search_open_mock, keys, values, len(keys)))
        else:
            super().__init__(make(lib.sr1_search_open_mock_file, path_bytes(knowledge)))


class Bm25(Search):
    """An index that build_bm25 wrote; the file is mapped and shared."""

    def __init__(self, path: PathLike, k1: float = 0.9, b: float = 0.4) -> None:
        options = Bm25Options(k1=k1, b=b)
        super().__init__(make(lib.sr1_search_open_bm25, path_bytes(path), byref(options)))

    @property
    def info(self) -> Dict[str, Any]:
        """documents, terms, total_terms, postings, sizes in bytes, analyzer, k1, b."""
        info = Bm25Info()
        lib.sr1_bm25_info_get(self, byref(info))
        return info.as_dict()


def _http_options(**given: Any) -> SearchHttpOptions:
    """The library's defaults, and over them what is not None."""
    options = SearchHttpOptions()
    lib.sr1_search_http_options_init(byref(options))
    options.struct_size = sizeof(options)
    for name, value in given.items():
        if name not in _HTTP_OPTIONS:
            raise TypeError(f"'{name}' is no option; there are {', '.join(_HTTP_OPTIONS)}")
        if value is not None:
            setattr(options, name, terminated(value) if isinstance(value, str) else value)
    return options


_HTTP_OPTIONS = [name for name, _ in SearchHttpOptions._fields_]


class Remote(Search):
    """A server of Search-R1's POST /retrieve; a batch is one request.

    options: timeout_s, connect_timeout_s, retries, retry_first_s, retry_max_s,
    retry_after_max_s, concurrency, rate_limit, breaker_failures, breaker_rest_s,
    max_body_bytes, key_env, ca_file, seed, probe (see sr1_search_http_options). A query
    whose request fails in the end has the status "timeout" or "error"."""

    def __init__(self, url: str, **options: Any) -> None:
        super().__init__(
            make(
                lib.sr1_search_open_remote,
                terminated(url),
                byref(_http_options(**options)),
            )
        )


class OpenSearch(Search):
    """An index of OpenSearch or Elasticsearch ("http://127.0.0.1:9200/INDEX"); a batch is
    one request.

    options: those of Remote, and fields (with commas between; default "contents"): they
    are searched and make the contents of a hit. key_env names a variable with an API key,
    or with user:password."""

    def __init__(self, url: str, **options: Any) -> None:
        super().__init__(
            make(
                lib.sr1_search_open_opensearch,
                terminated(url),
                byref(_http_options(**options)),
            )
        )


class Qdrant(Search):
    """A collection of Qdrant ("http://127.0.0.1:6333/collections/NAME"), asked by
    embedding the queries; a batch is one request.

    options: those of Remote, and fields (of the payload, as of OpenSearch), vector (its
    name), id_field (of the payload)."""

    def __init__(self, url: str, embedder: Embedder, **options: Any) -> None:
        super().__init__(
            make(
                lib.sr1_search_open_qdrant,
                terminated(url),
                embedder,
                byref(_http_options(**options)),
            ),
        )


class Web(Search):
    """A web search service: one of web_providers(). The key is read from the environment
    variable key_env, by default the provider's own (SERPER_API_KEY, ...).

    options: those of Remote, and url (in place of the provider's own; needed for
    searxng), engine_id (Google's cx)."""

    def __init__(self, provider: str, **options: Any) -> None:
        super().__init__(
            make(
                lib.sr1_search_open_web,
                terminated(provider),
                byref(_http_options(**options)),
            )
        )


def web_providers() -> List[str]:
    """The names that Web knows."""
    names: List[str] = []
    while True:
        name = lib.sr1_search_web_provider(len(names))
        if name is None:
            return names
        names.append(decode(name))


class Program(Search):
    """A program of yours, in any language, that answers queries by lines of JSON
    (docs/formats.md). timeout: seconds of one request."""

    def __init__(self, path: PathLike, timeout: float = 600.0) -> None:
        options = ExternalOptions(timeout_s=timeout)
        super().__init__(
            make(lib.sr1_search_open_external, terminated(os.fspath(path)), byref(options))
        )


class Chain(Search):
    """Engines in order: what ends "timeout" or "error" at one is asked of the next."""

    def __init__(self, engines: Sequence[Union[Search, SearchFunction, Any]]) -> None:
        opened = [_search_of(engine) for engine in engines]
        pointers = (c_void_p * len(opened))(*[e._as_parameter_.value for e in opened])
        super().__init__(
            make(lib.sr1_search_open_chain, pointers, len(opened)),
        )


class Hybrid(Search):
    """Several engines as one, by reciprocal-rank fusion: a document scores the sum over
    the engines that found it of weight / (rrf_k + rank). Documents are the same when
    their ids are, or, where one has none, their contents. depth: hits taken of each
    engine."""

    def __init__(
        self,
        engines: Sequence[Union[Search, SearchFunction, Any]],
        weights: Optional[Sequence[float]] = None,
        rrf_k: float = 60.0,
        depth: int = 100,
    ) -> None:
        opened = [_search_of(engine) for engine in engines]
        if weights is not None and len(weights) != len(opened):
            raise ValueError(f"{len(weights)} weights for {len(opened)} engines")
        pointers = (c_void_p * len(opened))(*[e._as_parameter_.value for e in opened])
        numbers = None if weights is None else (c_double * len(opened))(*weights)
        options = HybridOptions(rrf_k=rrf_k, depth=depth)
        super().__init__(
            make(
                lib.sr1_search_open_hybrid, pointers, numbers, len(opened), byref(options)
            ),
        )


class Rerank(Search):
    """The best `depth` hits of an engine in the order of a reranker, with its scores."""

    def __init__(
        self,
        engine: Union[Search, SearchFunction, Any],
        reranker: Handle,
        depth: int = 50,
    ) -> None:
        inner = _search_of(engine)
        options = RerankOptions(depth=depth)
        super().__init__(
            make(lib.sr1_search_open_rerank, inner, reranker, byref(options)),
        )


class DiskCache(Search):
    """Keeps an engine's answers, never its failures, in a folder that processes may share.

    Answers younger than ttl_s seconds are given without asking; older ones, unless
    use_stale is false, when the engine fails. scope: engines of equal name and scope
    share answers; without one, engines of equal index, address or identity
    (PythonSearch). An engine that has none of them needs a scope."""

    def __init__(
        self,
        engine: Union[Search, SearchFunction, Any],
        folder: PathLike,
        ttl_s: float = 86400.0,
        max_bytes: int = 1 << 30,
        scope: str = "",
        use_stale: bool = True,
    ) -> None:
        options = DiskCacheOptions(
            ttl_s=ttl_s, max_bytes=max_bytes, scope=terminated(scope), use_stale=use_stale
        )
        inner = _search_of(engine)
        super().__init__(
            make(
                lib.sr1_search_open_disk_cache, inner, path_bytes(folder), byref(options)
            ),
        )


def build_bm25(
    corpus: PathLike,
    index: PathLike,
    analyzer: str = "english",
    zstd_level: int = 3,
    progress: Optional[Callable[[int, int, int], Any]] = None,
    memory_bytes: int = 0,
    threads: int = 0,
    text_format: str = "plain",
    force: bool = False,
) -> None:
    """Index a corpus of lines {"id", "contents"}. analyzer: "english", "plain" or "cjk";
    text_format: "plain", "html", "markdown" or "auto".

    Postings gather in memory_bytes (0: 512 MiB), then wait in temporary files beside the
    index. threads 0: one a processor. A file at `index` that is no BM25 index is refused;
    force: replace it.

    progress(done, total, documents): bytes of the corpus read, of all, documents so far.
    If it raises, the build stops and an old index stands as it was."""

    def tell(user: int, *figures: int) -> int:
        return _callbacks.run(progress, *figures)

    options = Bm25BuildOptions(
        analyzer=optional(analyzer), zstd_level=zstd_level, memory_bytes=memory_bytes,
        text_format=optional(text_format), threads=threads, force=force
    )
    thunk = Bm25ProgressFn(tell) if progress else Bm25ProgressFn()
    with _callbacks.call():
        lib.sr1_bm25_build(
            path_bytes(corpus), path_bytes(index), byref(options), thunk, None
        )


def verify_bm25(path: PathLike) -> None:
    """Read a whole index and compare its checksums; raises when a byte has changed."""
    lib.sr1_bm25_verify(path_bytes(path))


def open_search(config: Union[Config, PathLike, Mapping[str, Any]]) -> Search:
    """The engine that a configuration names."""
    return Search(make(lib.sr1_search_open, as_config(config)))


# ---- engines in Python ----


class PythonSearch(Search):
    """An engine from a function, or from an object with a method `search`:

        def engine(queries, top_k):
            return [[Hit("d1", "Paris\\nThe capital of France.")] for query in queries]

    The library asks each distinct query once, and makes one call at a time unless
    concurrent. An exception that the function raises comes out of run, search and
    Environment.answer. In rollouts and training it is a failed search (a TimeoutError one
    that was too late), treated as the key search_failure says: the queries of its call
    are asked once more one by one, the log names it once, and failed_searches counts it.
    With waits an answer is known to take long but little work here, such as one over a
    network: rollouts go on with the rows that need no answer, and what takes longer than
    the configuration's search_deadline is given up as a timeout.
    To fail one query alone, answer it with an exception object; a TimeoutError counts as
    a timeout.

    identity: what its answers depend on, in any words, by which a DiskCache tells it from
    others. Of a plain function it is its module and name with a hash of its code, its
    defaults, and what it reads of its module; a method, or a function that reads an
    object, has none unless it is given."""

    def __init__(
        self,
        engine: Union[SearchFunction, Any],
        name: str = "python",
        concurrent: bool = False,
        waits: bool = False,
        identity: Optional[str] = None,
    ) -> None:
        function = engine if callable(engine) else getattr(engine, "search", None)
        if function is None:
            raise TypeError(
                "an engine is a function of queries and top_k, or an object with a method "
                f"search; {type(engine).__name__} has none"
            )
        _callbacks.check_call(f"engine '{name}'", function, "queries", "top_k")
        ops = SearchOps(
            name=terminated(name),
            identity=optional(identity_of(function) if identity is None else identity),
            search=_search,
            destroy=_callbacks.destroy,
            flags=(_CONCURRENT | _THREADS if concurrent else 0)
            | (_WAITS if waits else 0),
        )
        key = _callbacks.own(function)
        try:
            super().__init__(make(lib.sr1_search_new, byref(ops), key))
        except Exception:
            _callbacks.disown(key)
            raise


def _called(key: int, queries: Any, n: int, top_k: int, sink: int) -> int:
    function = _callbacks.owned(key)
    return int(_callbacks.run_rows(_answer, function, queries[:n], top_k, sink))


_search = SearchOpsSearch(_called)


def _answer(
    function: SearchFunction, queries: List[bytes], top_k: int, sink: int
) -> None:
    answers = function([decode(query) for query in queries], top_k)
    _callbacks.check_each("a search", answers, "answers", len(queries), "queries")
    for i, answer in enumerate(answers):
        if isinstance(answer, Exception):
            status = STATUSES.index(
                "timeout" if isinstance(answer, TimeoutError) else "error"
            )
            lib.sr1_search_sink_status(sink, i, status, _message(answer))
            continue
        single = isinstance(answer, (str, Hit, Mapping)) and bool(answer)
        hits = [answer] if single else answer or ()
        for k, hit in enumerate(hits):
            _give(sink, i, k, hit)


def _give(
    sink: int, query: int, rank: int, hit: Union[Hit, Mapping[str, Any], str]
) -> None:
    if isinstance(hit, str):
        hit = Hit("", hit, 1.0 / (rank + 1))
    elif not isinstance(hit, Hit):
        hit = _hit_of(hit, rank)
    identity = "" if hit.id is None else str(hit.id)
    lib.sr1_search_sink_hit(
        sink, query, terminated(identity), _clean(hit.contents), float(hit.score)
    )
    if hit.row is not None:
        lib.sr1_search_sink_row(sink, query, terminated(json.dumps(hit.row)))


def _hit_of(hit: Any, rank: int) -> Hit:
    fields = Hit._fields
    if not isinstance(hit, Mapping) or "contents" not in hit or {*hit} - {*fields}:
        raise TypeError(
            "a hit that a search finds is a text, a Hit, or a mapping with contents and "
            f"perhaps id, score, row, not {hit!r:.80}"
        )
    return Hit(**{"id": "", "score": 1.0 / (rank + 1), **hit})


def _clean(text: str) -> bytes:
    """Documents may hold anything; NUL characters cannot pass."""
    return encode(text).replace(b"\0", b"\xef\xbf\xbd")


def _message(error: Exception) -> bytes:
    return _clean(_callbacks.text_of(error))


def _search_of(engine: Union[Search, SearchFunction, Any]) -> Search:
    if isinstance(engine, (str, bytes)):
        raise TypeError(
            f"an engine is wanted here, not its name: {engine!r}; name it by keys of the "
            "configuration (search_engine, search_index), or open it: Bm25(path), "
            "Remote(url)"
        )
    return engine if isinstance(engine, Search) else PythonSearch(engine)


def as_search(engine: Union[Search, SearchFunction, Any, None]) -> Optional[Search]:
    """A Search itself, or an engine made from a Python function or object."""
    return None if engine is None else _search_of(engine)
