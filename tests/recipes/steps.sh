#!/bin/sh
# steps.sh - tools/recipe itself, over tools that only pretend: steps are done once, go on
# after a failure, and promises are held. The figures are small enough to check by hand.
set -u
export LC_ALL=C.UTF-8
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/tools/common" "$work/examples/recipes" "$work/build/tools"
cp "${SR1_SRC:?}/tools/recipe" "$work/tools"
cp "$SR1_SRC/tools/common/recipe.py" "$work/tools/common"
cd "$work" || exit 2
export SR1_BUILD=build
failures=0

# ---- tools that pretend; each writes down how it was called ----

pretend() {
    { echo '#!/bin/sh'; echo "echo \"$1 \$*\" >>\"$work/calls\""; cat; } >"build/tools/$1"
    chmod +x "build/tools/$1"
}

pretend sr1-data <<'END'
case $1 in
world) mkdir -p "$2/tokenizer" && touch "$2/train.jsonl" "$2/corpus.bm25" ;;
model) mkdir -p "$3" ;;
esac
END
pretend sr1-train <<'END'
[ ! -f broken ] || { mkdir -p r/mine && touch r/mine/config.json; exit 1; }
[ "$1" = --resume ] && out=$2
for word; do case $word in out=*) out=${word#out=} ;; esac; done
mkdir -p "$out/checkpoints" "$out/model"
touch "$out/config.json"
printf '%s\n' '{"step": 0, "val/exact_match": 0}' '{"step": 1, "reward": 2.5}' \
    '{"step": 2, "val/exact_match": 0.5, "reward": 3}' \
    '{"step": 4, "val/exact_match": 1, "reward": 4}' >"$out/metrics.jsonl"
END
pretend sr1-eval <<'END'
echo '{"all": {"rows": 8, "exact_match": 0.75}}'
END
pretend sr1-report <<'END'
printf '%s\n' "$@" >words
END

touch examples/recipes/mine.yaml
cat >examples/recipes/mine.sh <<'END'
# A recipe that is only made up
steps=$(full_or_brief 4 1) tested=no curves=no
data world world --hops 1
model start some.json
train mine recipes/mine.yaml start "max_steps=$steps"
for run in mine; do
    evaluate $run $run
done
shows mine
curve val/exact_match reward
columns exact_match
promises 'area("mine", "val/exact_match") > 0.49 and area("mine", "val/exact_match") < 0.51'
promises 'test("mine", "exact_match") == 0.75 and last("mine", "reward") == 4'
END
touch some.json

# check STATUS WHAT TEXT COMMAND...: the exit status, and a text in what is said.
check() {
    want=$1 what=$2 text=$3
    shift 3
    "$@" >said 2>&1
    got=$?
    if [ $got != "$want" ] || ! grep -qF -- "$text" said; then
        echo "FAILED: $what: exit status $got, without '$text' in:"
        cat said
        failures=$((failures + 1))
    fi
}

same() {
    printf '%s\n' "$2" | diff - "$1" || { echo "FAILED: $3"; failures=$((failures + 1)); }
}

check 0 "the list of recipes" "A recipe that is only made up" tools/recipe --help
check 2 "nothing asked for" "usage: tools/recipe" tools/recipe
check 2 "an unknown recipe" "no recipe 'yours'" tools/recipe yours
check 2 "a seed of letters" "--seed is a number" tools/recipe mine --seed x
check 2 "an option too many" "no option '--fast'" tools/recipe mine --fast
check 2 "a value that is missing" "--out needs a value" tools/recipe mine --out
[ ! -e calls ] || { echo "FAILED: a tool was called"; failures=$((failures + 1)); }

# A step that fails can be gone on with; what was done is not done again.
touch broken
check 1 "a step that fails" "tools/recipe mine --seed 7 --out r" \
    tools/recipe mine --seed 7 --out r
rm broken
echo "beta: 0" >examples/recipes/mine.yaml
check 2 "going on with another yaml" "r/mine was begun with other settings" \
    tools/recipe mine --seed 7 --out r
: >examples/recipes/mine.yaml
check 0 "the second try" "figures: r/mine.json" tools/recipe mine --seed 7 --out r
world='train_file=r/world/train.jsonl search_index=r/world/corpus.bm25'
same calls "sr1-data world r/world --hops 1 --seed 7 --force
sr1-data model some.json r/start --tokenizer r/world/tokenizer --seed 7 --force
sr1-train examples/recipes/mine.yaml model_name_or_path=r/start seed=7 $world max_steps=4 out=r/mine
sr1-train --resume r/mine
sr1-eval r/mine r/world/test.jsonl --json
sr1-report r/mine -o r/mine.html" "what the tools were called with"
same r/mine.csv "run,seed,step,val/exact_match,reward
mine,7,0,0,
mine,7,1,,2.5
mine,7,2,0.5,3
mine,7,4,1,4" "the curve"

# Folders with spaces and quotes, which may be copied from what is said.
touch broken
check 1 "a step that fails in a folder with a space" \
    "tools/recipe mine --seed 7 --out 'it'\\''s b'" tools/recipe mine --seed 7 --out "it's b"
rm broken
check 0 "a folder with a space" "figures: it's b/mine.json" \
    tools/recipe mine --seed 7 --out "it's b"
same words "it's b/mine
-o
it's b/mine.html" "the arguments of the page"
grep -qF "train_file=it's b/world/train.jsonl search_index=it's b/world/corpus.bm25" calls || {
    echo "FAILED: keys were torn at spaces"
    failures=$((failures + 1))
}

# Files of the user's are not replaced.
mkdir -p mine/world && echo mine >mine/world/train.jsonl
check 2 "a folder that no recipe made" "mine holds files that no recipe made" \
    tools/recipe mine --out mine
same mine/world/train.jsonl mine "a file of the user's"
mkdir mine/done && echo todo >mine/done/todo.txt
check 2 "a folder with a list of what is done" "mine holds files that no recipe made" \
    tools/recipe mine --out mine
same mine/world/train.jsonl mine "a file of the user's"

# The area of 0, 0.5, 1 at steps 0, 2, 4 is 0.5.
check 0 "promises that are kept" "area of val/exact_match of mine = 0.500" \
    tools/recipe mine --seed 7 --out r
check 0 "steps that are done" "train: mine (examples/recipes/mine.yaml, from r/start): done before" \
    tools/recipe mine --seed 7 --out r

echo "promises 'room(\"mine\", \"mine\", \"exact_match\") == 0'" >>examples/recipes/mine.sh
check 0 "a share of the room" "exact_match 0.750 -> 0.750: share of the room = 0.000" \
    tools/recipe mine --seed 7 --out r
echo "promises 'test(\"mine\", \"exact_match\") > 0.8'" >>examples/recipes/mine.sh
check 1 "a promise that is broken" "NOT KEPT: test(\"mine\", \"exact_match\") > 0.8" \
    tools/recipe mine --seed 7 --out r
check 0 "a cut is not held to it" "figures: b/mine.json" tools/recipe mine --brief --out b
grep -q max_steps=1 calls || { echo "FAILED: no cut"; failures=$((failures + 1)); }

check 2 "another seed in the same folder" "made by another command" \
    tools/recipe mine --seed 8 --out r
echo "promises 'area(\"mine\", \"none\") > 0'" >>examples/recipes/mine.sh
check 1 "a metric that there is not" "run mine has no row with the metric none" \
    tools/recipe mine --seed 7 --out r
sed -i '$d' examples/recipes/mine.sh
echo '{"step": 0, "val/exact_match": 0}' >r/mine/metrics.jsonl
check 1 "an area of one row" "run mine has one row with the metric val/exact_match" \
    tools/recipe mine --seed 7 --out r
echo "beta: 0" >examples/recipes/mine.yaml
check 2 "another yaml in the same folder" "made by another command" \
    tools/recipe mine --seed 7 --out r

[ $failures = 0 ] && echo ok
[ $failures = 0 ]
