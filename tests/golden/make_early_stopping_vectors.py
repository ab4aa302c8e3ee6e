#!/usr/bin/env python3
"""Write early_stopping.jsonl: figures of validations, and after each of them what
transformers' Trainer holds for the best one, the counter of its EarlyStoppingCallback, and
whether that ends the training.

    pip install transformers==5.24.0
    make_early_stopping_vectors.py > early_stopping.jsonl

The Trainer's own method is cut out of its source: the class needs torch.
"""
import ast
import json
import pathlib
import random
import types

import numpy
import transformers
from transformers.trainer_callback import EarlyStoppingCallback, TrainerControl, TrainerState
from transformers.trainer_utils import SaveStrategy

BY = f"transformers {transformers.__version__}"


def method(name):
    path = pathlib.Path(transformers.__file__).with_name("trainer.py")
    found = next(n for n in ast.walk(ast.parse(path.read_text()))
                 if isinstance(n, ast.FunctionDef) and n.name == name)
    for a in found.args.args:
        a.annotation = None
    scope = {"np": numpy, "SaveStrategy": SaveStrategy}
    exec(compile(ast.Module([found], []), str(path), "exec"), scope)
    return scope[name]


DETERMINE = method("_determine_best_metric")


def follow(figures, greater, patience, threshold):
    """[best step, its figure, counter, ends] after each figure."""
    args = types.SimpleNamespace(metric_for_best_model="eval_x", greater_is_better=greater,
                                 save_strategy=SaveStrategy.BEST)
    state, control = TrainerState(), TrainerControl()
    trainer = types.SimpleNamespace(args=args, state=state)
    callback = EarlyStoppingCallback(patience, threshold)
    after = []
    for step, figure in enumerate(figures, 1):
        state.global_step = step
        callback.on_evaluate(args, state, control, {"eval_x": figure})
        DETERMINE(trainer, {"eval_x": figure}, None)
        after.append([state.best_global_step, state.best_metric,
                      callback.early_stopping_patience_counter, control.should_training_stop])
    return after


def main():
    rng = random.Random(43)
    for _ in range(60):
        figures = [round(rng.uniform(-1, 1) if rng.random() < 0.5 else 0.1 * k + rng.gauss(0, 0.1),
                         rng.choice([1, 2, 3])) for k in range(rng.randint(1, 14))]
        greater, patience = rng.random() < 0.6, rng.randint(1, 4)
        threshold = rng.choice([0.0, 0.0, 0.05, 0.15, 0.5])
        print(json.dumps({"by": BY, "figures": figures, "greater_is_better": greater,
                          "early_stopping_patience": patience,
                          "early_stopping_threshold": threshold,
                          "after": follow(figures, greater, patience, threshold)}))


if __name__ == "__main__":
    main()
