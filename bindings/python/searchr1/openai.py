"""Text from a model behind a server that speaks OpenAI's API (vLLM, SGLang, OpenAI)."""

from __future__ import annotations

from ctypes import byref, c_float, c_int32, c_void_p
from dataclasses import dataclass, field
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple, Union

from . import _arrays, _callbacks
from ._handle import Handle, make
from ._lib import lib
from ._structs import OpenaiCounters, OpenaiOptions, OpenaiRequest, OpenaiResult
from ._text import PathLike, decode, encode, strings, terminated, text_at
from .config import Config, as_config

FINISHES = ("stop", "length", "other")
DIALECTS = ("auto", "openai", "vllm")

# Token ids, text, or messages: (role, content) pairs or mappings with these members.
Prompt = Union[str, Sequence[int], Sequence[Tuple[str, str]], Sequence[Mapping[str, str]]]


@dataclass(frozen=True)
class Completion:
    """One answer. error: why there is none. ids, log_probs: where the server gives them."""

    text: str
    finish: str  # one of FINISHES
    error: str = ""
    stop_text: Optional[str] = None
    ids: Optional[Any] = field(default=None, repr=False)  # int32 [n]
    log_probs: Optional[Any] = field(default=None, repr=False)  # float32 [n]
    prompt_tokens: int = -1  # as the server counted; -1: not said
    completion_tokens: int = -1


class OpenAI(Handle):
    """A client. Any number of threads may use it at a time.

    server = OpenAI("http://127.0.0.1:8000/v1")
    server.complete([[("user", "Where is the tower?")]], max_tokens=64)[0].text
    """

    _free = "sr1_openai_free"

    def __init__(self, base_url: str, model: str = "", **options: Any) -> None:
        """options: dialect (one of DIALECTS), timeout_s, retries, concurrency, key_env,
        ca_file, ... of sr1_openai_options."""
        o = OpenaiOptions()
        lib.sr1_openai_options_init(byref(o))
        names = {name for name, _ in OpenaiOptions._fields_}
        for name, value in options.items():
            if name not in names:
                raise TypeError(f"OpenAI has no option {name!r}")
            if name == "dialect":
                value = DIALECTS.index(value)
            setattr(o, name, terminated(value) if isinstance(value, str) else value)
        o.base_url, o.model = terminated(base_url), terminated(model)
        super().__init__(make(lib.sr1_openai_new, byref(o)))

    @classmethod
    def open(cls, config: Union[Config, PathLike, Mapping[str, Any]]) -> OpenAI:
        """By the keys openai_base_url, openai_model, vllm_server_host, ..."""
        self = cls.__new__(cls)
        Handle.__init__(self, make(lib.sr1_openai_open, as_config(config)))
        return self

    @property
    def model(self) -> str:
        return decode(lib.sr1_openai_model(self))

    @property
    def context(self) -> int:
        """Tokens of prompt and completion together at most; 0: the server does not say."""
        return int(lib.sr1_openai_context(self))

    @property
    def dialect(self) -> str:
        return DIALECTS[lib.sr1_openai_dialect(self)]

    @property
    def counters(self) -> Dict[str, int]:
        """Since it was opened: requests, retries, failures, prompt_tokens,
        completion_tokens."""
        counters = OpenaiCounters()
        lib.sr1_openai_counters_get(self, byref(counters))
        return counters.as_dict()

    def cancel(self) -> None:
        """End what is under way, from any thread."""
        lib.sr1_openai_cancel(self)

    def complete(
        self,
        prompts: Sequence[Prompt],
        max_tokens: int = 512,
        temperature: float = 0.0,
        top_p: float = 1.0,
        top_k: int = 0,
        stop: Sequence[str] = (),
        log_probs: bool = False,
        seed: int = 0,
        no_thinking: bool = False,
    ) -> List[Completion]:
        """A completion of each prompt, all asked for at once. A prompt that fails alone
        has a completion with an error. temperature 0: greedy."""
        array = (OpenaiRequest * len(prompts))()
        stops = strings(stop)
        keep = []  # what the requests point to
        for at, prompt in zip(array, prompts):
            at.__init__(
                max_tokens=max_tokens,
                temperature=temperature,
                top_p=top_p,
                top_k=top_k,
                log_probs=log_probs,
                stop=stops,
                n_stop=len(stops),
                seed=seed,
                no_thinking=no_thinking,
                **_prompt(prompt, keep),
            )
        out = c_void_p()
        try:
            _callbacks.run_aside(
                lambda: lib.sr1_openai_run(self, array, len(prompts), byref(out)),
                self.cancel,
            )
        except BaseException:
            lib.sr1_openai_results_free(out)
            raise
        with _Results(out.value) as results:  # type: ignore[arg-type]
            return [results.result(i) for i in range(len(prompts))]


def _prompt(prompt: Prompt, keep: List[Any]) -> Dict[str, Any]:
    """The members of a request that say what to complete."""
    if isinstance(prompt, str):
        text = encode(prompt)
        return {"prompt": text, "prompt_len": len(text)}
    first = prompt[0] if len(prompt) else None
    if not isinstance(first, (tuple, list, Mapping)):
        data, address = _arrays.given(prompt, c_int32)  # type: ignore[arg-type]
        keep.append(data)
        return {"prompt_ids": address, "n_prompt_ids": len(data)}
    pairs = [
        (m["role"], m["content"]) if isinstance(m, Mapping) else m
        for m in prompt  # type: ignore[union-attr]
    ]
    roles = strings(role for role, _ in pairs)
    contents = strings(content for _, content in pairs)
    return {"roles": roles, "contents": contents, "n_messages": len(pairs)}


class _Results(Handle):
    _free = "sr1_openai_results_free"

    def result(self, index: int) -> Completion:
        r = OpenaiResult()
        lib.sr1_openai_results_get(self, index, byref(r))
        if r.status != 0:
            return Completion("", FINISHES[-1], decode(r.message))
        return Completion(
            text=text_at(r.text, r.text_len),
            finish=FINISHES[r.finish],
            stop_text=None if r.stop_text is None else decode(r.stop_text),
            ids=_arrays.copy(r.ids, c_int32, r.n_tokens) if r.ids else None,
            log_probs=(
                _arrays.copy(r.log_probs, c_float, r.n_tokens) if r.log_probs else None
            ),
            prompt_tokens=r.prompt_tokens,
            completion_tokens=r.completion_tokens,
        )
