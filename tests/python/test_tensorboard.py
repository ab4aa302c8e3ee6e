"""TensorBoard's files of a run, read by a reader of our own: each step is there once."""

import json
import shutil
import struct

import pytest

from searchr1 import Trainer

import tiny


def crc32c(data):
    table = []
    for i in range(256):
        for _ in range(8):
            i = (i >> 1) ^ (0x82F63B78 if i & 1 else 0)
        table.append(i)
    crc = 0xFFFFFFFF
    for byte in data:
        crc = (crc >> 8) ^ table[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


def masked(data):
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def records(data):
    """TFRecord: length, masked check of it, bytes, masked check of them."""
    while data:
        (n,) = struct.unpack_from("<Q", data)
        assert struct.unpack_from("<I", data, 8)[0] == masked(data[:8])
        body = data[12 : 12 + n]
        assert struct.unpack_from("<I", data, 12 + n)[0] == masked(body)
        yield body
        data = data[16 + n :]


def varint(data, at):
    value = shift = 0
    while True:
        value |= (data[at] & 0x7F) << shift
        shift += 7
        at += 1
        if not data[at - 1] & 0x80:
            return value, at


def fields(data):
    """(number, value) of a message in protocol buffers' form."""
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        wire = key & 7
        if wire == 0:
            value, at = varint(data, at)
        else:
            n, at = {1: (8, at), 5: (4, at)}.get(wire) or varint(data, at)
            value, at = data[at : at + n], at + n
        yield key >> 3, value


def read(folder):
    """{tag: {step: number}}, as a reader sees it that takes the files by their names."""
    seen = {}
    for path in sorted(folder.iterdir()):
        assert path.name.startswith("events.out.tfevents.")
        events = [dict(fields(r)) for r in records(path.read_bytes())]
        assert events[0][3] == b"brain.Event:2"
        for event in events[1:]:
            step = event[2]
            if 7 in event:  # SessionLog, status START: what follows is told anew
                assert dict(fields(event[7])) == {1: 1}
                for points in seen.values():
                    for old in [s for s in points if s >= step]:
                        del points[old]
            for number, value in fields(event.get(5, b"")):
                assert number == 1
                value = dict(fields(value))
                points = seen.setdefault(value[1].decode(), {})
                assert step not in points
                points[step] = struct.unpack("<f", value[2])[0]
    return seen


def rows(folder):
    return [json.loads(line) for line in (folder / "metrics.jsonl").open()]


def as_metrics(folder):
    """The same from metrics.jsonl; an event has a time of its own."""
    out = {}
    for row in rows(folder):
        for name, value in row.items():
            if name not in ("step", "perf/timestamp") and value is not None:
                out.setdefault(name, {})[row["step"]] = pytest.approx(value, rel=1e-6)
    return out


@pytest.fixture()
def settings(model_folder, tmp_path):
    return tiny.config(
        model_folder,
        train_file=tiny.questions(tmp_path / "train.jsonl"),
        validation_file=tiny.questions(tmp_path / "validation.jsonl"),
        validate_interval=2,
        validate_at_start=True,
        out=tmp_path / "run",
        max_steps=4,
        save_interval=2,
        keep_checkpoints=0,
        tensorboard=True,
    )


def test_every_number_of_every_step_is_there(settings, tmp_path):
    with Trainer(settings, search=tiny.engine) as trainer:
        trainer.run()
    seen = read(tmp_path / "run" / "tensorboard")
    assert seen == as_metrics(tmp_path / "run")
    assert set(seen["val/exact_match"]) == {0, 2, 4}
    assert set(seen["loss"]) == {1, 2, 3, 4} and "step" not in seen


def test_a_resumed_run_tells_no_step_twice(settings, tmp_path):
    run = tmp_path / "run"
    with Trainer(settings, search=tiny.engine) as trainer:
        trainer.run()
    shutil.rmtree(run / "checkpoints" / "step-4")
    with Trainer.resume(run, search=tiny.engine) as trainer:
        trainer.run()
    assert len(list((run / "tensorboard").iterdir())) == 2
    seen = read(run / "tensorboard")
    assert [r["step"] for r in rows(run)] == [0, 1, 2, 3, 4]
    assert seen == as_metrics(run)


def test_without_the_key_there_is_nothing(settings, tmp_path):
    settings["tensorboard"] = False
    with Trainer(settings, search=tiny.engine) as trainer:
        trainer.run()
    assert not (tmp_path / "run" / "tensorboard").exists()
