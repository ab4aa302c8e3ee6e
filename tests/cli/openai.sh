# openai.sh - sourced: openai.py runs until the case ends, and is asked by these words.
. ./waits.sh
port=openai.port.$$
python3 openai.py "$port" &
server=$!
trap 'kill $server' EXIT
wait_until test -s "$port"
url=http://127.0.0.1:$(cat "$port")/v1
served="use_openai=true openai_base_url=$url openai_retries=0 openai_concurrency=1"
