"""Byte-level BPE tokenizers (Qwen, Llama 3) and their chat prompts; WordPiece and Unigram
tokenizers of text encoders (BERT, T5)."""

from __future__ import annotations

import ctypes
import json
from ctypes import POINTER, byref, c_char_p, c_int32, c_int64, c_size_t, c_void_p
from typing import Any, Iterable, Iterator, List, Mapping, Optional, Sequence, Tuple

from . import _arrays
from ._handle import Handle, make
from ._lib import lib
from ._structs import ChatOptions, TokenizerTrainOptions
from ._text import PathLike, Text, encode, optional, path_bytes, strings, take, terminated
from ._text import decode as to_str

# What becomes of added tokens ("<|im_end|>", "<think>") that occur in a text.
ADDED = {"recognise": 0, "special_as_text": 1, "as_text": 2}
CONTINUED = 4
ROLES = {"eos": 0, "pad": 1, "bos": 2, "im_start": 3, "im_end": 4, "endoftext": 5}

Messages = Sequence[Mapping[str, Any]]


def _take_ids(memory: c_void_p, n: int) -> List[int]:
    try:
        return ctypes.cast(memory, POINTER(c_int32))[:n] if n else []
    finally:
        lib.sr1_free(memory)


class Tokenizer(Handle):
    """A Hugging Face tokenizer folder, or a tokenizer.json alone."""

    _free = "sr1_tokenizer_free"

    def __init__(self, path: PathLike) -> None:
        super().__init__(make(lib.sr1_tokenizer_open, path_bytes(path)))

    @classmethod
    def _borrow(cls, pointer: int, owner: Handle) -> Tokenizer:
        self = cls.__new__(cls)
        Handle.__init__(self, pointer, owner)
        return self

    @classmethod
    def train(
        cls,
        texts: Iterable[Text],
        folder: PathLike,
        vocab_size: int = 1024,
        min_frequency: int = 2,
        weights: Optional[Sequence[int]] = None,
        special_tokens: Optional[Sequence[str]] = None,
        added_tokens: Optional[Sequence[str]] = None,
    ) -> Tokenizer:
        """Learn a small vocabulary, write it into folder, and open it. None: ChatML's
        special tokens, Qwen's added ones, weight 1 for each text."""
        data = [encode(text) for text in texts]
        special = None if special_tokens is None else strings(special_tokens)
        added = None if added_tokens is None else strings(added_tokens)
        options = TokenizerTrainOptions(
            vocab_size=vocab_size,
            min_frequency=min_frequency,
            special_tokens=special,
            n_special_tokens=len(special or ()),
            added_tokens=added,
            n_added_tokens=len(added or ()),
        )
        held, counts = (None, None)
        if weights is not None:
            held, counts = _arrays.given(weights, c_int64, len(data))
        lib.sr1_tokenizer_train(
            (c_char_p * len(data))(*data),
            (c_size_t * len(data))(*map(len, data)),
            counts,
            len(data),
            byref(options),
            path_bytes(folder),
        )
        del held
        return cls(folder)

    def save(self, folder: PathLike) -> None:
        """Copy the tokenizer's files into a folder that exists."""
        lib.sr1_tokenizer_save(self, path_bytes(folder))

    def encode(
        self, text: Text, added: str = "recognise", continued: bool = False
    ) -> List[int]:
        """Ids of a text. added: "recognise" added tokens, or take those marked special
        ("special_as_text") or all ("as_text", for text from outside) as plain text.
        continued: the text continues another, so nothing is put in front of it."""
        data = encode(text)
        mode = ADDED[added] | (CONTINUED if continued else 0)
        ids, n = c_void_p(), c_size_t()
        lib.sr1_tokenizer_encode(self, data, len(data), mode, byref(ids), byref(n))
        return _take_ids(ids, n.value)

    def encode_input(
        self, text: Text, pair: Optional[Text] = None, max_tokens: int = 512
    ) -> Tuple[List[int], List[int]]:
        """Ids and type ids of what an encoder reads: a text, or two, with the special
        tokens around them, cut to max_tokens as transformers does with truncation=True."""
        ids, types, n = c_void_p(), c_void_p(), c_size_t()
        lib.sr1_tokenizer_encode_input(
            self, terminated(text), optional(pair), max_tokens,
            byref(ids), byref(types), byref(n),
        )
        return _take_ids(ids, n.value), _take_ids(types, n.value)

    def decode(self, ids: Iterable[int], skip_special: bool = False) -> str:
        """Text of ids; bytes that are no characters give U+FFFD."""
        data, pointer = _arrays.given(ids, c_int32)
        text, n = c_void_p(), c_size_t()
        lib.sr1_tokenizer_decode(
            self, pointer, len(data), skip_special, byref(text), byref(n)
        )
        return take(text, n.value)

    def stream(self, skip_special: bool = False) -> TokenStream:
        """A streaming decoder."""
        return TokenStream(self, skip_special)

    def chat(self, messages: Messages, **options: Any) -> str:
        """The prompt of messages {"role", "content"}. Options: generation_prompt (end
        with the opening of an answer), thinking (False: the empty think block), added
        (recognise added tokens inside contents), tools (a list of descriptions)."""
        text, n = c_void_p(), c_size_t()
        self._chat(messages, byref(text), byref(n), None, None, **options)
        return take(text, n.value)

    def chat_ids(self, messages: Messages, **options: Any) -> List[int]:
        """The same as ids."""
        ids, n = c_void_p(), c_size_t()
        self._chat(messages, None, None, byref(ids), byref(n), **options)
        return _take_ids(ids, n.value)

    def _chat(
        self,
        messages: Messages,
        *out: Any,
        generation_prompt: bool = False,
        thinking: bool = True,
        added: bool = False,
        tools: Optional[Sequence[Mapping[str, Any]]] = None,
    ) -> None:
        options = ChatOptions(
            add_generation_prompt=generation_prompt,
            no_thinking=not thinking,
            recognise_added=added,
            tools=None
            if tools is None
            else optional(json.dumps(tools, ensure_ascii=False)),
        )
        data = encode(json.dumps(list(map(dict, messages)), ensure_ascii=False))
        lib.sr1_tokenizer_chat_json(self, data, len(data), byref(options), *out)

    def token_id(self, token: str) -> Optional[int]:
        """The id of a token by its text in tokenizer.json; None: there is none."""
        found = lib.sr1_tokenizer_token_to_id(self, terminated(token))
        return None if found < 0 else int(found)

    def special_id(self, role: str) -> Optional[int]:
        """The id of a token with a role (ROLES); None: there is none."""
        found = lib.sr1_tokenizer_special_id(self, ROLES[role])
        return None if found < 0 else int(found)

    @property
    def stop_ids(self) -> List[int]:
        """Ids that end a generation."""
        n = c_size_t()
        address = lib.sr1_tokenizer_stop_ids(self, byref(n))
        return list(_arrays.copy(address, c_int32, n.value).tolist())

    @property
    def chat_family(self) -> str:
        """Which rules chat follows: one of chat_families(), "template" (the folder's own
        template is run), or "unknown": then it is refused.

        Set it to follow the rules of a family whatever the template is.
        """
        return to_str(lib.sr1_tokenizer_chat_family(self))

    @chat_family.setter
    def chat_family(self, name: str) -> None:
        lib.sr1_tokenizer_set_chat_family(self, terminated(name))

    @staticmethod
    def chat_families() -> List[str]:
        """The names that chat_family can be set to."""
        names, i = [], 0
        while (name := lib.sr1_tokenizer_chat_family_name(i)) is not None:
            names.append(to_str(name))
            i += 1
        return names

    @property
    def chat_template_names(self) -> List[str]:
        """The chat templates of the tokenizer's folder: "default", then those of
        additional_chat_templates, or of a list in tokenizer_config.json."""
        names, i = [], 0
        while (name := lib.sr1_tokenizer_chat_template_name(self, i)) is not None:
            names.append(to_str(name))
            i += 1
        return names

    def set_chat_template(self, name: str) -> None:
        """Write conversations by one of chat_template_names."""
        lib.sr1_tokenizer_set_chat_template(self, terminated(name))

    def __len__(self) -> int:
        """The largest id + 1."""
        return int(lib.sr1_tokenizer_vocab_size(self))


class TokenStream(Handle):
    """Ids in, whole characters out."""

    _free = "sr1_token_stream_free"

    def __init__(self, tokenizer: Tokenizer, skip_special: bool = False) -> None:
        super().__init__(make(lib.sr1_token_stream_new, tokenizer, skip_special))

    def push(self, token_id: int) -> str:
        """The characters that an id completes; may be empty."""
        text, n = c_char_p(), c_size_t()
        lib.sr1_token_stream_push(self, token_id, byref(text), byref(n))
        return to_str(ctypes.string_at(text, n.value))

    def finish(self) -> str:
        """The end of the ids: what is left; the stream is ready for another text."""
        text, n = c_char_p(), c_size_t()
        lib.sr1_token_stream_finish(self, byref(text), byref(n))
        return to_str(ctypes.string_at(text, n.value))

    def decode(self, ids: Iterable[int]) -> Iterator[str]:
        """The pieces of text of ids, none of them empty."""
        for piece in (self.push(i) for i in ids):
            if piece:
                yield piece
        rest = self.finish()
        if rest:
            yield rest
