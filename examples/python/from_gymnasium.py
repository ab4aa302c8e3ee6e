"""An environment of Gymnasium (docs/guides.md): from_gymnasium.py MODEL_FOLDER OUT"""
import sys
from pathlib import Path

import searchr1

folder, out = map(Path, sys.argv[1:] if len(sys.argv) == 3 else sys.exit(__doc__))
out.mkdir(parents=True, exist_ok=True)
with open(out / "move.yaml", "x") as file:  # the tags of an action and of what is seen
    file.write("action: [<move>, </move>]\nresult: [<seen>, </seen>]\n"
               "notice: Write one move between <move> and </move>.\n")
lake = searchr1.adapters.Gymnasium("FrozenLake-v1", names=["left", "down", "right", "up"],
                                   desc=["SFF", "FHF", "FFG"], is_slippery=False)
rows = lake.rows(8, prompt="You stand on field {observation} of a lake of 3 x 3. Move.")
config = dict(protocol_file=out / "move.yaml", answers_optional=True, device="cpu",
              model_name_or_path=folder, out=out / "run", max_turns=6, max_tokens=96,
              group_size=8, batch_size=4, max_steps=8, learning_rate=2e-2, update_times=1)
with searchr1.Trainer(config, train=rows, env=lake, rewards="environment") as trainer:
    trainer.run(step=lambda r, _: print(f"step {r.step}: reward {r.avg_reward:.3f}"))
