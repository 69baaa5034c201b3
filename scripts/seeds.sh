#!/usr/bin/env bash
# Runs a program once for each of some seeds of chaos (csrc/chaos.h), until one fails.
#
#   scripts/seeds.sh REPLAY PROGRAM [ARGUMENT...]
#
# REPLAY is the command that repeats a seed, with % in its place. Environment:
#   CFIBER_CHAOS_SEED    the first seed, 1
#   CFIBER_CHAOS_SEEDS   how many, 3
#   CFIBER_CHAOS_JOBS    how many at once, 3: much of a test is waiting
#   CFIBER_CHAOS_LIMIT   seconds for each, 300; then the stacks are printed
set -euo pipefail

replay=$1
shift
first=${CFIBER_CHAOS_SEED:-1} seeds=${CFIBER_CHAOS_SEEDS:-3} jobs=${CFIBER_CHAOS_JOBS:-3}
limit=${CFIBER_CHAOS_LIMIT:-300}
logs=$(mktemp -d "${TMPDIR:-/tmp}/cfiber-seeds.XXXXXX")
trap 'rm -rf "$logs"' EXIT

# stop_late PID: prints the stacks of a process that has not ended in time, and ends it.
stop_late() {
  local nap
  trap 'kill "$nap"; exit' TERM
  sleep "$limit" &
  nap=$!
  wait "$nap"
  echo "no end within $limit s"
  if command -v gdb >/dev/null 2>&1; then
    timeout 60 gdb -p "$1" -batch -ex 'thread apply all backtrace' </dev/null 2>&1 || true
  fi
  kill -KILL "$1"
}

# run_seed SEED PROGRAM...
run_seed() {
  local seed=$1 result=0 program timer
  shift
  CFIBER_CHAOS_SEED=$seed CFIBER_STRESS_SEED=$seed CFIBER_SEED=$seed "$@" &
  program=$!
  stop_late $program &
  timer=$!
  wait $program || result=$?
  kill $timer 2>/dev/null || true
  wait $timer 2>/dev/null || true
  return $result
}

for ((batch = first; batch < first + seeds; batch += jobs)); do
  pids=()
  for ((seed = batch; seed < batch + jobs && seed < first + seeds; seed++)); do
    run_seed "$seed" "$@" >"$logs/$seed" 2>&1 &
    pids+=($!)
  done
  failed=0
  for i in "${!pids[@]}"; do
    result=0
    wait "${pids[i]}" || result=$?
    seed=$((batch + i))
    if [ $result != 0 ] && [ $failed = 0 ]; then
      cat "$logs/$seed"
      echo "seed $seed: exit status $result. Again: ${replay//%/$seed}"
      failed=$result
    fi
    rm -f "$logs/$seed"
  done
  [ $failed = 0 ] || exit $failed
done
echo "$seeds seeds from $first on"
