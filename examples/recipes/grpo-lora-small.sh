# GRPO by a LoRA adapter, of 19 % as many numbers as there are weights, on the same world
. examples/recipes/search-start.inc
train grpo-lora recipes/grpo-small.yaml mixed "max_steps=$(full_or_brief 20 3)" \
    lora_rank=16 lora_alpha=32 learning_rate=5e-3
evaluate before mixed
evaluate grpo-lora grpo-lora
shows grpo-lora
curve val/exact_match avg_reward val/searches kl
promises 'test("grpo-lora", "exact_match") >= 0.9'
promises 'room("before", "grpo-lora", "exact_match") >= 0.8'
