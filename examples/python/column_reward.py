"""A reward that reads a column of the training rows: column_reward.py MODEL_FOLDER OUT

Each row has a column "short_names" beside question and gold answers. The library does not
know it: the row comes with every trajectory as Trajectory.row, a dict."""

import sys

import searchr1

folder, out = sys.argv[1:] if len(sys.argv) == 3 else sys.exit(__doc__)
rows = [{"question": f"Where is tower {i}?", "golden_answers": ["the city of Paris"],
         "short_names": ["Paris", "Lutetia"]} for i in range(8)]


def short(trajectories):
    return [float(t.final_answer in t.row["short_names"]) for t in trajectories]


config = dict(model_name_or_path=folder, out=out + "/run", device="cpu",
              prompt_template="none", environment="none", max_tokens=24,
              batch_size=2, group_size=8, max_steps=4, learning_rate=3e-3)
with searchr1.Trainer(config, train=rows, rewards={"short": short}) as trainer:
    trainer.run(step=lambda r, _: print(f"step {r.step}: reward {r.avg_reward:.3f}"))
