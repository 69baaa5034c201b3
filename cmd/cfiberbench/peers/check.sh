#!/usr/bin/env bash
# Builds the peers with warnings as errors, runs each of their workloads with
# little to do, and looks at what they answer. The peers check their results
# themselves (the sum of the tree, the number of runs); this checks the
# contract with the harness. A peer whose headers are missing is skipped.
set -u
cd "$(dirname "$0")" || exit 1
programs=$(mktemp -d)
trap 'rm -rf "$programs"' EXIT
failures=0

fail() {
  echo "FAIL $*"
  failures=$((failures + 1))
}

# header FILE KEY: the value of KEY in the first line of FILE.
header() {
  sed -n "1s/.* $2=\(.*\)/\1/p" "$1" | sed 's/ [a-z]*=.*//'
}

# build FILE PROGRAM: 1 if it does not compile, 2 if headers are missing.
build() {
  local compiler=${CC:-cc}
  case $1 in *.cc) compiler=${CXX:-c++} ;; esac
  $compiler -E "$1" >/dev/null 2>&1 || return 2
  # shellcheck disable=SC2046 # flags are words
  $compiler -O2 -DNDEBUG -Wall -Wextra -Werror "$1" $(header "$1" flags) -o "$2"
}

# expect STATUS ARGUMENT...: runs it with stdin closed at once.
expect() {
  local status=$1
  shift
  timeout 60 "$@" </dev/null >"$programs/out" 2>"$programs/err"
  local got=$?
  [ $got -eq "$status" ] || fail "$(basename "$1") ${*:2}: status $got, not $status: $(cat "$programs/err")"
}

# metric NAME...: the last answer has a line `NAME VALUE UNIT` for each.
metric() {
  local name
  for name in "$@"; do
    grep -Eq "^$name [0-9.e+]+ [a-z/]+$" "$programs/out" || fail "no metric $name in: $(cat "$programs/out")"
  done
}

# A connection of bash's own: what is sent has to come back, and be counted.
check_echo() {
  local port line back
  rm -f "$programs/in"
  mkfifo "$programs/in"
  timeout 60 "$1" echo <"$programs/in" >"$programs/out" 2>"$programs/err" &
  local server=$!
  exec 4>"$programs/in"
  until grep -q LISTENING "$programs/out"; do
    kill -0 $server 2>/dev/null || break
  done
  port=$(sed -n 's/^LISTENING //p' "$programs/out")
  if exec 5<>"/dev/tcp/127.0.0.1/$port"; then
    for line in first second third; do
      echo "$line" >&5
      read -r -t 10 back <&5
      [ "$back" = "$line" ] || fail "$1 echo: sent $line, got $back"
    done
    exec 5>&-
  else
    fail "$1 echo: no connection"
  fi
  exec 4>&-
  wait $server || fail "$1 echo: status $?"
  grep -q '^requests 3 count$' "$programs/out" || fail "$1 echo: $(cat "$programs/out")"
  metric cpu
}

check_workload() {
  local program=$1 modes=""
  case $2 in
  memory)
    expect 0 "$program" memory n=100
    grep -qx PARKED "$programs/out" || fail "$program memory: not parked"
    return
    ;;
  echo)
    check_echo "$program"
    return
    ;;
  timers)
    expect 0 "$program" timers n=50 seconds=1
    metric cpu late_p99 wakes
    return
    ;;
  wake) modes="same awake sleeping" ;;
  spawn) modes="warm cold" ;;
  esac
  local mode done=0
  for mode in ${modes:-none}; do
    timeout 60 "$program" "$2" n=200 ${modes:+mode="$mode"} </dev/null >"$programs/out" 2>"$programs/err"
    case $? in
    0)
      metric time
      done=1
      ;;
    3) [ -n "$modes" ] || fail "$program $2: unsupported" ;;
    *) fail "$program $2 $mode: $(cat "$programs/err")" ;;
    esac
  done
  [ $done -eq 1 ] || fail "$program $2: nothing of it is supported"
}

for file in *.c *.cc; do
  program=$programs/${file%.*}
  build "$file" "$program"
  case $? in
  1) fail "$file does not compile" && continue ;;
  2) echo "skip $file: needs $(header "$file" pkg)" && continue ;;
  esac
  for workload in $(header "$file" workloads | tr ',' ' '); do
    check_workload "$program" "$workload"
  done
  expect 2 "$program" "$workload" unknown=1
  expect 3 "$program" unknown
  echo "done $file"
done
[ $failures -eq 0 ] && echo "all as expected"
exit $((failures > 0))
