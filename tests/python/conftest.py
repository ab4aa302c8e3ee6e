"""What several tests need: a small model, a corpus, rolled-out trajectories."""

import os
import signal
from pathlib import Path

import pytest

import searchr1

import tiny

# A shell that starts the tests in the background has them ignore Ctrl-C.
signal.signal(signal.SIGINT, signal.default_int_handler)

SOURCE = Path(os.environ.get("SR1_SRC", Path(__file__).resolve().parents[2]))


@pytest.fixture(scope="session")
def source():
    """The root of the sources."""
    return SOURCE


@pytest.fixture(scope="session")
def corpus():
    return SOURCE / "tests" / "fixtures" / "search" / "corpus.jsonl"


@pytest.fixture(scope="session")
def model_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    tiny.make(folder)
    return folder


@pytest.fixture(scope="session")
def tokenizer(model_folder):
    return searchr1.Tokenizer(model_folder)


@pytest.fixture()
def rollout(model_folder):
    with searchr1.Rollout(tiny.config(model_folder), search=tiny.engine) as rollout:
        yield rollout


@pytest.fixture(scope="session")
def trajectories(model_folder):
    """Four samples of each of two questions."""
    with searchr1.Rollout(tiny.config(model_folder), search=tiny.engine) as rollout:
        return rollout.generate(
            [
                searchr1.Query("Where is it?", ["Paris"], id="a", data_source="towers"),
                searchr1.Query("Wo ist es? \u00e9", ["Paris", "Lutetia"]),
            ],
            group_size=4,
            seed=5,
        )
