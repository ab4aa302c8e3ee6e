# signals.sh - sourced: `hearing COMMAND...` runs a command, in the shell's place, that
# Ctrl-C reaches: what a script starts in the background has it ignored.
hearing() {
    exec python3 -c 'import os, signal, sys
signal.signal(signal.SIGINT, signal.SIG_DFL)
os.execvp(sys.argv[1], sys.argv[1:])' "$@"
}
