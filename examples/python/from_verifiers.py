"""An environment of the library verifiers (0.4), ported: from_verifiers.py MODEL_FOLDER OUT"""
import sys

import verifiers.v1 as vf

import searchr1

# ---- as it stands in the package of the environment ----


class TownData(vf.TaskData):
    answer: str


class Town(vf.Task[TownData, vf.State]):
    @vf.reward
    async def names_town(self, task: TownData, trace: vf.Trace) -> float:
        return float(task.answer in trace.last_reply)


class Towns(vf.Taskset[Town, vf.TasksetConfig]):
    def load(self):
        for i in range(8):
            yield Town(TownData(prompt=f"Where is tower {i}?", answer="Paris"))


# ---- the port ----
folder, out = sys.argv[1:] if len(sys.argv) == 3 else sys.exit(__doc__)
towns = searchr1.adapters.Verifiers(Towns(vf.TasksetConfig()))
config = dict(protocol="chat", environment="none", answers_optional=True,
              model_name_or_path=folder, out=out, device="cpu", max_tokens=8,
              batch_size=2, group_size=8, max_steps=10, learning_rate=2e-2, update_times=1)
with searchr1.Trainer(config, train=towns.rows(), rewards=towns.rewards()) as trainer:
    trainer.run(step=lambda r, _: print(f"step {r.step}: reward {r.avg_reward:.3f}"))
