"""A reward that a model gives: model_reward.py MODEL_FOLDER

The judge is a language model that stays as it is. A trajectory is worth how probable the
gold answer has become by what it found and thought: exp of the mean log-prob of the
answer's tokens after question and response, the response without its own answer."""

import sys

import numpy as np

import searchr1

folder = sys.argv[1] if len(sys.argv) == 2 else sys.exit(__doc__)


class Judge:
    def __init__(self, folder, most_tokens=512):
        self.model = searchr1.Model(folder, device="cpu", dtype="fp32")
        self.tokenizer = searchr1.Tokenizer(folder)
        self.most = most_tokens

    def worth(self, trajectory):
        response = trajectory.generated_text.split("<answer>")[0]
        before = self.tokenizer.encode(f"{trajectory.query}\n{response}\n=")
        gold = self.tokenizer.encode(trajectory.ground_truths[0])
        ids = np.array([*before, *gold][-self.most :], dtype=np.int32)
        logits = self.model.logits(ids)[-len(gold) - 1 : -1].astype(np.float64)
        logits -= logits.max(axis=1, keepdims=True)
        log_probs = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
        return float(np.exp(log_probs[np.arange(len(gold)), gold].mean()))

    def __call__(self, trajectories):
        return [self.worth(t) for t in trajectories]


config = dict(model_name_or_path=folder, device="cpu", prompt_template="none",
              environment="none", search_engine="none", max_tokens=24)
with searchr1.Trainer(config, rewards={"judge": (Judge(folder), 1.0)}) as trainer:
    query = searchr1.Query("Where is the tower?", ["Paris"])
    report, group = trainer.train_step([query], group_size=4)
    for t in group:
        given = {part.name: part.value for part in t.reward_parts}["judge"]
        print(f"sample {t.sample}: the judge gives {given:.3g}")
    print(f"step {report.step}: reward {report.avg_reward:.3f}")
