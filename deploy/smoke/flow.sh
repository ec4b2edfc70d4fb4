#!/bin/sh
# Runs flow.sql by a command line of Trino, and compares what it prints with what the file expects.
#   flow.sh docker compose exec -T trino trino
set -eu
folder=$(dirname "$0")
printed=$(mktemp)
trap 'rm -f "$printed"' EXIT
"$@" --catalog floecat --output-format TSV --execute "$(cat "$folder/flow.sql")" >"$printed"
sed -n 's/^--> //p' "$folder/flow.sql" | diff - "$printed" >&2 || { echo "Trino printed other rows (>)" >&2; exit 1; }
cat "$printed"
