"""Learning to criticise: generators, prompts, trees of revisions (CTRL).

    def solve(conversations):
        return [ask_a_model(c.messages) for c in conversations]

    trees = critique.RevisionTrees(problems, checker, solver=solve, critic=solve, reviser=solve)
    trees.expand(1, 5, 1)
    print(trees.scores(0).pass_at_1, trees.scores(1).pass_at_1)
"""

from __future__ import annotations

from ctypes import (
    POINTER,
    byref,
    c_char_p,
    c_double,
    c_int32,
    c_int64,
    c_size_t,
    c_void_p,
    cast,
    string_at,
)
from dataclasses import dataclass
from typing import Any, Callable, List, Optional, Sequence, Tuple, Union

from . import _callbacks
from ._handle import Handle, make
from ._lib import lib
from ._structs import (
    Conversation as _Conversation,
)
from ._structs import (
    CritiqueDemoOptions,
    CritiqueDemoReport,
    EnvOptions,
    GeneratorOps,
    GeneratorOpsWrite,
    GeneratorOptions,
    RevisionNode,
    RevisionTreeOptions,
    RevisionTreeOptionsProgress,
    RevisionTreeOptionsRun,
    RevisionTreeScores,
)
from ._text import (
    PathLike,
    Text,
    decode,
    encode,
    optional,
    path_bytes,
    strings,
    take,
    terminated,
    text_at,
)
from .code import JUDGEMENTS, Check, Checker, Problems
from .env import Environment

CONCURRENT = 1  # SR1_GENERATOR_CONCURRENT
KINDS = ("root", "answer", "revision")
Message = Tuple[str, str]


# ---- generators ----


@dataclass(frozen=True)
class Conversation:
    """A conversation that wants its next message: (role, text) pairs. What is drawn depends
    on the generator's seed, id (None: the texts) and sample."""

    messages: Tuple[Message, ...]
    id: Optional[str] = None
    sample: int = 0


WriteFunction = Callable[[List[Conversation]], Sequence[Optional[str]]]


class Generator(Handle):
    """A model that writes the next messages of conversations: from a Python function of a
    list of them to their texts, None where it failed."""

    _free = "sr1_generator_free"

    def __init__(
        self, function: WriteFunction, name: str = "python", concurrent: bool = False
    ) -> None:
        """concurrent: several threads may call it at a time."""
        if not callable(function):
            raise TypeError(f"a generator is a function or a Generator, not {function!r:.80}")
        ops = GeneratorOps(
            name=terminated(name),
            write=_write,
            destroy=_callbacks.destroy,
            flags=CONCURRENT if concurrent else 0,
        )
        key = _callbacks.own(function)
        try:
            super().__init__(make(lib.sr1_generator_new, byref(ops), key))
        except Exception:
            _callbacks.disown(key)
            raise

    @classmethod
    def _of(cls, pointer: int) -> Generator:
        self = cls.__new__(cls)
        Handle.__init__(self, pointer)
        return self

    @classmethod
    def model(
        cls,
        folder: PathLike,
        config: Any = None,
        max_tokens: int = 0,
        temperature: float = 0.0,
        top_p: float = 0.0,
        top_k: int = 0,
        seed: int = 0,
    ) -> Generator:
        """A local model, which no training of another reaches. max_tokens 0: 1024;
        temperature 0: greedy."""
        o = GeneratorOptions(
            max_tokens=max_tokens,
            temperature=temperature,
            top_p=top_p,
            top_k=top_k,
            seed=seed,
        )
        return cls._of(
            make(lib.sr1_generator_open_model, path_bytes(folder), config, byref(o))
        )

    @classmethod
    def remote(
        cls,
        config: Any,
        max_tokens: int = 0,
        temperature: float = 0.0,
        top_p: float = 0.0,
        top_k: int = 0,
        seed: int = 0,
    ) -> Generator:
        """A model behind a server in OpenAI's API, by the configuration's keys; the rest
        as of model."""
        o = GeneratorOptions(
            max_tokens=max_tokens,
            temperature=temperature,
            top_p=top_p,
            top_k=top_k,
            seed=seed,
        )
        return cls._of(make(lib.sr1_generator_open_remote, config, byref(o)))

    @classmethod
    def reviser(cls, config: Any) -> Generator:
        """Who revises answers in the environment "critique"."""
        return cls._of(make(lib.sr1_generator_open_reviser, config))

    @property
    def name(self) -> str:
        return decode(lib.sr1_generator_name(self))

    def write(
        self, conversations: Sequence[Union[Conversation, Sequence[Message]]]
    ) -> List[Optional[str]]:
        """The next message of each conversation; None where the generator failed for it,
        or where it is longer than a local model reads."""
        n = len(conversations)
        given = [
            c if isinstance(c, Conversation) else Conversation(tuple(c))
            for c in conversations
        ]
        kept = [_pack(c) for c in given]
        array = (_Conversation * max(n, 1))(*(k[0] for k in kept))
        texts, lens = (c_void_p * max(n, 1))(), (c_size_t * max(n, 1))()
        try:
            with _callbacks.call():
                lib.sr1_generator_generate(self, array, n, texts, lens)
            return [text_at(texts[i], lens[i]) if texts[i] else None for i in range(n)]
        finally:
            for text in texts:
                lib.sr1_free(text)


def as_generator(writer: Any) -> Optional[Generator]:
    """A Generator of a function, the Generator itself, or None."""
    return writer if writer is None or isinstance(writer, Generator) else Generator(writer)


def _pack(c: Conversation) -> Tuple[_Conversation, Any]:
    data = [encode(text) for _, text in c.messages]
    n = len(data)
    roles, contents = strings(role for role, _ in c.messages), (c_char_p * n)(*data)
    sizes = (c_size_t * n)(*(len(d) for d in data))
    packed = _Conversation(
        roles=roles,
        contents=contents,
        sizes=sizes,
        n=n,
        id=optional(c.id),
        sample=c.sample,
    )
    return packed, (roles, contents, sizes)


def _unpack(address: int) -> Conversation:
    c = cast(address, POINTER(_Conversation)).contents
    contents = cast(c.contents, POINTER(c_void_p))
    return Conversation(
        tuple(
            (decode(c.roles[i]), text_at(contents[i], c.sizes[i])) for i in range(c.n)
        ),
        None if c.id is None else decode(c.id),
        c.sample,
    )


def _answer(function: WriteFunction, addresses: List[int], sink: int) -> None:
    texts = function([_unpack(address) for address in addresses])
    _callbacks.check_each("a generator", texts, "texts", len(addresses), "conversations")
    for i, text in enumerate(texts):
        if text is not None:
            data = encode(text)
            lib.sr1_generator_sink_text(sink, i, data, len(data))


def _called(key: int, conversations: Any, n: int, sink: int) -> int:
    function = _callbacks.owned(key)
    return int(_callbacks.run(_answer, function, conversations[:n], sink))


_write = GeneratorOpsWrite(_called)


# ---- prompts ----


class Style(Handle):
    """Templates of prompts in place of the built-in ones: files."""

    _free = "sr1_critique_style_free"

    def __init__(
        self, critique: Optional[PathLike] = None, solve: Optional[PathLike] = None
    ) -> None:
        """critique: {{problem}}, {{answer}}, {{hint}}; solve: {{problem}}."""
        super().__init__(
            make(
                lib.sr1_critique_style_open,
                None if critique is None else path_bytes(critique),
                None if solve is None else path_bytes(solve),
            )
        )


def _problem(problems: Problems, problem: str) -> c_void_p:
    address = lib.sr1_problems_find(problems, terminated(problem))
    if not address:
        raise KeyError(problem)
    return c_void_p(address)


def sanitize(answer: Text) -> str:
    """The program of an answer in a block of its own."""
    data, out = encode(answer), c_void_p()
    lib.sr1_critique_sanitize(data, len(data), byref(out))
    return take(out)


def solve_prompt(problems: Problems, problem: str, style: Optional[Style] = None) -> str:
    """What a solver is asked of the problem with this id."""
    out = c_void_p()
    lib.sr1_critique_solve_prompt(style, _problem(problems, problem), byref(out))
    return take(out)


def prompt(
    problems: Problems,
    problem: str,
    answer: Optional[Text] = None,
    hint: Optional[str] = None,
    style: Optional[Style] = None,
) -> str:
    """What a critic is asked of an answer; None: the problem's own solution."""
    data = None if answer is None else encode(answer)
    out = c_void_p()
    lib.sr1_critique_prompt(
        style,
        _problem(problems, problem),
        data,
        len(data or b""),
        optional(hint),
        byref(out),
    )
    return take(out)


def revision(
    problems: Problems,
    problem: str,
    critique: Text,
    answer: Optional[Text] = None,
    style: Optional[Style] = None,
) -> Tuple[Message, ...]:
    """The conversation that asks for a revision of an answer by a critique."""
    data = None if answer is None else encode(answer)
    said = encode(critique)
    out = (c_void_p * 3)()
    lib.sr1_critique_revision(
        style,
        _problem(problems, problem),
        data,
        len(data or b""),
        said,
        len(said),
        out,
    )
    roles = ("user", "assistant", "user")
    return tuple((role, take(c_void_p(text))) for role, text in zip(roles, out))


def environment(
    problems: Problems, reviser: Any, style: Optional[Style] = None
) -> Environment:
    """The environment in which a critique is answered by the revision of a generator."""
    writer = as_generator(reviser)
    assert writer is not None
    self = Environment.__new__(Environment)
    options = EnvOptions(protocol=b"ctrl")
    Handle.__init__(
        self, make(lib.sr1_critique_env_open, problems, writer, style, byref(options))
    )
    return self


def hint(problems: Problems, problem: str, answer: Text, check: Check) -> str:
    """What a critic is told of an answer that was run: by a check of it that has ended."""
    data = encode(answer)
    out = c_void_p()
    lib.sr1_critique_execution_feedback(
        _problem(problems, problem), data, len(data), check, byref(out)
    )
    return take(out)


# ---- trees of revisions ----


@dataclass(frozen=True)
class Node:
    """A problem, an answer to it, or a revision of its parent's answer by a critique."""

    problem: str
    hash: str
    parent: str
    kind: str
    depth: int
    solution: str
    critique: str
    judgement: str
    passed: bool
    pass_rate: float


# Of a problem's id and an answer: whether it passes all tests, and the share it passes;
# None: it could not be run.
RunFunction = Callable[[str, str], Optional[Tuple[bool, float]]]


class RevisionTrees(Handle):
    """A tree of answers and revisions for each problem (see expand)."""

    _free = "sr1_revision_trees_free"

    def __init__(
        self,
        problems: Problems,
        checker: Union[Checker, RunFunction],
        solver: Any = None,
        critic: Any = None,
        reviser: Any = None,
        votes: int = 1,
        seed: int = 0,
        path: Optional[PathLike] = None,
        hints: bool = False,
        style: Optional[Style] = None,
        max_problems: int = 0,
        progress: Optional[Callable[[str, int, int], Any]] = None,
        made_by: Optional[str] = None,
    ) -> None:
        """checker: a Checker, or a function. solver None: answers are the problems' own.
        path: a file of nodes that is read, if it is there, and added to. hints: the critic
        is told what running the answer showed. made_by: names the generators and how they
        sample; a file made by others, or of problems that have changed, is refused."""
        writers = [as_generator(w) for w in (solver, critic, reviser)]
        self._kept = (problems, checker, writers, style)
        run = None if isinstance(checker, Handle) else checker
        self._run = RevisionTreeOptionsRun()
        if run:
            self._run = RevisionTreeOptionsRun(self._runner(run))
        self._progress = RevisionTreeOptionsProgress()
        if progress:
            self._progress = RevisionTreeOptionsProgress(self._teller(progress))
        options = RevisionTreeOptions(
            problems=problems._as_parameter_,
            max_problems=max_problems,
            solver=_pointer(writers[0]),
            critic=_pointer(writers[1]),
            reviser=_pointer(writers[2]),
            checker=None if run else _pointer(checker),
            run=self._run,
            progress=self._progress,
            votes=votes,
            seed=seed,
            path=None if path is None else path_bytes(path),
            hints=int(hints),
            style=_pointer(style),
            made_by=optional(made_by),
        )
        super().__init__(make(lib.sr1_revision_trees_open, byref(options)))

    def _runner(self, run: RunFunction) -> Any:
        def told(problem: int, answer: int, n: int, verdict: Any, rate: Any) -> None:
            text = decode(string_at(answer, n))
            said = run(decode(lib.sr1_problem_id(problem)), text)
            verdict[0] = 6 if said is None else 0 if said[0] else 1  # SR1_RUN_*
            rate[0] = 0.0 if said is None else said[1]

        return lambda user, *arguments: _callbacks.run(told, *arguments)

    def _teller(self, progress: Callable[[str, int, int], Any]) -> Any:
        def told(phase: bytes, done: int, total: int) -> None:
            progress(decode(phase), done, total)

        return lambda user, *arguments: _callbacks.run(told, *arguments)

    def expand(self, *widths: int) -> int:
        """Let each node of layer i have widths[i + 1] children: expand(1, 5, 1) is 5
        answers of each problem and a revision of each. Nodes that could not be had; the
        next call tries again."""
        missing = c_int64()
        array = (c_int32 * max(len(widths), 1))(*widths)
        with _callbacks.call():
            lib.sr1_revision_trees_expand(self, array, len(widths), byref(missing))
        return missing.value

    def __len__(self) -> int:
        return int(lib.sr1_revision_trees_count(self))

    def __getitem__(self, index: int) -> Node:
        if not 0 <= index < len(self):
            raise IndexError(index)
        n = RevisionNode()
        lib.sr1_revision_trees_node(self, index, byref(n))
        return Node(
            problem=decode(n.problem),
            hash=decode(n.hash),
            parent=decode(n.parent),
            kind=KINDS[n.kind],
            depth=n.depth,
            solution=decode(n.solution),
            critique=decode(n.critique),
            judgement=JUDGEMENTS[n.judgement],
            passed=n.depth > 0 and n.verdict == 0,
            pass_rate=n.pass_rate,
        )

    def scores(self, revisions: int = 0) -> RevisionTreeScores:
        """What so many revisions did; 0: the first answers."""
        scores = RevisionTreeScores()
        lib.sr1_revision_trees_scores(self, revisions, byref(scores))
        return scores

    def pass_at_k(self, k: int, revisions: int = 0) -> float:
        """The unbiased estimate of pass@k, its mean over problems."""
        out = c_double()
        lib.sr1_revision_trees_pass_at_k(self, revisions, k, byref(out))
        return out.value

    def write_demos(
        self,
        path: PathLike,
        tokenizer: Any = None,
        drop_failed: bool = False,
        one_per_problem: bool = False,
        drop_unjudged: bool = False,
        drop_untrue: bool = False,
        max_prompt_tokens: int = 0,
        balance: bool = False,
    ) -> CritiqueDemoReport:
        """Write critiques of first answers as demonstrations for stage sft. tokenizer:
        counts the tokens of prompts (None: none is too long). balance: as many that judge
        "correct" as "incorrect"."""
        options = CritiqueDemoOptions(
            drop_failed=int(drop_failed),
            one_per_problem=int(one_per_problem),
            drop_unjudged=int(drop_unjudged),
            drop_untrue=int(drop_untrue),
            tokenizer=_pointer(tokenizer),
            max_prompt_tokens=max_prompt_tokens,
            balance=int(balance),
        )
        report = CritiqueDemoReport()
        lib.sr1_revision_trees_write_demos(self, path_bytes(path), byref(options), byref(report))
        return report

    def write_rows(self, problem_paths: Sequence[PathLike], path: PathLike) -> int:
        """Write the rows of these files with answers and critique prompts, to train on."""
        paths = (c_char_p * max(len(problem_paths), 1))(
            *(path_bytes(p) for p in problem_paths)
        )
        written = c_int64()
        lib.sr1_revision_trees_write_rows(
            self, paths, len(problem_paths), path_bytes(path), byref(written)
        )
        return written.value


def _pointer(handle: Any) -> Optional[int]:
    return None if handle is None else handle._as_parameter_.value


def pass_at_k(n: int, c: int, k: int) -> float:
    """1 - C(n - c, k) / C(n, k): k of n answers, of which c pass."""
    out = c_double()
    lib.sr1_pass_at_k(n, c, k, byref(out))
    return out.value
