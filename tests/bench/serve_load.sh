#!/bin/sh
# serve_load.sh SECONDS CONNECTIONS QUESTIONS.jsonl SERVER ARGUMENT... - start a server on a
# port that "PORT" in its arguments stands for, put wrk's load on its POST /retrieve
# (retrieve.lua), print wrk's JSON line, stop the server.
set -u
here=$(dirname "$0")
seconds=$1 connections=$2 questions=$3
shift 3
port=$(python3 -c 'import socket
s = socket.socket()
s.bind(("127.0.0.1", 0))
print(s.getsockname()[1])')
n=$#
while [ "$n" -gt 0 ]; do # PORT among the arguments
    word=$1
    shift
    [ "$word" = PORT ] && word=$port
    set -- "$@" "$word"
    n=$((n - 1))
done
"$@" >&2 &
server=$!
python3 - "$port" <<'EOP' || { kill $server; exit 1; }
import socket, sys, time
for _ in range(300):
    try:
        socket.create_connection(("127.0.0.1", int(sys.argv[1])), 1).close()
        sys.exit(0)
    except OSError:
        time.sleep(0.1)
sys.exit("the server did not come up")
EOP
load() { # SECONDS
    wrk -t 1 -c "$connections" -d "$1" -s "$here/retrieve.lua" "http://127.0.0.1:$port" -- \
        "$questions"
}
load 1 >/dev/null # warm
load "$seconds" | grep '^{'
status=$?
kill $server
wait $server 2>/dev/null
exit $status
