# short_run.sh - a run of 40 short steps, which tests start in several ways and places: the
# result is the same to the bit. To be sourced, with the tools in PATH.

# make_recipe MODEL_JSON - recipe.yaml here, and what it names.
make_recipe() {
    sr1-data world world --scale 0.05 >/dev/null 2>&1 &&
        sr1-data model "$1" start --tokenizer world/tokenizer >/dev/null &&
        cat >recipe.yaml <<END
stage: rl
device: cpu
workers: 1
threads: 1
prompt_template: none
model_name_or_path: start
train_file: world/train.jsonl
search_engine: bm25
search_index: world/corpus.bm25
batch_size: 4
group_size: 4
max_steps: 40
max_tokens: 24
overlong_buffer: 23
kl_reference: frozen
learning_rate: 1e-3
save_interval: 4
distributed_timeout: 60
END
}

# wait_for_steps RUN N
wait_for_steps() {
    for _ in $(seq 24000); do
        [ -e "$1/metrics.jsonl" ] && [ "$(wc -l <"$1/metrics.jsonl")" -ge "$2" ] && return
        sleep 0.02
    done
    return 1
}
