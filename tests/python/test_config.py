"""Configurations: values by type, files, refusals."""

import copy
import json
import pickle

import pytest

from searchr1 import ELSEWHERE, KEYS, PRESETS, Config, errors


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


def test_values_of_numpy():
    numpy = pytest.importorskip("numpy")
    config = Config(shuffle=numpy.bool_(False), learning_rate=numpy.float32(1e-5))
    assert config["shuffle"] is False and config["learning_rate"] == 1e-5
    config["rewards"] = numpy.array(["exact_match", "f1"])
    assert config["rewards"] == ["exact_match", "f1"]


@pytest.mark.parametrize("value", [{"answer"}, {"answer": 1.0}, frozenset(["answer"])])
def test_what_has_no_order_is_refused(value):
    with pytest.raises(TypeError, match="a number, a text or a list, not a .*'answer'"):
        Config(rewards=value)


@pytest.mark.parametrize(
    "again", [copy.copy, copy.deepcopy, lambda config: pickle.loads(pickle.dumps(config))]
)
def test_copies_of_any_kind_are_independent(again):
    config = Config(seed=3, rewards=["f1", "format"])
    other = again(config)
    other["seed"] = 7
    assert config["seed"] == 3 and other["rewards"] == ["f1", "format"]
    assert not other.is_set("beta")
    other.close()
    assert config["seed"] == 3


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
    with pytest.raises(ValueError, match="this Config is closed"):
        config["name"]
    config.close()


def test_keys_have_help():
    assert all(key.help for key in KEYS.values())
    assert KEYS["device"].choices == ("auto", "cpu", "cuda", "cuda:N")
    assert KEYS["group_size"].min == 2


def test_names_of_other_programs_are_answered():
    with pytest.raises(errors.ConfigError, match="other programs: use learning_rate"):
        Config(lr=1e-6)
    with pytest.raises(errors.ConfigError, match="a name of verl: use save_interval"):
        Config({"trainer.save_freq": 10})
    for read in (lambda: Config()["lr"], lambda: Config().get("lr", 1e-6)):
        with pytest.raises(KeyError, match="other programs: use learning_rate"):
            read()
    assert ELSEWHERE["bf16"].key == "dtype" and ELSEWHERE["bf16"].of == "TRL"
    assert ELSEWHERE["lora_r"].key == "lora_rank"
    assert not ELSEWHERE["use_dora"].key
    assert "plain LoRA" in ELSEWHERE["use_dora"].text
    assert sum(row.key in KEYS for row in ELSEWHERE.values()) >= 150


def test_presets_are_what_compat_sets():
    assert set(PRESETS) == {"search-r1", "trl", "verl"}
    for compat, preset in PRESETS.items():
        config = Config(compat=compat)
        for key, value in preset.items():
            assert config[key] == Config({key: value})[key]
    assert Config(compat="trl", group_size=3)["group_size"] == 3


def test_none_and_del_unset():
    config = Config(loss="dapo", beta=None, search_engine=None, group_size=4)
    assert not config.is_set("beta") and not config.is_set("search_engine")
    config["compat"] = "trl"
    del config["group_size"]
    assert config["group_size"] == 8 and not config.is_set("group_size")
    config["compat"] = None
    assert config["group_size"] == 2
    with pytest.raises(errors.ConfigError, match="group_size"):
        config["group_sise"] = None


def test_a_secret_is_no_member():
    config = Config()
    assert "openai_api_key" not in config
    assert config.get("openai_api_key", "none") == "none"
    with pytest.raises(KeyError, match="OPENAI_API_KEY"):
        config["openai_api_key"]


def test_items_of_lists_are_stripped():
    assert Config(rewards="format, answer")["rewards"] == ["format", "answer"]


def test_other_names_of_a_key():
    config = Config(num_generations=6)
    assert config["num_generations"] == config["group_size"] == 6
    assert config.get("num_generations") == 6 and "num_generations" in config
    assert "num_generations" not in list(config) and config.is_set("num_generations")
    del config["num_generations"]
    assert config["group_size"] == 2 and not config.is_set("group_size")
    config["num_generations"] = 4
    config["num_generations"] = None
    assert config["num_generations"] == 2
