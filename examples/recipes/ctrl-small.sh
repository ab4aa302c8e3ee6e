# CTRL on tiny programs with planted bugs: a critic that learns to look at every part
fixed="environment=none search_engine=mock validate_interval=0 stop_at_exact_match=0"
data world programs
model start examples/recipes/model-programs.json

# One model learns to criticise with care and to revise as it is told. As it is then, it is the
# proxy. The critic begins with it and careless demonstrations, that mostly stop at the first
# part of a program.
train proxy quickstart/sft.yaml start "sft_file=$world/sft.jsonl" $fixed \
    learning_rate=3e-3 lr_schedule=linear lr_decay_start=0.7 lr_final_ratio=0.05 \
    "max_steps=$(full_or_brief 3000 40)"
train careless quickstart/mix.yaml proxy "sft_file=$world/careless.jsonl" $fixed \
    "max_steps=$(full_or_brief 100 10)"

texts="critique_template=$world/critique.txt solve_template=$world/solve.txt"
proxy="proxy_model=$out/proxy/model $texts"
train ctrl recipes/ctrl-small.yaml careless $proxy "max_steps=$(full_or_brief 20 2)" \
    "code_problems=$world/train.jsonl,$world/validation.jsonl"

# Problems that pass before and after revision by the critique of a run's policy.
revised() {
    sr1-eval --task ctrl "$out/$1/model" "$world/test.jsonl" --json $proxy \
        prompt_template=none max_tokens=80 proxy_max_tokens=64 execution_time_limit=5 \
        device=cpu >"$out/tests/.revised" &&
        /usr/bin/python3 tools/common/ctrl_figures.py "$out/tests/.revised"
}
for run in proxy careless ctrl; do
    figures $run revised $run
done
columns before after gained lost judged_right f1
shows ctrl
curve avg_reward val/reward response_length/mean kl
promises 'room("careless", "ctrl", "after") >= 0.5'
promises 'test("ctrl", "after") >= 0.8'
