# RLVCR on a small text world: as many successes as GRPO, with less thought
rooms="protocol=rlvcr environment=rooms search_engine=none max_turns=8 max_tokens=400"
steps=$(full_or_brief 24 3)
data rooms rooms --small --tests "$(full_or_brief 1000 50)"
model start examples/recipes/model-rooms.json

# The expert's demonstrations, in which half of the steps think at any level.
train warm quickstart/sft.yaml start "sft_file=$world/sft.jsonl" $rooms \
    sft_epochs=10 "max_steps=$(full_or_brief 500 60)" lr_schedule=linear \
    lr_final_ratio=0.1 validate_interval=0 save_interval=100

train grpo recipes/rlvcr-small.yaml warm "max_steps=$steps" advantage=grpo
train rlvcr recipes/rlvcr-small.yaml warm "max_steps=$steps"
# How much it thinks is drawn with everything else: the likeliest level of a step says less.
for run in warm grpo rlvcr; do
    evaluate $run $run --sample
    evaluate $run-greedy $run
done
shows grpo rlvcr
curve val/success val/thinking env/success_rate thinking/tokens thinking/level_1
columns success thinking tokens searches
promises 'test("rlvcr", "thinking") <= 0.75 * test("grpo", "thinking")'
promises 'test("rlvcr", "success") >= test("grpo", "success") - 0.03'
