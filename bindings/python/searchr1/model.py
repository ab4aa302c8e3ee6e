"""Language models: decoders (Qwen3 with experts too, Qwen2.5, Llama, SmolLM3, Mistral,
Gemma 3) from Hugging Face folders."""

from __future__ import annotations

import json
from ctypes import byref, c_float, c_int32
from typing import Any, Iterable, Mapping, Optional, Union

from . import _arrays
from ._handle import Handle, make
from ._lib import lib
from ._structs import ModelOptions
from ._text import PathLike, decode, optional, path_bytes, terminated


class Model(Handle):
    """A model on a device. device: "auto", "cpu", "cuda", "cuda:1"; dtype: "fp32",
    "bf16", "fp16", "stored" (that of the files) or None (fp32 on the CPU, else bf16)."""

    _free = "sr1_model_free"

    def __init__(
        self,
        folder: PathLike,
        device: str = "auto",
        dtype: Optional[str] = None,
        threads: int = 0,
        base_model: Optional[PathLike] = None,
    ) -> None:
        """Load a folder with config.json and *.safetensors, or peft's LoRA adapter with
        its base: base_model, or else the folder that the adapter names. threads: of one
        tensor operation, for the whole process (0: leave as it is)."""
        options = ModelOptions(
            device=optional(device),
            dtype=optional(dtype),
            threads=threads,
            base_model=path_bytes(base_model) if base_model is not None else None,
        )
        super().__init__(make(lib.sr1_model_open, path_bytes(folder), byref(options)))

    @classmethod
    def random(
        cls,
        config: Union[str, Mapping[str, Any]],
        seed: int = 0,
        device: str = "auto",
        dtype: Optional[str] = None,
        init: Optional[str] = None,
    ) -> Model:
        """Random weights in the shape of a Hugging Face config.json (text or mapping).
        init: "normal" (sd 0.02) or "fan_in"."""
        text = config if isinstance(config, str) else json.dumps(dict(config))
        options = ModelOptions(
            device=optional(device), dtype=optional(dtype), init=optional(init)
        )
        return cls._of(
            make(lib.sr1_model_new_random, terminated(text), seed, byref(options))
        )

    @classmethod
    def _of(cls, pointer: int, owner: Optional[Handle] = None) -> Model:
        self = cls.__new__(cls)
        Handle.__init__(self, pointer, owner)
        return self

    def save(self, folder: PathLike) -> None:
        """Write config.json and model.safetensors into a folder, made if missing; of a
        model with an adapter the adapter alone, as peft does."""
        lib.sr1_model_save(self, path_bytes(folder))

    def save_merged(self, folder: PathLike) -> None:
        """Write the whole model, an adapter merged into its weights."""
        lib.sr1_model_save_merged(self, path_bytes(folder))

    def logits(self, ids: Iterable[int]) -> Any:
        """Logits of the next token after each of n ids: float32 [n, vocab]."""
        data, pointer = _arrays.given(ids, c_int32)
        out = _arrays.empty(c_float, len(data), self.vocab_size)
        lib.sr1_model_logits(self, pointer, len(data), _arrays.pointer(out, c_float))
        return out

    @property
    def vocab_size(self) -> int:
        """Rows of the embedding."""
        return int(lib.sr1_model_info(self, 0))

    @property
    def layers(self) -> int:
        return int(lib.sr1_model_info(self, 1))

    @property
    def hidden_size(self) -> int:
        return int(lib.sr1_model_info(self, 2))

    @property
    def heads(self) -> int:
        return int(lib.sr1_model_info(self, 3))

    @property
    def kv_heads(self) -> int:
        return int(lib.sr1_model_info(self, 4))

    @property
    def head_dim(self) -> int:
        return int(lib.sr1_model_info(self, 5))

    @property
    def max_position(self) -> int:
        return int(lib.sr1_model_info(self, 6))

    @property
    def parameters(self) -> int:
        """Numbers of the weights; a tied head counts once, an adapter not."""
        return int(lib.sr1_model_info(self, 7))

    @property
    def trained(self) -> int:
        """Numbers that training changes: the adapter's, else all."""
        return int(lib.sr1_model_info(self, 9))

    @property
    def lora_rank(self) -> int:
        """The rank of the adapter; 0: there is none."""
        return int(lib.sr1_model_info(self, 10))

    @property
    def tied(self) -> bool:
        """Whether the head shares the embedding."""
        return bool(lib.sr1_model_info(self, 8))

    @property
    def dtype(self) -> str:
        """ "fp32", "bf16" or "fp16"."""
        return decode(lib.sr1_model_dtype(self))

    @property
    def device(self) -> str:
        """ "cpu", "cuda:0", ..."""
        return decode(lib.sr1_model_device(self))
