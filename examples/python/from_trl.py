"""A GRPO script of TRL, ported (docs/guides.md): from_trl.py MODEL_FOLDER OUT"""
import sys

import searchr1
from searchr1.adapters import of_trl

folder, out = sys.argv[1:] if len(sys.argv) == 3 else sys.exit(__doc__)
data = [{"prompt": [{"role": "user", "content": f"Where is tower {i}?"}], "city": "Paris"}
        for i in range(8)]


def names_city(completions, city, **kwargs):  # as it stands in the script of TRL
    return [float(c in m[0]["content"]) for m, c in zip(completions, city)]


config = dict(compat="trl", protocol="chat", environment="none", answers_optional=True,
              model_name_or_path=folder, out=out + "/run",
              max_tokens=24, group_size=8, batch_size=2, max_steps=4, learning_rate=3e-3)
with searchr1.Trainer(config, train=data,
                      rewards={"names_city": of_trl(names_city)}) as trainer:
    trainer.run(step=lambda r, _: print(f"step {r.step}: reward {r.avg_reward:.3f}"))
