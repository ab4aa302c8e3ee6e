# Search-R1's PPO on the quick start's world: to search as often as it takes
. examples/recipes/search-start.inc
train ppo recipes/ppo-small.yaml mixed "max_steps=$(full_or_brief 12 3)"
evaluate before mixed
evaluate ppo ppo
shows ppo
curve val/exact_match avg_reward val/searches critic/kl critic/vf_explained_var
promises 'test("ppo", "exact_match") >= 0.9'
promises 'room("before", "ppo", "exact_match") >= 0.8'
