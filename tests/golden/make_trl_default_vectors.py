#!/usr/bin/env python3
"""Write trl_defaults.json: what the fields of TRL's GRPOConfig begin with, and those
fields of transformers' TrainingArguments that decide what is learned.

    make_trl_default_vectors.py > trl_defaults.json    (peer_sources.py: what it needs)
    pip install --no-deps transformers==5.23.0
"""
import ast
import importlib.metadata
import json

from peer_sources import TRL, source

LEARNING = ["adam_beta1", "adam_beta2", "adam_epsilon", "gradient_accumulation_steps",
            "lr_scheduler_type", "max_grad_norm", "num_train_epochs",
            "per_device_train_batch_size", "warmup_steps", "weight_decay"]


def defaults(package, path, name, wanted=None):
    """Of the fields of a dataclass that it declares itself; wanted None: of all."""
    made = next(n for n in ast.walk(source(package, path))
                if isinstance(n, ast.ClassDef) and n.name == name)
    return {n.target.id: ast.literal_eval(next(k.value for k in n.value.keywords
                                               if k.arg == "default"))
            for n in made.body if isinstance(n, ast.AnnAssign)
            and (wanted is None or n.target.id in wanted)}


def main():
    transformers = f"transformers {importlib.metadata.version('transformers')}"
    print(json.dumps({
        "by": [TRL, transformers],
        "GRPOConfig": defaults("trl", "trainer/grpo_config.py", "GRPOConfig"),
        "TrainingArguments": defaults("transformers", "training_args.py",
                                      "TrainingArguments", LEARNING),
    }, indent=1))


if __name__ == "__main__":
    main()
