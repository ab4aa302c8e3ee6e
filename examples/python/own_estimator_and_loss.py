"""An advantage estimator, a policy loss and a metric sink of your own:
own_estimator_and_loss.py MODEL_FOLDER OUT

Names that are registered are choices of the keys `advantage` and `loss`, as those built
in. A run that is resumed needs them again: register before Trainer.resume."""

import sys

import numpy as np

import searchr1


@searchr1.register_adv_est("leave_one_out")
def leave_one_out(batch, options):
    """A_i = s_i - mean of the others in the group"""
    advantages = np.zeros(batch.n)
    for key in np.unique(batch.groups):
        members = np.flatnonzero(batch.groups == key)
        rewards = batch.rewards[members]
        if len(members) > 1:
            others = (rewards.sum() - rewards) / (len(members) - 1)
            advantages[members] = rewards - others
    return advantages


@searchr1.register_policy_loss("clipped", options=["clip_low", "clip_high"],
                               zero_without_advantage=True)
def clipped(batch, options):
    """-min(r A, clip(r) A), and its derivative by the new log-prob"""
    ratio = np.exp(batch.new_log_probs.astype(float) - batch.old_log_probs)
    gain = ratio * batch.advantages
    bound = np.clip(ratio, 1 - options["clip_low"], 1 + options["clip_high"])
    held = bound * batch.advantages < gain
    values = np.where(held, -bound * batch.advantages, -gain)
    bounds = np.where(held, np.where(batch.advantages < 0, 1, 2), 0)
    return values, np.where(held, 0, -gain), bounds


class Tracker:
    """Stands for wandb's run, verl's Tracking or whatever has log(metrics, step=...)."""

    def log(self, metrics, step):
        print(f"step {step}: reward {metrics['reward']:.3f}, "
              f"clipped {metrics['actor/pg_clipfrac']:.3f}")


def brief(trajectories):
    return [1.0 / (1 + t.policy_count) for t in trajectories]


folder, out = sys.argv[1:] if len(sys.argv) == 3 else sys.exit(__doc__)
rows = [{"question": f"Is it tower {i}?", "golden_answers": ["Paris"]} for i in range(8)]
config = dict(model_name_or_path=folder, out=out + "/run", device="cpu",
              prompt_template="none", environment="none", max_tokens=24,
              batch_size=2, group_size=8, max_steps=4, learning_rate=3e-3,
              advantage="leave_one_out", loss="clipped", update_times=2)
with searchr1.Trainer(config, train=rows, rewards={"brief": brief}) as trainer:
    trainer.set_metric_sink(Tracker())
    trainer.run()
