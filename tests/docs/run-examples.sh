#!/bin/sh
# run-examples.sh FOLDER SR1-DATA LIBRARY - the numbered examples in FOLDER, and the Python
# example of README.md, do what they say, on a world and a model made here.
set -u
# absolute FILE
absolute() {
    case $1 in
    /*) echo "$1" ;;
    *) echo "$PWD/$1" ;;
    esac
}
programs=$(absolute "$1")
data=$(absolute "$2")
library=$(absolute "$3")
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
"$programs/01_search" "$work/none" 2>&1 | grep -qF "none/corpus.jsonl: No such file" ||
    { failed=1; echo "FAILED: 01_search does not say why it cannot write"; }
try "  2.50  " 02_rewards
try "and back: café <|im_end|>" 03_tokenizer "$work/world/tokenizer"
try "ended by" 04_generate "$work/config.yaml" "Where was the writer born?"
try " of 4 trajectories trained" 05_train_step "$work/config.yaml" \
    "Where was the writer born?" Bakdel
try "2 + 40: 42" 06_custom_engine
try "Error: no such tower is known" 07_tools
try "sample 3: the judge gives 0." 08_model_reward "$work/config.yaml" "$work/model" \
    "Where was the writer born?" Bakdel
try "step 1: critic/advantages/max" 10_own_estimator_and_loss "$work/config.yaml" \
    "Where was the writer born?" Bakdel
try "wrong, 1 of 2 tests pass" 09_run_code sandbox_isolation=none

# In a folder with the train.yaml that it names.
awk '/^```python$/ { on = 1; next } /^```$/ { on = 0 } on' README.md >"$work/readme.py"
{
    cat "$work/config.yaml"
    echo "train_file: $work/world/train.jsonl"
    echo "max_steps: 2"
} >"$work/train.yaml"
cat >"$work/readme" <<END
#!/bin/sh
cd "$work" && PYTHONPATH="$SR1_SRC/bindings/python" PYTHONDONTWRITEBYTECODE=1 \\
    SR1_LIBRARY="$library" exec /usr/bin/python3 readme.py
END
chmod +x "$work/readme"
programs=$work
try "2 0." readme
exit $failed
