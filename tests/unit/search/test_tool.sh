#!/bin/sh
# test_tool.sh SR1-SEARCH - the tool indexes, answers, and explains what is wrong.
set -u
tool=$1
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
failures=0

# expect CODE TEXT ARGUMENT... : the exit code, and text somewhere in the output.
expect() {
    code=$1 text=$2
    shift 2
    out=$("$tool" "$@" 2>&1)
    got=$?
    case $out in
    *"$text"*) [ "$got" = "$code" ] && return ;;
    esac
    echo "sr1-search $*: exit code $got, want $code with '$text'; got: $out"
    failures=$((failures + 1))
}

printf '%s\n' '{"id":"1","contents":"\"Paris\"\nThe Eiffel Tower is in Paris."}' \
    '{"id":2,"contents":"Rome\nThe Colosseum is in Rome."}' >"$dir/c.jsonl"

expect 0 'Example:' --help
expect 0 'sr1-search ' --version
expect 0 '2 documents' index "$dir/c.jsonl" "$dir/c.idx"
expect 0 'The Eiffel Tower is in Paris.' query "$dir/c.idx" eiffel towers
expect 0 '1   Paris' query "$dir/c.idx" eiffel towers
expect 0 '"id": "2", "contents": "Rome\u000aThe' query "$dir/c.idx" --json colosseum
expect 0 'c.idx: whole' verify "$dir/c.idx"
expect 0 '2 documents' index "$dir/c.jsonl" "$dir/t.idx" --threads 2 --memory 1
cmp "$dir/c.idx" "$dir/t.idx" || failures=$((failures + 1))
head -c 30 "$dir/c.idx" >"$dir/d.idx"
printf 'x' >>"$dir/d.idx"
tail -c +32 "$dir/c.idx" >>"$dir/d.idx"
expect 1 'checksum of its documents' verify "$dir/d.idx"
expect 2 'verify needs an index' verify
expect 2 'belongs to' verify "$dir/c.idx" --threads 2
expect 2 'plain, html, markdown, auto' index "$dir/c.jsonl" "$dir/x.idx" --text-format pdf
expect 0 'No information found for: zebra' query "$dir/c.idx" zebra
expect 0 'No information found' query "$dir/c.idx" -- --json
expect 0 '0.4514' query "$dir/c.idx" --k1=1.2 --b 0.75 rome
expect 2 'did you mean --top-k?' query "$dir/c.idx" --topk 1 rome
expect 2 'is not from 1 to' query "$dir/c.idx" --top-k 0 rome
expect 2 'not a whole number' query "$dir/c.idx" --top-k=two rome
expect 2 'needs a value' query "$dir/c.idx" rome --top-k
expect 2 'which command' --json
expect 2 "no command 'find'" find
expect 2 'serve needs an index' serve
expect 2 'can reach address' serve "$dir/c.idx" --host 0.0.0.0
expect 2 "'NO_SUCH_TOKEN' is not set" serve "$dir/c.idx" --token-env NO_SUCH_TOKEN
expect 2 "belongs to 'serve'" query "$dir/c.idx" --port 80 rome
expect 2 'not a BM25 index' serve "$dir/c.jsonl"
expect 2 'needs an index and words' query "$dir/c.idx"
expect 2 'needs words' query --web serper
expect 2 'give one of them' query --web serper --remote http://127.0.0.1:9/retrieve x
expect 2 '--remote and --faiss: give one of them' query --remote http://127.0.0.1:9/ \
    --faiss "$dir/x.faiss" rome
expect 2 '--web and --k1: give one of them' serve --web serper --k1 1
expect 2 '--nprobe belongs to --faiss' query "$dir/c.idx" --nprobe 2 rome
expect 2 '--rrf-k belongs to --dense-index' query "$dir/c.idx" --rrf-k 2 rome
expect 2 '--rerank-depth belongs to --reranker' serve "$dir/c.idx" --rerank-depth 2
expect 2 '--timeout belongs to --web, --remote, --opensearch and --qdrant' query "$dir/c.idx" --timeout 2 rome
expect 2 "belongs to 'index' and 'query' and 'eval' and 'serve'" verify "$dir/c.idx" --device cpu
expect 2 'serper, serpapi' query --web altavista x
expect 2 'not an http' query --remote ftp://127.0.0.1/x x
expect 2 'SR1_TEST_NO_SUCH_KEY' query --web serper --key-env SR1_TEST_NO_SUCH_KEY x
expect 2 'belongs to' index "$dir/c.jsonl" "$dir/x.idx" --web serper
expect 1 '127.0.0.1:9' query --remote http://127.0.0.1:9/retrieve tower
expect 2 'belongs to' query "$dir/c.idx" --analyzer plain rome
expect 2 'english, plain' index "$dir/c.jsonl" "$dir/x.idx" --analyzer klingon
expect 2 'No such file' query "$dir/missing" rome
expect 2 'not a BM25 index' query "$dir/c.jsonl" rome
expect 2 'c.idx is a BM25 index, not a corpus' index "$dir/c.idx" "$dir/x.idx"
expect 2 'cannot write' index "$dir/c.jsonl" "$dir/missing/x.idx"
expect 2 'name it with --encoder MODEL' query "$dir/c.idx" --faiss "$dir/x.faiss" rome
expect 2 'or raw vectors and --dim' index --factory Flat "$dir/c.idx" "$dir/x.idx"
expect 2 'belongs to' query "$dir/c.idx" --factory Flat rome
printf 'abcdefgh' >"$dir/v.f32"
out=$("$tool" index --quiet --factory Flat --dim 1 "$dir/v.f32" "$dir/v.faiss" 2>&1)
case $?$out in
0) expect 2 'not fp32 vectors of 3' index --factory Flat --dim 3 "$dir/v.f32" "$dir/x.idx" ;;
1*libfaiss-dev*) ;;
*) echo "index --factory: $out"; failures=$((failures + 1)) ;;
esac
[ ! -e "$dir/x.idx" ] || { echo "a failed index left a file"; failures=$((failures + 1)); }

# Asked to stop in the middle of a build: the old index stands, and nothing is left beside
# it. (A shell's job in the background has SIGINT ignored.)
cp "$dir/c.idx" "$dir/s.idx"
mkfifo "$dir/corpus"
for signal in TERM HUP; do
    env --default-signal=HUP,TERM "$tool" index --quiet "$dir/corpus" "$dir/s.idx" \
        2>"$dir/err" & # below nohup SIGHUP is ignored
    build=$!
    exec 3>"$dir/corpus"
    seq 5000 | sed 's/.*/{"id": "&", "contents": "text &"}/' >&3 # more than is read at once
    for i in $(seq 6000); do
        [ -z "$(ls "$dir" | grep '^s.idx.tmp')" ] || break
        sleep 0.05
    done
    kill -"$signal" "$build"
    exec 3>&-
    wait "$build"
    code=$?
    left=$(ls "$dir" | grep '^s.idx.tmp')
    if [ "$code" != 130 ] || [ -n "$left" ] || ! cmp "$dir/c.idx" "$dir/s.idx" ||
        ! grep -q 'stopped on request' "$dir/err"; then
        echo "SIG$signal: exit code $code, left '$left', said $(cat "$dir/err")"
        failures=$((failures + 1))
    fi
done

# Dense indexes; models need sr1-search-models, which tests with libtorch ask.
printf '\000\000\200\077\000\000\000\000\000\000\000\000\000\000\200\077' >"$dir/v.f32" # 1 0, 0 1
expect 0 '2 numbers each as fp16' index --vectors "$dir/v.f32" --dim 2 --dtype fp16 \
    --encoder "$dir/no-model" "$dir/c.jsonl" "$dir/c.dense"
expect 0 'every search goes through' index --vectors "$dir/v.f32" --dim 2 \
    "$dir/c.jsonl" "$dir/d.dense"
expect 0 'c.dense: whole' verify "$dir/c.dense"
expect 1 'not rows of 3' index --vectors "$dir/v.f32" --dim 3 "$dir/c.jsonl" "$dir/x.dense"
expect 1 '1 vectors of 4 numbers, the corpus has more documents' index --vectors \
    "$dir/v.f32" --dim 4 "$dir/c.jsonl" "$dir/x.dense"
expect 2 'fp32, fp16, int8' index --vectors "$dir/v.f32" --dim 2 --dtype fp8 \
    "$dir/c.jsonl" "$dir/x.dense"
expect 2 'needs --dim' index --vectors "$dir/v.f32" "$dir/c.jsonl" "$dir/x.dense"
expect 2 'give one of them' index --vectors "$dir/v.f32" --dense m "$dir/c.jsonl" x
expect 2 'belongs to --dense' index --dtype int8 "$dir/c.jsonl" "$dir/x.dense"
expect 2 '--vectors and --factory: give one of them' index --vectors "$dir/v.f32" --dim 2 \
    --factory Flat "$dir/c.jsonl" "$dir/x.dense"
expect 2 '--dense and --factory: give one of them' index --dense m --factory Flat \
    "$dir/c.dense" "$dir/x.dense"
expect 2 '--metric belongs to --factory' index --vectors "$dir/v.f32" --dim 2 --metric l2 \
    "$dir/c.jsonl" "$dir/x.dense"
expect 2 '--batch belongs to --dense' index --batch 8 "$dir/c.jsonl" "$dir/x.dense"
expect 2 '--memory belongs to a BM25' index --factory Flat --memory 8 "$dir/c.dense" \
    "$dir/x.dense"
[ ! -f "$dir/x.dense" ] || failures=$((failures + 1))
expect 2 'name it with --encoder' query "$dir/d.dense" rome
expect 2 'no-model' query "$dir/c.dense" rome
expect 2 'no-such-model' query "$dir/c.idx" --reranker "$dir/no-such-model" rome
head -c 100 "$dir/c.dense" >"$dir/cut.dense"
expect 1 'not a dense index of this library, or cut short' verify "$dir/cut.dense"
exit "$failures"
