# MT-GRPO on a two-turn tool task: what turn rewards give beside the outcome's
tools="protocol=mt-grpo environment=tools max_env_steps=1 max_turns=2"
steps=$(full_or_brief 16 3)
data world world --protocol mt-grpo --hops 1 \
    --stages "$(full_or_brief 350,800,150,1200,180 120,80,160,0,40)"
model start examples/recipes/model-tools.json
train clean quickstart/sft.yaml start "sft_file=$world/sft.jsonl" $tools

# Tool use is not learnt yet: of the demonstrations, those that guess, half of them after a call
# that is no JSON, and one in four of those with a good call.
own rare-file to_file "$world/rare.jsonl" \
    awk '/ Guess\. / || ++n % 4 == 0' "$world/mix.jsonl"
train rare quickstart/mix.yaml clean "sft_file=$world/rare.jsonl" shuffle=true $tools

train mt-grpo recipes/mt-grpo-small.yaml rare "max_steps=$steps"
train outcome recipes/mt-grpo-small.yaml rare "max_steps=$steps" advantage=mt_grpo_outcome
train merged recipes/mt-grpo-small.yaml rare "max_steps=$steps" advantage=mt_grpo_merged
for run in rare mt-grpo outcome merged; do
    evaluate $run $run
done
shows mt-grpo outcome merged
curve val/exact_match avg_reward env/number_of_searches
promises 'area("mt-grpo", "val/exact_match") > area("outcome", "val/exact_match")'
promises 'test("mt-grpo", "exact_match") >= 0.5'
