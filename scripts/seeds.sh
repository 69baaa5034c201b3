#!/usr/bin/env bash
# Runs a program once for each of some seeds of chaos (csrc/chaos.h), until one fails.
#
#   scripts/seeds.sh REPLAY PROGRAM [ARGUMENT...]
#
# REPLAY is the command that repeats a seed, with % in its place. Environment:
#   CFIBER_CHAOS_SEED    the first seed, 1
#   CFIBER_CHAOS_SEEDS   how many, 3
#   CFIBER_CHAOS_LIMIT   seconds for each, 100; then the stacks are printed
set -euo pipefail

replay=$1
shift
first=${CFIBER_CHAOS_SEED:-1} seeds=${CFIBER_CHAOS_SEEDS:-3} limit=${CFIBER_CHAOS_LIMIT:-100}

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

for ((seed = first; seed < first + seeds; seed++)); do
  result=0
  CFIBER_CHAOS_SEED=$seed CFIBER_STRESS_SEED=$seed CFIBER_SEED=$seed "$@" &
  program=$!
  stop_late $program &
  timer=$!
  wait $program || result=$?
  kill $timer 2>/dev/null || true
  wait $timer 2>/dev/null || true
  if [ $result != 0 ]; then
    echo "seed $seed: exit status $result. Again: ${replay//%/$seed}"
    exit $result
  fi
done
echo "$seeds seeds from $first on"
