"""Every hyper-parameter, by name."""

from __future__ import annotations

import math
from ctypes import byref, c_char_p, c_double, c_int32, c_int64, c_void_p
from dataclasses import dataclass
from typing import (
    AbstractSet,
    Any,
    Dict,
    Iterator,
    List,
    Mapping,
    MutableMapping,
    Optional,
    Tuple,
    Union,
)

from ._handle import Handle, make
from ._lib import lib
from ._structs import ConfigElsewhere, ConfigKeyInfo, ConfigPreset
from ._text import PathLike, decode, path_bytes, take, terminated
from .errors import ConfigError

TYPES = ("bool", "int", "real", "string", "list", "choice", "path", "secret")

Value = Union[bool, int, float, str, List[str]]


@dataclass(frozen=True)
class Key:
    """What there is to know about a key."""

    name: str
    type: str  # one of TYPES
    default: str  # as text
    help: str
    choices: Tuple[str, ...]  # of type "choice"
    environment: str  # the variable a "secret" comes from
    min: float  # inclusive bounds of numbers
    max: float
    later: bool  # known, but only its default is taken yet


def _key(index: int) -> Key:
    info = ConfigKeyInfo()
    lib.sr1_config_key_describe(index, byref(info))
    kind = TYPES[info.type]
    choices = decode(info.choices)
    number = kind in ("int", "real")
    return Key(
        name=decode(info.name),
        type=kind,
        default=decode(info.default_text),
        help=decode(info.help),
        choices=tuple(choices.split("|")) if kind == "choice" else (),
        environment=choices if kind == "secret" else "",
        min=info.min if number else -math.inf,
        max=info.max if number else math.inf,
        later=info.status != 0,
    )


KEYS: Dict[str, Key] = {
    key.name: key for key in map(_key, range(lib.sr1_config_key_count()))
}


@dataclass(frozen=True)
class Elsewhere:
    """A name of a setting in other programs, which is no key here."""

    name: str
    of: str  # whose: "TRL", "verl and OpenRLHF", "other programs"
    key: str  # the key to use; "": there is none, and text says what to do
    text: str  # what to know about it


def _elsewhere(index: int) -> Elsewhere:
    info = ConfigElsewhere()
    lib.sr1_config_elsewhere_describe(index, byref(info))
    return Elsewhere(
        name=decode(info.name),
        of=decode(info.of),
        key=decode(info.key),
        text=decode(info.text),
    )


ELSEWHERE: Dict[str, Elsewhere] = {
    row.name: row for row in map(_elsewhere, range(lib.sr1_config_elsewhere_count()))
}


#: Names of other programs that are taken as a key's own: {"num_generations": "group_size"}.
ALIASES: Dict[str, str] = {
    row.name: row.key
    for row in ELSEWHERE.values()
    if row.text == "taken as the same key"
}


def _presets() -> Dict[str, Dict[str, str]]:
    presets: Dict[str, Dict[str, str]] = {}
    info = ConfigPreset()
    for index in range(lib.sr1_config_preset_count()):
        lib.sr1_config_preset_describe(index, byref(info))
        presets.setdefault(decode(info.compat), {})[decode(info.key)] = decode(info.value)
    return presets


#: What each value of the key compat makes of the defaults of other keys, as text.
PRESETS: Dict[str, Dict[str, str]] = _presets()


def as_text(value: Any) -> str:
    if isinstance(value, (Mapping, AbstractSet)):
        raise TypeError(
            f"a value is a number, a text or a list, not a {type(value).__name__}: "
            f"{value!r:.80}"
        )
    plain = value.tolist() if hasattr(value, "tolist") else value  # of numpy
    if isinstance(plain, (bool, list)):
        value = plain
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return ",".join(map(as_text, value))
    return str(value)


class Config(Handle, MutableMapping[str, Value]):
    """A value for each known key, the default until something sets it.

        config = Config("train.yaml", group_size=8)
        config["learning_rate"] = 1e-5

    Deleting a key, or setting it to None, brings the default back, as if nothing had set
    it. Secrets come from the environment, and are neither read nor iterated here.
    """

    _free = "sr1_config_free"

    def __init__(
        self, source: Union[PathLike, Mapping[str, Any], None] = None, **keys: Any
    ) -> None:
        """source: a YAML or JSON file, or a mapping. The config.json of a run names the
        model that its training began with; load_run names the one that came of it."""
        super().__init__(make(lib.sr1_config_new))
        if isinstance(source, Mapping):
            self.update(source)
        elif source is not None:
            self.load(source)
        self.update(keys)

    def load(self, path: PathLike) -> None:
        """Set the keys given in a YAML or JSON file: all of them or none. A relative path
        in it is one from the file's own folder, but for out."""
        lib.sr1_config_load(self, path_bytes(path))

    def load_run(self, folder: PathLike) -> None:
        """Set the keys of a run, to use what it trained: its model, or that of its newest
        checkpoint; the folder of a checkpoint means that one's. use_openai is False then:
        the model itself answers, also of a run whose rollouts a server generated."""
        lib.sr1_config_load_run(self, path_bytes(folder))

    def __getitem__(self, key: str) -> Value:
        key = ALIASES.get(key, key)
        name = terminated(key)
        kind = KEYS[key].type if key in KEYS else "string"
        if kind == "secret":
            raise KeyError(f"{key} is only read from {KEYS[key].environment}")
        try:
            if kind == "int":
                whole = c_int64()
                lib.sr1_config_get_int(self, name, byref(whole))
                return whole.value
            if kind == "real":
                real = c_double()
                lib.sr1_config_get_real(self, name, byref(real))
                return real.value
            if kind == "bool":
                flag = c_int32()
                lib.sr1_config_get_bool(self, name, byref(flag))
                return bool(flag.value)
            text = c_char_p()
            lib.sr1_config_get_str(self, name, byref(text))
        except ConfigError as error:
            raise KeyError(str(error)) from None
        value = decode(text.value)
        if kind == "list":
            return [item.strip(" ") for item in value.split(",")] if value else []
        return value

    def get(self, key: str, default: Any = None) -> Any:
        """The value of a key, default for a secret or a name that is none. A name of
        another program is a KeyError, which tells what it is here: a default would pass
        for its value."""
        return self[key] if key in ELSEWHERE else super().get(key, default)

    def __setitem__(self, key: str, value: Any) -> None:
        if value is None:
            lib.sr1_config_unset(self, terminated(key))
        else:
            lib.sr1_config_set(self, terminated(key), terminated(as_text(value)))

    def __delitem__(self, key: str) -> None:
        if ALIASES.get(key, key) not in KEYS:
            raise KeyError(key)
        self[ALIASES.get(key, key)] = None

    def __iter__(self) -> Iterator[str]:
        return (key.name for key in KEYS.values() if key.type != "secret")

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __repr__(self) -> str:
        return f"Config({ {key: self[key] for key in self if self.is_set(key)} })"

    def set(self, pair: str) -> None:
        """Set from "key=value", as on a command line."""
        lib.sr1_config_set_pair(self, terminated(pair))

    def is_set(self, key: str) -> bool:
        """Whether something set the key."""
        out = c_int32()
        lib.sr1_config_is_set(self, terminated(key), byref(out))
        return bool(out.value)

    def validate(self) -> None:
        """Check the rules between keys; ConfigError names the keys and the remedy."""
        lib.sr1_config_validate(self)

    def copy(self) -> Config:
        """An independent copy."""
        return Config._copy_of(self)

    __copy__ = copy

    def __deepcopy__(self, memo: Any) -> Config:
        return self.copy()

    def __reduce__(self) -> Any:
        """Pickled as the keys that are set."""
        return Config, ({key: self[key] for key in self if self.is_set(key)},)

    @classmethod
    def _copy_of(cls, config: Any) -> Config:
        return cls._of(make(lib.sr1_config_copy, config))

    @classmethod
    def _of(cls, pointer: int) -> Config:
        other = cls.__new__(cls)
        Handle.__init__(other, pointer)
        return other

    def to_json(self) -> str:
        """All values but secrets as a JSON object that load reads back."""
        out = c_void_p()
        lib.sr1_config_to_json(self, byref(out))
        return take(out)


def as_config(source: Union[Config, PathLike, Mapping[str, Any]]) -> Config:
    """A Config itself, or one made from a file or a mapping."""
    return source if isinstance(source, Config) else Config(source)


def key_help(name: Optional[str] = None) -> str:
    """A line of help for a key, or for all of them."""
    keys = KEYS.values() if name is None else [KEYS[name]]
    return "\n".join(
        f"{k.name} ({k.type}, {k.default or 'empty'}): {k.help}" for k in keys
    )
