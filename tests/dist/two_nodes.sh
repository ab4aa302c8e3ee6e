#!/bin/sh
# two_nodes.sh BUILD - two ranks on two nodes: network namespaces with addresses and host names
# of their own, joined by a bridge in a third. Status 77: not root, or no namespaces.
#
#   whole    the run is that of one process with two workers, to the bit
#   blink    a node is cut off for less than distributed_timeout: so it is still
#   cut      a node is cut off for longer: both ranks end and say why, and the run is resumed
#            to the same bits once the node is back
set -u
PATH=$(cd "${1:?two_nodes.sh: which build?}/tools" && pwd):$PATH:/usr/sbin
tests=$(cd "$(dirname "$0")/.." && pwd)
. "$tests/support/short_run.sh"
export PATH LC_ALL=C.UTF-8 OMP_WAIT_POLICY=passive
work=$(mktemp -d) || exit 2
id=sr1-$$
passed=0 failed=0 ranks=

clean() {
    for pid in $ranks; do
        kill -KILL "$pid"
    done
    for n in node0 node1 switch; do
        ip netns del "$id-$n"
    done
    rm -rf "$work"
} 2>/dev/null
trap clean EXIT
trap 'exit 130' INT TERM

skip() {
    echo "$1"
    exit 77
}

# Node N is 10.83.0.1N at port pN of the bridge.
make_nodes() {
    ip netns add "$id-switch" && ip -n "$id-switch" link add bridge type bridge &&
        ip -n "$id-switch" link set bridge up || return 1
    for n in 0 1; do
        ip netns add "$id-node$n" &&
            ip -n "$id-node$n" link set lo up &&
            ip -n "$id-switch" link add p$n type veth peer name eth0 netns "$id-node$n" &&
            ip -n "$id-switch" link set p$n master bridge up &&
            ip -n "$id-node$n" addr add 10.83.0.1$n/24 dev eth0 &&
            ip -n "$id-node$n" link set eth0 up || return 1
    done
}

# on_node N COMMAND... - replaces this shell by rank N of two.
on_node() {
    n=$1
    shift
    exec env RANK="$n" WORLD_SIZE=2 LOCAL_RANK=0 LOCAL_WORLD_SIZE=1 MASTER_ADDR=10.83.0.10 \
        ip netns exec "$id-node$n" unshare --uts \
        sh -c 'hostname "$0"; exec "$@"' "node$n" "$@"
}

# Both ranks of a command in the background.
start() {
    for rank in 0 1; do
        (trap - EXIT && on_node $rank "$@") >"$run.$rank" 2>&1 &
        ranks="$ranks $!"
    done
}

# How many of them ended with status 0.
end() {
    ended=0
    for pid in $ranks; do
        wait "$pid" && ended=$((ended + 1))
    done
    ranks=
    [ $ended = "$1" ]
}

cut_off() { ip -n "$id-switch" link set p1 down; }
join() { ip -n "$id-switch" link set p1 up; }

same() {
    for file in model/model.safetensors checkpoints/step-40/optimizer/model.safetensors; do
        cmp "one/$file" "$run/$file" || return 1
    done
}

count() { # count WHAT: the last command's status decides
    if [ $? = 0 ]; then
        passed=$((passed + 1))
        echo "ok      $1"
    else
        failed=$((failed + 1))
        echo "FAILED  $1"
        tail -n 12 "$run.0" "$run.1"
    fi
}

[ "$(id -u)" = 0 ] || skip "network namespaces need root"
command -v ip >/dev/null || skip "no ip (Debian: iproute2)"
make_nodes 2>"$work/nodes" || skip "no network namespaces: $(head -n 1 "$work/nodes")"
cd "$work" && make_recipe "$tests/cli/model.json" &&
    sr1-train recipe.yaml out=one workers=2 >one.log 2>&1 || {
    cat one.log
    exit 1
}

run=whole
start sr1-train recipe.yaml out=whole && end 2 && grep -q 'on node1' whole/logs/rank-1.log &&
    same
count "two nodes give the run of one process"

run=blink
start sr1-train recipe.yaml out=blink && wait_for_steps "$run" 6 && cut_off && sleep 2 &&
    before=$(wc -l <blink/metrics.jsonl) && sleep 1 &&
    [ "$(wc -l <blink/metrics.jsonl)" = "$before" ] && join && end 2 && same
count "cut off for three seconds, it waits and goes on"

# The one if a rank came to the meeting that the other was at already, by rank 0's store.
lost='no answer of the other ranks in 4 s|rank [01] of a world of 2 is missing'
run=cut
start sr1-train recipe.yaml out=cut distributed_timeout=4 && wait_for_steps "$run" 6 && cut_off &&
    end 0 && grep -qE "$lost" cut.0 && grep -qE "$lost" cut.1
count "cut off for longer, both ranks end"
join
start sr1-train --resume cut distributed_timeout=60 && end 2 && same
count "once the node is back, the run is resumed to the same bits"

echo "$passed passed, $failed failed, 0 skipped"
[ $failed = 0 ]
