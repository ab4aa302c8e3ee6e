#!/bin/sh
# Print the folder that holds torch/, or nothing: that which python3 can import, else the
# user's cache. $1: the version wanted ("2.11").
found=$(python3 - "$1" <<'PY' 2>/dev/null
import importlib.util as u, os, sys
s = u.find_spec("torch")
d = os.path.dirname(os.path.dirname(s.origin)) if s else ""
v = open(os.path.join(d, "torch", "version.py")).read() if d else ""
print(d if "'" + sys.argv[1] + "." in v else "")
PY
)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/libsearchr1/torch-$1.0
[ -n "$found" ] || [ ! -d "$cache/torch" ] || found=$cache
printf '%s\n' "$found"
