#!/bin/sh
# check_launchers.sh BUILD [TORCHRUN] - sr1-train under real launchers: torchrun, Open MPI's
# mpirun, MPICH's, and srun.
#
# Each starts two ranks, whose run has to be that of one process with two workers to the bit:
# weights and states of every checkpoint, and metrics. Then each starts a run that is told to
# end (SIGTERM to the launcher) and is resumed, and torchrun restarts one whose rank 1 was
# killed. A launcher that is not here is skipped; srun needs a Slurm that runs, such as that
# of one_node_slurm.sh:
#
#     tests/interop/one_node_slurm.sh tests/interop/check_launchers.sh build
set -u
tests=$(cd "$(dirname "$0")/.." && pwd)
. "$tests/support/short_run.sh"
tools=$(cd "${1:?check_launchers.sh: which build?}/tools" && pwd) || exit 2
torchrun=${2:-torchrun}
PATH=$tools:$PATH
export PATH LC_ALL=C.UTF-8 OMP_WAIT_POLICY=passive
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
unset MASTER_ADDR MASTER_PORT
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
passed=0 failed=0 skipped=0

# Name, program, its version, and how it starts two ranks on this machine.
cat >"$work/launchers" <<END
torchrun|$torchrun|$(dirname "$(command -v "$torchrun" || echo .)")/python3 -c 'import torch; print("torch", torch.__version__)'|$torchrun --standalone --nproc-per-node 2 --no-python
openmpi|mpirun.openmpi|mpirun.openmpi --version|mpirun.openmpi --oversubscribe -np 2
mpich|mpirun.mpich|mpirun.mpich --version|mpirun.mpich -np 2
srun|srun|srun --version|srun --ntasks 2 --overcommit
srun-pmi2|srun|srun --version|srun --mpi=pmi2 --ntasks 2 --overcommit
END

count() { # count WHAT: the last command's status decides
    if [ $? = 0 ]; then
        passed=$((passed + 1))
        echo "ok      $name: $1"
    else
        failed=$((failed + 1))
        echo "FAILED  $name: $1"
        tail -n 15 "$work/$name.log"
    fi
}

# What a run has come to: hashes of weights and states, and metrics without times.
describe() {
    (cd "$1" && find . -name '*.safetensors' | sort | xargs sha256sum)
    python3 - "$1/metrics.jsonl" <<'END'
import json, sys
for line in open(sys.argv[1]):
    row = json.loads(line)
    print({k: v for k, v in row.items() if not k.startswith(("timing_s/", "perf/"))})
END
}

same_run() {
    describe "$1" >"$1.is" && cmp "$1.is" one.is
}

# Started by $launch in the background; $! is the launcher.
start_run() {
    # shellcheck disable=SC2086
    (trap - INT TERM && exec $launch sr1-train recipe.yaml "out=$1") >"$name.log" 2>&1 &
}

check_whole() {
    # shellcheck disable=SC2086
    $launch sr1-train recipe.yaml "out=$name" >"$name.log" 2>&1 &&
        grep -m 1 'rank 0 of 2 by' "$name.log" && same_run "$name"
    count "the run of one process"
}

# However it ends them, the newest checkpoint is whole.
check_stopped() {
    run=$name-stopped
    start_run "$run" && wait_for_steps "$run" 6 && kill -TERM $! && ! wait $! &&
        [ "$(wc -l <"$run/metrics.jsonl")" -lt 40 ] &&
        $launch sr1-train --resume "$run" >"$name.log" 2>&1 && same_run "$run"
    count "told to end, and resumed"
}

# torchrun starts the ranks again: they resume the run where there is one.
check_restarted() {
    run=$name-restarted
    cat >again.sh <<END
#!/bin/sh
if [ "\$TORCHELASTIC_RESTART_COUNT" = 0 ]; then
    echo \$\$ >"$run.\$RANK"
    exec sr1-train recipe.yaml out=$run
fi
exec sr1-train --resume $run
END
    chmod +x again.sh
    "$torchrun" --standalone --nproc-per-node 2 --max-restarts 1 --no-python ./again.sh \
        >"$name.log" 2>&1 &
    wait_for_steps "$run" 6 && kill -KILL "$(cat "$run.1")" && wait $! && same_run "$run"
    count "restarted after a kill"
}

check_launcher() {
    if ! command -v "$program" >/dev/null || ! $launch true >/dev/null 2>&1; then
        echo "skipped $name: it is not here, or cannot start two ranks"
        skipped=$((skipped + 1))
        return
    fi
    echo "-- $name: $(eval "$version" 2>/dev/null | sed -n '/[0-9]\./{s/  */ /g;p;q;}')"
    check_whole
    check_stopped
    [ "$name" != torchrun ] || check_restarted
}

cd "$work" && make_recipe "$tests/cli/model.json" &&
    sr1-train recipe.yaml out=one workers=2 >one.log 2>&1 || {
    cat one.log
    exit 1
}
describe one >one.is
while IFS='|' read -r name program version launch <&3; do
    check_launcher
done 3<launchers
echo "$passed passed, $failed failed, $skipped skipped"
[ $failed = 0 ]
