"""Search engines: BM25, mock, Python functions and their exceptions."""

import contextlib
import gc
import itertools
import json
import os
import pickle
import signal
import sys
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor

import pytest

from searchr1 import (
    Bm25,
    Chain,
    Config,
    Environment,
    Hit,
    Hybrid,
    Mock,
    PythonSearch,
    _callbacks,
    build_bm25,
    env,
    errors,
    open_search,
    verify_bm25,
)
from searchr1._lib import lib


@pytest.fixture(scope="module")
def index(corpus, tmp_path_factory):
    path = tmp_path_factory.mktemp("index") / "corpus.bm25"
    build_bm25(corpus, path)
    return path


def test_bm25_scores(index, source):
    cases = json.loads((source / "tests/fixtures/search/scores.json").read_text())
    with Bm25(index) as engine:
        for case, result in zip(
            cases, engine.run([c["question"] for c in cases], top_k=100)
        ):
            found = {hit.id: hit.score for hit in result.hits}
            assert found == pytest.approx(case["scores"], abs=1e-4)
        hit = engine.search(cases[0]["question"], 1)[0]
        assert hit.row["contents"] == hit.contents
        assert engine.info["documents"] > 30 and engine.info["analyzer"] == "english"
    assert Bm25(index, k1=1.2, b=0.75).info["k1"] == 1.2


def test_hits_are_made_when_read(index, source):
    cases = json.loads((source / "tests/fixtures/search/scores.json").read_text())
    query = next(c["question"] for c in cases if len(c["scores"]) >= 3)
    with Bm25(index) as engine:
        first, second = engine.run([query, query + " "], 3)
    hits = first.hits
    assert len(hits) == 3 and hits == second.hits and hits == list(hits)
    assert hits[-1] == hits[2] == hits[1:][1] and hits[0] != hits[1]
    with pytest.raises(IndexError):
        hits[3]
    assert hits.ids == [hit.id for hit in hits]
    assert hits.contents == [hit.contents for hit in hits]
    assert hits.scores == [hit.score for hit in hits]
    hit = hits[0]
    assert hit == Hit(hit.id, hit.contents, hit.score, json.loads(json.dumps(hit.row)))
    assert hit.row is second.hits[0].row  # of one document
    assert tuple(hit)[3] == hit.row and repr(hit.row) in repr(hit)
    assert pickle.loads(pickle.dumps(hits)) == hits
    with pytest.raises(AttributeError):
        hit.score = 1.0


def test_names_in_a_list_may_have_blanks(tmp_path):
    """As in every other list."""
    (tmp_path / "facts.json").write_text('{"tower": "It stands in Paris."}')
    keys = {"mock_knowledge": tmp_path / "facts.json"}
    hybrid = {"search_engine": "hybrid", "search_hybrid": "mock, mock"}
    for names in (hybrid, {"search_engine": "mock", "search_fallback": " mock , mock"}):
        with open_search({**keys, **names}) as engine:
            assert "Paris" in engine.search("Where is the tower?", 1)[0].contents


def test_hybrid_without_ids():
    """What has no id is the same by its contents, never by its rank."""
    first = lambda queries, k: [["A", {"contents": "B"}] for _ in queries]  # noqa: E731
    second = lambda queries, k: [["B", "C"] for _ in queries]  # noqa: E731
    named = lambda queries, k: [[Hit("1", "C"), Hit("2", "D")] for _ in queries]  # noqa: E731
    with Hybrid([first, second], rrf_k=1) as engine:
        assert [h.contents for h in engine.search("q", 9)] == ["B", "A", "C"]
        assert [h.id for h in engine.search("q", 9)] == ["", "", ""]
    with Hybrid([first, named], rrf_k=1) as engine:
        found = {h.contents: h.id for h in engine.search("q", 9)}
        assert found == {"A": "", "B": "", "C": "1", "D": "2"}
    nameless = lambda queries, k: [  # noqa: E731
        [Hit(None, "A"), {"id": None, "contents": "B"}] for _ in queries
    ]
    with Hybrid([nameless, first], rrf_k=1) as engine:
        assert [(h.id, h.contents) for h in engine.search("q", 9)] == [("", "A"), ("", "B")]


def test_build_progress(corpus, tmp_path):
    path, seen = tmp_path / "i", []
    build_bm25(
        corpus, path, analyzer="plain", progress=lambda *figures: seen.append(figures)
    )
    done, total, documents = seen[-1]
    assert done == total == corpus.stat().st_size
    assert documents == Bm25(path).info["documents"]
    before = path.read_bytes()

    def stop(*figures):
        raise ZeroDivisionError("enough")

    with pytest.raises(ZeroDivisionError, match="enough"):
        build_bm25(corpus, path, progress=stop)
    assert path.read_bytes() == before
    with pytest.raises(errors.FileError):
        build_bm25(tmp_path / "none", path)


def test_an_index_replaces_an_index_only(corpus, tmp_path):
    mine = tmp_path / "mine.txt"
    mine.write_text("my own notes")
    with pytest.raises(errors.Error, match="exists and is no BM25 index.*force"):
        build_bm25(corpus, mine)
    assert mine.read_text() == "my own notes"
    build_bm25(corpus, mine, force=True)
    build_bm25(corpus, mine)
    assert Bm25(mine).info["documents"] > 0


def test_build_options(corpus, index, tmp_path):
    path = tmp_path / "i"
    build_bm25(corpus, path, memory_bytes=1 << 20, threads=3)
    assert path.read_bytes() == index.read_bytes()
    verify_bm25(path)
    whole = bytearray(path.read_bytes())
    whole[100] ^= 1
    path.write_bytes(whole)
    with pytest.raises(errors.CorruptError, match="checksum"):
        verify_bm25(path)
    page = tmp_path / "page.jsonl"
    page.write_text('{"id": 1, "contents": "<p>the <b>tower</b> of&nbsp;Paris</p>"}\n')
    build_bm25(page, path, text_format="html")
    assert Bm25(path).search("tower", 1)[0].contents == "the tower of Paris"
    with pytest.raises(errors.InvalidError, match="text_format"):
        build_bm25(page, path, text_format="pdf")


def test_mock(tmp_path):
    path = tmp_path / "k.json"
    path.write_text('{"Tower": "In Paris."}')
    for engine in (
        Mock({"Tower": "In Paris."}),
        Mock(path),
        open_search(Config(search_engine="mock", mock_knowledge=path)),
    ):
        found, empty, blank = engine.run(["the TOWER?", "bridge", " "])
        assert [hit.contents for hit in found.hits] == ["In Paris."]
        assert empty.status == blank.status == "empty" and "bridge" in empty.message


def test_python_function():
    asked = []

    def search(queries, top_k):
        asked.append((queries, top_k))
        return [
            [Hit("a", "A\0\u00e9", 3.0, {"x": 1}), {"contents": "B"}, "C", "D"],
            "one",
            None,
            ValueError("broken"),
            TimeoutError("late"),
        ]

    engine = PythonSearch(search, name="mine")
    results = engine.run(["q1", "q2", "q1", "q3", "q4 \u672a", "q5"], top_k=3)
    assert asked == [(["q1", "q2", "q3", "q4 \u672a", "q5"], 3)]  # each once
    assert [h.contents for h in results[0].hits] == ["A\ufffd\u00e9", "B", "C"]
    assert results[0].hits == results[2].hits and results[0].hits[0].row == {"x": 1}
    assert [r.status for r in results] == ["ok", "ok", "ok", "empty", "error", "timeout"]
    assert "broken" in results[4].message and engine.name == "mine"
    assert engine.counters["duplicates"] == 1 and engine.counters["failed"] == 2


def test_python_object_and_cache():
    class Engine:
        calls = 0

        def search(self, queries, top_k):
            self.calls += 1
            return [query.upper() for query in queries]

    mine = Engine()
    engine = PythonSearch(mine)
    engine.set_cache(1 << 20)
    assert [engine.search("x")[0].contents for _ in range(3)] == ["X"] * 3
    assert mine.calls == 1


def test_hybrid():
    def first(queries, top_k):
        return [[Hit("a", "A"), Hit("b", "B")] for _ in queries]

    def second(queries, top_k):
        assert top_k == 7
        return [TimeoutError() if q == "late" else [Hit("b", "other B")] for q in queries]

    with Hybrid([first, second], weights=[1, 2], rrf_k=1, depth=7) as engine:
        found, late = engine.run(["q", "late"])
        assert [hit.contents for hit in found.hits] == ["B", "A"]
        assert [hit.score for hit in found.hits] == pytest.approx([1 / 3 + 2 / 2, 1 / 2])
        assert [hit.id for hit in late.hits] == ["a", "b"]
        assert engine.counters["fallbacks"] == 1
    with pytest.raises(ValueError, match="weights"):
        Hybrid([first, second], weights=[1])
    with pytest.raises(errors.InvalidError, match="weight 0"):
        Hybrid([first], weights=[0])


class Mine(Exception):
    """An exception the package knows nothing of."""


@pytest.mark.parametrize(
    "error", [Mine("boom \u672a\0"), KeyboardInterrupt(), SystemExit(3)]
)
def test_exception_comes_back_itself(error):
    def search(queries, top_k):
        raise error

    engine = PythonSearch(search)
    with pytest.raises(type(error)) as caught:
        engine.search("x")
    assert caught.value is error
    assert any(entry.name == "search" for entry in caught.traceback)
    stopped = not isinstance(error, Exception)
    kind = errors.CancelledError if stopped else errors.CallbackError
    assert isinstance(error.__context__, kind)


def test_exception_keeps_its_causes():
    def search(queries, top_k):
        try:
            {}["x"]
        except KeyError as error:
            raise Mine("boom") from error

    with pytest.raises(Mine) as caught:
        PythonSearch(search).search("x")
    assert isinstance(caught.value.__cause__, KeyError)


@pytest.mark.parametrize(
    "answer, kind",
    [
        ([], ValueError),
        ([["a"], ["b"]], ValueError),
        (3, TypeError),
        ([[{"text": "x"}]], TypeError),
        ([[Hit("i", "x", float("nan"))]], errors.InvalidError),
        ([[5]], TypeError),
    ],
)
def test_wrong_answers(answer, kind):
    with pytest.raises(kind):
        PythonSearch(lambda queries, top_k: answer).search("x")


def test_an_async_search_is_refused():
    async def search(queries, top_k):
        return [["x"]]

    with pytest.raises(TypeError, match="a search is async, .* a plain function"):
        PythonSearch(search).search("x")


@pytest.mark.parametrize("hit", [{"foo": 1}, {"contents": "x", "foo": 1}, 5, None])
def test_what_is_no_hit_is_told_so(hit):
    with pytest.raises(TypeError, match="a hit that a search finds is .* not "):
        PythonSearch(lambda queries, top_k: [[hit]]).search("x")


def test_functions_live_as_long_as_engines():
    def search(queries, top_k):
        return ["x"] * len(queries)

    gone = weakref.ref(search)
    engine = PythonSearch(search)
    environment = Environment("search", engine)
    del search
    engine.close()
    gc.collect()
    assert gone() is not None and "x" in environment.answer("q")  # it keeps the engine
    environment.close()
    gc.collect()
    assert gone() is None


def test_threads():
    """Called from the library's threads and from several of Python's."""
    seen = set()

    def search(queries, top_k):
        seen.add(threading.get_ident())
        return [query * 2 for query in queries]

    engine = PythonSearch(search, concurrent=True)
    engine.set_threads(4)
    wrong = []

    def work(number):
        for i in range(20):
            queries = [f"{number} {i} {k}" for k in range(64)]
            found = [result.hits[0].contents for result in engine.run(queries)]
            if found != [query * 2 for query in queries]:
                wrong.append(found)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong and len(seen) > 4


def test_environment():
    environment = Environment(
        "search", Mock({"tower": "In Paris."}), document_format="plain"
    )
    assert environment.answer(" tower ") == "<information> In Paris. </information>"
    assert environment.name == "search"

    def act(actions):
        assert actions[0].turn == 0
        return [action.text[::-1] for action in actions]

    mine = Environment(act, document_format="plain", name="mirror")
    assert ">cba<" in mine.answer("abc").replace(" ", "") and mine.name == "mirror"
    with pytest.raises(ValueError, match="0 answers"):
        Environment(lambda actions: []).answer("x")
    with pytest.raises(errors.NotFoundError):
        Environment("no such")


def test_protocol():
    assert env.parse("<think>x</think><search> a b </search> c") == ("action", "a b")
    assert env.parse("<answer>\u672a</answer>") == ("answer", "\u672a")
    assert env.parse("<search>open") == ("none", "")


def bad(queries, top_k):
    raise Mine("deep")


@pytest.mark.parametrize(
    "engine",
    [
        lambda: Chain([Chain([bad])]),
        lambda: Chain([Chain([bad]), Mock({"x": "y"})]),
        lambda: Hybrid([Chain([bad]), Mock({"x": "y"})]),
    ],
)
def test_exception_comes_back_from_any_depth(engine):
    engine = engine()
    with pytest.raises(Mine, match="deep"):
        engine.search("x")
    with pytest.raises(Mine, match="deep"):  # as the first time
        engine.search("x")


@pytest.mark.parametrize("kind", [Chain, Hybrid])
def test_what_a_call_raises_is_its_own(kind):
    """Its engine has raised, and it is under way while others of the same engines run."""
    raised, over = threading.Event(), threading.Event()

    class Held(Exception):
        def __str__(self):  # asked for when the exception is kept
            raised.set()
            over.wait(60)
            return "held"

    def first(queries, top_k):
        if queries == ["bad"]:
            raise Held
        return [f"first: {query}" for query in queries]

    def second(queries, top_k):
        return [f"second: {query}" for query in queries]

    opened = [PythonSearch(function, concurrent=True) for function in (first, second)]
    engine = kind(opened)
    with ThreadPoolExecutor(1) as pool:
        bad = pool.submit(engine.search, "bad")
        try:
            assert raised.wait(60)
            assert engine.search("good")[0].contents == "first: good"
            assert opened[0].search("good")[0].contents == "first: good"
        finally:
            over.set()
        assert isinstance(bad.exception(60), Held)
    assert engine.search("good")[0].contents == "first: good"


def test_a_ctrl_c_comes_out_of_the_call_it_was_kept_for():
    """The main thread's: another call of the engine, begun and ended after it, goes well."""

    def search(queries, top_k):
        if queries == ["main"]:
            os.kill(os.getpid(), signal.SIGINT)
            others.append(pool.submit(engine.search, "other"))
            others[0].exception(60)
        return queries

    others = []

    engine = PythonSearch(search, concurrent=True)
    with ThreadPoolExecutor(1) as pool:
        with pytest.raises(KeyboardInterrupt):
            engine.search("main")
    assert [hit.contents for hit in others[0].result()] == ["other"]


def interrupted_at(n, call):
    """Run call with a Ctrl-C before the n-th line of its way through _callbacks.py; False:
    it has fewer."""
    lines = itertools.count()

    def trace(frame, event, argument):
        if frame.f_code.co_filename != _callbacks.__file__:
            return None
        if event == "line" and next(lines) == n:
            sys.settrace(None)
            os.kill(os.getpid(), signal.SIGINT)
        return trace

    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(None)
    return next(lines) > n


def test_a_ctrl_c_is_never_lost_and_leaves_nothing():
    """Wherever in a call it comes."""
    engine = PythonSearch(lambda queries, top_k: queries)
    for n in itertools.count():
        with contextlib.suppress(KeyboardInterrupt):
            assert not interrupted_at(n, lambda: engine.search("x")), f"lost at line {n}"
            break
        assert not _callbacks._calls and lib.sr1_call_mark() == 0, f"line {n}"
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert n > 20


def count_calls(monkeypatch, name):
    """How often a function of the library is called from here on."""
    calls, function = [], getattr(lib, name)

    def counted(*arguments):
        calls.append(arguments)
        return function(*arguments)

    monkeypatch.setattr(lib, name, counted)
    return calls


def test_results_are_freed_when_a_callback_raised(monkeypatch):
    freed = count_calls(monkeypatch, "sr1_search_results_free")
    with pytest.raises(Mine):
        Chain([bad, Mock({"x": "y"})]).search("x")
    assert len(freed) == 1 and freed[0][0].value


def test_the_name_of_an_engine_is_no_engine():
    with pytest.raises(TypeError, match="Bm25\\(path\\)"):
        Hybrid(["bm25"])


def test_an_answer_is_freed_when_a_callback_raised(monkeypatch):
    freed = count_calls(monkeypatch, "sr1_free")
    with Environment("search", Chain([bad, Mock({"x": "y"})])) as environment:
        with pytest.raises(Mine):
            environment.answer("x")
    assert len(freed) == 1 and freed[0][0].value


def test_answers_that_are_mappings():
    one = PythonSearch(lambda queries, top_k: [{"contents": "a b"} for _ in queries])
    assert [hit.contents for hit in one.search("q", 3)] == ["a b"]
    wrong = PythonSearch(lambda queries, top_k: {"q": "a"})
    with pytest.raises(TypeError, match="not a dict"):
        wrong.search("q", 3)
