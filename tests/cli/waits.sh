# waits.sh - sourced: `wait_until COMMAND...` waits until it succeeds, for ten minutes at most.
wait_until() {
    for _ in $(seq 6000); do
        "$@" && break
        sleep 0.1
    done
}
