"""Configurations: values by type, files, refusals."""

import ctypes
import json

import pytest

from searchr1 import KEYS, Config, errors


def test_defaults_have_their_types():
    config = Config()
    kinds = {"bool": bool, "int": int, "real": float, "list": list}
    for name, value in config.items():
        assert type(value) is kinds.get(KEYS[name].type, str), name
    assert config["group_size"] == 2 and config["rewards"] == ["format", "answer"]


def test_set_in_every_way(tmp_path):
    path = tmp_path / "c.yaml"
    path.write_text("group_size: 8\nlearning_rate: 1e-4\n")
    config = Config(path, shuffle=False, rewards=["exact_match", "f1"])
    config.set("beta=0.5")
    config.update(out=tmp_path)
    assert config["group_size"] == 8 and config["learning_rate"] == 1e-4
    assert config["shuffle"] is False and config["rewards"] == ["exact_match", "f1"]
    assert config["beta"] == 0.5 and config["out"] == str(tmp_path)
    assert config.is_set("beta") and not config.is_set("seed")
    config["group_size"] = None
    del config["beta"]
    assert config["group_size"] == 2 and config["beta"] == 0.1


def test_copy_and_json(tmp_path):
    config = Config({"group_size": 6})
    other = config.copy()
    other["group_size"] = 7
    assert config["group_size"] == 6
    path = tmp_path / "c.json"
    path.write_text(config.to_json())
    assert dict(Config(path)) == dict(config)
    assert "openai_api_key" not in json.loads(config.to_json())


def test_mapping():
    config = Config()
    assert "beta" in config and "bata" not in config and config.get("bata", 3) == 3
    assert len(config) == len(list(config)) == len(KEYS) - 1  # one secret
    assert "group_size': 4" in repr(Config(group_size=4))


@pytest.mark.parametrize(
    "key, value, text",
    [
        ("group_sise", 3, "group_size"),
        ("group_size", 1, "group_size"),
        ("group_size", "many", "group_size"),
        ("device", "tpu", "auto"),
    ],
)
def test_refused(key, value, text):
    with pytest.raises(errors.ConfigError, match=text) as caught:
        Config({key: value})
    assert isinstance(caught.value, ValueError) and caught.value.status == -5


def test_refused_otherwise(tmp_path):
    config = Config()
    with pytest.raises(errors.FileError, match="missing.yaml"):
        config.load(tmp_path / "missing.yaml")
    with pytest.raises(ValueError, match="NUL"):
        config["name"] = "a\0b"
    config.close()
    with pytest.raises(ctypes.ArgumentError, match="this Config is closed"):
        config["name"]
    config.close()


def test_keys_have_help():
    assert all(key.help for key in KEYS.values())
    assert KEYS["device"].choices == ("auto", "cpu", "cuda")
    assert KEYS["group_size"].min == 2
