"""Search-R1's train_grpo.sh, ported (docs/guides.md): from_search_r1.py MODEL_FOLDER OUT"""
import sys

import searchr1

folder, out = sys.argv[1:] if len(sys.argv) == 3 else sys.exit(__doc__)
# as its Parquet has them: train= takes the name of that too
rows = [{"data_source": "nq", "prompt": [{"role": "user", "content": f"Where is tower {i}?"}],
         "reward_model": {"style": "rule", "ground_truth": {"target": ["Paris"]}},
         "extra_info": {"split": "train", "index": i}} for i in range(8)]
published = dict(  # the line of overrides, in its order
    compat="search-r1", max_prompt_tokens=2048, max_tokens_per_turn=500, max_tokens=1000,
    max_observation_tokens=500, batch_size=512, advantage="grpo",
    gradient_checkpointing=True, learning_rate=1e-6, warmup_ratio=0.285, kl_in="loss",
    mini_batch_size=256, beta=0.001, kl_kind="low_var_kl", kl_reference="frozen",
    loss="ppo", dual_clip=0, update_times=1, group_size=5, temperature=1,
    validate_at_start=True, save_interval=100, validate_interval=50, max_steps=1005,
    max_turns=2, search_engine="remote", search_top_k=3)
small = dict(  # which a test can wait for
    model_name_or_path=folder, out=out, batch_size=4, mini_batch_size=0, max_steps=3,
    learning_rate=3e-3, max_tokens_per_turn=12, max_tokens=24)
engine = searchr1.Mock({"tower": "The tower stands in Paris."})  # its retrieval server
with searchr1.Server(engine) as server:
    config = {**published, **small, "search_url": server.url + "/retrieve"}
    with searchr1.Trainer(config, train=rows, validation=rows) as trainer:
        trainer.run(step=lambda r, _: print(f"step {r.step}: reward {r.avg_reward:.3f}"))
