# Search-R1's GRPO on the quick start's world: to search as often as it takes
. examples/recipes/search-start.inc
train grpo recipes/grpo-small.yaml mixed "max_steps=$(full_or_brief 20 3)"
evaluate before mixed
evaluate grpo grpo
shows grpo
curve val/exact_match avg_reward val/searches kl
promises 'test("grpo", "exact_match") >= 0.9'
promises 'room("before", "grpo", "exact_match") >= 0.8'
