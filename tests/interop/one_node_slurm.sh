#!/bin/sh
# one_node_slurm.sh COMMAND... - run a command where this machine is a cluster of one node.
#
# munged, slurmctld and slurmd (Debian: munge, slurmctld, slurmd, slurm-client) run as root
# in a folder of their own until the command has ended. Status 77: something of that is not
# here.
set -u
for program in munged slurmctld slurmd srun; do
    PATH=$PATH:/usr/sbin command -v $program >/dev/null || { echo "no $program"; exit 77; }
done
[ "$(id -u)" = 0 ] || { echo "slurmd needs root"; exit 77; }
PATH=$PATH:/usr/sbin
at=$(mktemp -d) || exit 2
node=$(hostname)
mkdir "$at/state" "$at/spool"

stop() {
    for daemon in slurmd slurmctld munged; do
        [ -s "$at/$daemon.pid" ] && kill "$(cat "$at/$daemon.pid")"
    done 2>/dev/null
    sleep 1
    rm -rf "$at"
}
trap stop EXIT
trap 'exit 130' INT TERM

# Two free ports of loopback, one after the other.
ports() {
    python3 -c '
import socket
sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
print(*[s.getsockname()[1] for s in sockets])'
}
# shellcheck disable=SC2046
set -- $(ports) "$@"
cat >"$at/slurm.conf" <<END
ClusterName=test
SlurmctldHost=$node(127.0.0.1)
SlurmUser=root
SlurmctldPort=$1
SlurmdPort=$2
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket=$at/munge.socket
StateSaveLocation=$at/state
SlurmdSpoolDir=$at/spool
SlurmctldPidFile=$at/slurmctld.pid
SlurmdPidFile=$at/slurmd.pid
SlurmctldLogFile=$at/slurmctld.log
SlurmdLogFile=$at/slurmd.log
ProctrackType=proctrack/pgid
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
ReturnToService=2
SchedulerType=sched/builtin
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
NodeName=$node NodeAddr=127.0.0.1 CPUs=$(nproc) State=UNKNOWN
PartitionName=all Nodes=$node Default=YES State=UP
END
shift 2
export SLURM_CONF="$at/slurm.conf"
dd if=/dev/urandom of="$at/key" bs=64 count=1 2>/dev/null
chmod 400 "$at/key"
munged --force --num-threads=1 --key-file="$at/key" --socket="$at/munge.socket" \
    --pid-file="$at/munged.pid" --log-file="$at/munged.log" --seed-file="$at/seed" \
    2>/dev/null && slurmctld -i && slurmd || { cat "$at"/*.log; exit 77; }
for _ in $(seq 100); do
    sinfo -h -o %T 2>/dev/null | grep -q idle && break
    sleep 0.1
done
"$@"
