"""GRPO with a search engine and a reward of your own: train_in_30_lines.py FOLDER"""
import json
import sys
from pathlib import Path

import searchr1

out = Path(sys.argv[1] if len(sys.argv) == 2 else sys.exit(__doc__))
world = out / "world"  # questions that only searching answers, and a tokenizer for them
searchr1.world.write(world, scale=0.05, sft_worlds=4, stage_steps=[40, 40, 80, 0, 0])
corpus = (world / "corpus.jsonl").read_text().splitlines()
passages = [json.loads(line)["contents"] for line in corpus]


def search(queries, top_k):  # the passages that share most words with the query
    shared = [lambda p, w=set(q.split()): -len(w & set(p.split())) for q in queries]
    return [sorted(passages, key=key)[:top_k] for key in shared]


def searched(trajectories):  # worth something, besides a right answer
    return [float(any(search.hits for search in t.searches)) for t in trajectories]


shape = json.loads((Path(__file__).parents[1] / "quickstart/model.json").read_text())
small = dict(shape, hidden_size=64, intermediate_size=128, num_hidden_layers=2)
searchr1.Model.random(small, init="fan_in", device="cpu").save(out / "start")
searchr1.Tokenizer(world / "tokenizer").save(out / "start")

common = dict(device="cpu", prompt_template="none", max_tokens=64,
              document_format="plain")
sft = dict(common, stage="sft", sft_file=world / "sft.jsonl", shuffle=False,
           batch_size=16, learning_rate=4e-3, out=out / "sft",
           model_name_or_path=out / "start")
searchr1.Trainer(sft, search).run()
grpo = dict(common, train_file=world / "train.jsonl", batch_size=4, group_size=4,
            max_steps=5, learning_rate=5e-4, model_name_or_path=out / "sft" / "model",
            out=out / "grpo")
with searchr1.Trainer(grpo, search, {"answer": 1, "searched": (searched, 0.5)}) as trainer:
    trainer.run(step=lambda r, _: print(f"step {r.step}: reward {r.avg_reward:.2f}"))
    print(trainer.rollout.evaluate(searchr1.Dataset(world / "test.jsonl"), 20).total)
