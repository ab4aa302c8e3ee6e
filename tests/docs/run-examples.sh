#!/bin/sh
# run-examples.sh FOLDER SR1-DATA - the numbered examples do what they say, on a world and a
# model made here.
set -u
programs=$1
data=$2
cd "${SR1_SRC:?}" || exit 2
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
failed=0

# try TEXT PROGRAM ARGUMENT...: it ends well and TEXT is in what it prints.
try() {
    text=$1 program=$2
    shift 2
    if "$programs/$program" "$@" >"$work/log" 2>&1 && grep -qF "$text" "$work/log"; then
        echo "ok: $program"
        return
    fi
    failed=1
    echo "FAILED: $program: no '$text' in"
    cat "$work/log"
}

{
    "$data" world "$work/world" --scale 0.05 &&
        "$data" model examples/quickstart/model.json "$work/model" \
            --tokenizer "$work/world/tokenizer"
} >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
cat >"$work/config.yaml" <<END
model_name_or_path: $work/model
search_engine: bm25
search_index: $work/world/corpus.bm25
prompt_template: none
device: cpu
max_tokens: 48
END

try "  3  Louvre" 01_search "$work"
try "No information found for: volcanoes" 01_search "$work"
try "  2.50  " 02_rewards
try "and back: café <|im_end|>" 03_tokenizer "$work/world/tokenizer"
try "ended by" 04_generate "$work/config.yaml" "Where was the writer born?"
try " of 4 trajectories trained" 05_train_step "$work/config.yaml" \
    "Where was the writer born?" Bakdel
try "2 + 40: 42" 06_custom_engine
exit $failed
