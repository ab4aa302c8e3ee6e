"""How good a search engine is on questions: recall, MRR and nDCG by judgements, and the
share of questions with an answer in a passage."""

from __future__ import annotations

from ctypes import byref
from dataclasses import dataclass
from typing import Optional, Sequence

from . import _callbacks, _structs
from ._handle import Handle, make
from ._lib import lib
from ._text import PathLike, optional, path_bytes, strings, terminated
from .data import Dataset
from .search import Search


@dataclass(frozen=True)
class SearchMeasures:
    """Means over questions, of the first top_k hits each: recall, success,
    reciprocal_rank (MRR) and ndcg over the `judged`, hit_rate over those `with_answers`;
    NaN where there are none. hits: mean number of hits."""

    questions: int  # asked, without those that failed
    failed: int
    judged: int
    recall: float
    success: float
    reciprocal_rank: float
    ndcg: float
    with_answers: int
    hit_rate: float
    hits: float


def _measures(m: _structs.SearchMeasures) -> SearchMeasures:
    return SearchMeasures(
        **{name: getattr(m, name) for name in SearchMeasures.__dataclass_fields__}
    )


class Qrels(Handle):
    """Judgements of documents from a file of TREC's or BEIR's form; len() is how many."""

    _free = "sr1_qrels_free"

    def __init__(self, path: PathLike) -> None:
        super().__init__(make(lib.sr1_qrels_open, path_bytes(path)))

    def __len__(self) -> int:
        return int(lib.sr1_qrels_count(self))

    @property
    def queries(self) -> int:
        """The number of queries that are judged."""
        return int(lib.sr1_qrels_query_count(self))

    def grade(self, query: str, document: str) -> int:
        """The grade of a document for a query, by their ids; 0 without a judgement."""
        return int(lib.sr1_qrels_grade(self, terminated(query), terminated(document)))

    def measure(self, query: str, ids: Sequence[str], top_k: int = 10) -> SearchMeasures:
        """The measures of one ranking, best first; NaN where the query is not judged."""
        array, out = strings(ids), _structs.SearchMeasures()
        lib.sr1_qrels_measure(
            self, terminated(query), array, len(array), top_k, byref(out)
        )
        return _measures(out)


def measure_search(
    engine: Search,
    questions: Dataset,
    qrels: Optional[Qrels] = None,
    top_k: int = 10,
    gold_ids_field: Optional[str] = None,
) -> SearchMeasures:
    """Ask an engine the questions that have a judgement or an answer, and measure what it
    returns. Without qrels the ids in the rows' gold_ids_field (None: "gold_ids") are
    documents of grade 1. Questions without answers need Dataset(answers_optional=True)."""
    out = _structs.SearchMeasures()
    options = _structs.SearchMeasureOptions(
        top_k=top_k,
        qrels=None if qrels is None else qrels._as_parameter_,
        gold_ids_field=optional(gold_ids_field),
    )
    with _callbacks.call():
        lib.sr1_search_measure(engine, questions, byref(options), byref(out))
    return _measures(out)
