#!/usr/bin/env bash
# Every collective over every number of ranks on every transport, each element of each rank checked.
#
#   tests/multiprocess/bench_matrix.sh [--tool PATH] [--ranks "1 2 3 4 5 8"] [--transports "shm tcp"]
#
# One line a combination (sizes 8 B to 1 MiB by a factor of 32, out of place and in place), last line "N combinations right, N wrong".
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
tool=build/release/bin/peal ranks="1 2 3 4 5 8" transports="shm tcp"
while [ $# -gt 0 ]; do
  case "$1" in
    --tool) tool=$2; shift ;;
    --ranks) ranks=$2; shift ;;
    --transports) transports=$2; shift ;;
    *) sed -n '2,6s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2; exit 2 ;;
  esac
  shift
done
[ -x "$tool" ] || { echo "bench_matrix: there is no $tool: build it with ./check, or give --tool PATH" >&2; exit 2; }
collectives="all_reduce reduce_scatter all_gather broadcast reduce gather scatter all_to_all barrier send_recv all_gather_v reduce_scatter_v all_to_all_v gather_v scatter_v"
report=$(mktemp)
trap 'rm -f "$report"' EXIT

right=0 wrong=0
printf '%-18s %5s %5s %6s %10s  %s\n' collective over ranks halves seconds verdict
for transport in $transports; do
  for n in $ranks; do
    for collective in $collectives; do
      begin=$(date +%s.%N)
      code=0
      "$tool" bench "$collective" -n "$n" -b 8 -e 1M -f 32 --iters 5 --warmup 1 --check --transport "$transport" --timeout 120 --json - \
        >"$report" 2>"$report.err" || code=$?
      # Exit code 0 alone is not believed: every half of every row must say that 0 elements were wrong.
      halves=$(python3 - "$report" 2>>"$report.err" <<'PY' || true
import json, sys
rows = json.load(open(sys.argv[1]))["rows"]
halves = [row[half] for row in rows for half in ("out_of_place", "in_place") if row[half]]
assert halves and all(half["wrong"] == 0 for half in halves), "some element is wrong"
print(len(halves))
PY
      )
      seconds=$(echo "$(date +%s.%N) $begin" | awk '{printf "%.2f", $1 - $2}')
      if [ "$code" -eq 0 ] && [ -n "$halves" ]; then
        right=$((right + 1))
        verdict=right
      else
        wrong=$((wrong + 1))
        verdict="WRONG (exit code $code: $(tail -n 1 "$report.err"))"
      fi
      rm -f "$report.err"
      printf '%-18s %5s %5s %6s %10s  %s\n' "$collective" "$transport" "$n" "${halves:--}" "$seconds" "$verdict"
    done
  done
done
echo "$right combinations right, $wrong wrong"
[ "$wrong" -eq 0 ]
