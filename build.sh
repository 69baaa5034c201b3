#!/usr/bin/env bash
# Builds, checks and measures cfiber. ./build.sh --help says what it does.
#
# Kept to what bash 3.2 and the tools of any of the systems have, so that it
# runs on macOS and the BSDs as well.
set -euo pipefail

caller_dir=$PWD
root=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
cd "$root"

usage() {
  cat <<'EOF'
usage: ./build.sh COMMAND [ARGUMENT...]

  lib [--prefix DIR]  build libcfiber for C programs without Go, static and shared, and
                      install it with cfiber.h and the pkg-config files below DIR
                      (default build/prefix; $DESTDIR is honoured)
  test [STEP...]      run every check, or only the steps named:
                      lint model ctest variants go race asan purego packaging soak bench
  check [PART...]     run test and all that takes longer, or only the parts named: test levels
                      musl valgrind kqueue emulated emulated_go random fuzz migrate chaos
                      chaos_sanitized chaos_go cgocheck cross model (the larger ones)
  ctest [--variant NAME]... [TEST...]
                      run the C tests (csrc/testdata/TEST_test.c). The variants are plain (-O2)
                      and lto (-O3 -flto), which run by default and with each of gcc and clang
                      that is there; with one of them, the sanitizers address, thread and
                      undefined, ucontext (instead of the assembly), and valgrind; kqueue and
                      kqueue-pipe (the poller of macOS and the BSDs, on Linux by libkqueue);
                      chaos, chaos-address and chaos-thread (as by the command below, for
                      $CFIBER_CHAOS_SEEDS seeds, 3, from $CFIBER_CHAOS_SEED on, 1); migrate
                      (migratable fibers change threads at each switch);
                      musl (by zig); and other architectures, emulated: arm64 arm 386 ppc64le
                      riscv64 s390x loong64 (of which, without zig, the switch alone);
                      ia32 (386 by an amd64 kernel itself)
  soak [ARGUMENT...]  run a mixed load, and check that nothing is wrong or has grown at the end:
                      -for DURATION (60s), -seed N, -threads N, -report FILE
  cover               run the C and the Go tests, and print for each file what they have reached
  chaos [--seeds N] [--from SEED] [--go] [TEST...]
                      run the C tests, or the tests of the Go package, with a core that yields,
                      delays and fails by chance, for N seeds (200) from SEED on (csrc/chaos.h)
  cross               check that all compiles for macOS, which wants zig (as $ZIG, or in the
                      path), the assembly for the BSDs, which wants clang, and the Go code
                      for the BSDs. Nothing of it is run
  demo [ARGUMENT...]  run examples/demo
  bench [ARGUMENT...] run cfiberbench, which compares cfiber with others (cmd/cfiberbench)
  bench --peers       install what the others are compiled from
  bench --go [PATTERN]
                      run the Go benchmarks
  lint                check the format and the code, change nothing
  fmt                 format the Go and the C code
  deps [--check]      install all that the tests need beside Go (see below); with --check, on
                      Debian, what check needs as well

Only cgo's needs (Go 1.25 and a C compiler) are needed to use cfiber from Go: there
go build does all, and this script nothing.

A missing tool is installed through the system's package manager, as root or by sudo
where that asks for no password; otherwise the script says what to install.

Environment:
  CC, CXX            compilers for lib and for cgo
  CFLAGS, LDFLAGS    flags for lib and ctest (default -O2 -g for lib)
  CFIBER_SEED        the program that the C test "random" runs, alone
  CFIBER_NO_INSTALL  1: install nothing, say what is missing
  CI                 true: a check that has to be skipped is a failure
EOF
}

say() { printf '%s\n' "$@"; }
warn() { printf 'build.sh: %s\n' "$*" >&2; }
die() {
  warn "$*"
  exit 1
}
have() { command -v "$1" >/dev/null 2>&1; }

# The checks that count tests leave a line "passed failed skipped" each in this file.
counts=${CFIBER_COUNTS:-}
count() { if [ -n "$counts" ]; then echo "$*" >>"$counts"; fi; }

skipped() { # skipped WHAT WHY: fails where nothing may be skipped
  say "SKIP $1: $2"
  [ "${CI:-}" != true ]
}

# limited SECONDS COMMAND...: ends a command that hangs, where there is a timeout(1).
limited() {
  local seconds=$1
  shift
  if have timeout; then
    timeout -k 10 "$seconds" "$@"
  else
    "$@"
  fi
}

cmd_soak() {
  need_go
  need cc || exit 1
  exec go run ./internal/soak "$@"
}

cmd_demo() {
  need_go
  need cc || exit 1
  exec go run ./examples/demo "$@"
}

# shellcheck source=scripts/tools.sh
. scripts/tools.sh
# shellcheck source=scripts/core.sh
. scripts/core.sh
# shellcheck source=scripts/emulated.sh
. scripts/emulated.sh
# shellcheck source=scripts/ctest.sh
. scripts/ctest.sh
# shellcheck source=scripts/purego.sh
. scripts/purego.sh
# shellcheck source=scripts/chaos.sh
. scripts/chaos.sh
# shellcheck source=scripts/sites.sh
. scripts/sites.sh
# shellcheck source=scripts/lint.sh
. scripts/lint.sh
# shellcheck source=scripts/cross.sh
. scripts/cross.sh
# shellcheck source=scripts/check.sh
. scripts/check.sh
# shellcheck source=scripts/cover.sh
. scripts/cover.sh
# shellcheck source=scripts/bench.sh
. scripts/bench.sh

case ${1:-} in
  lib | test | check | ctest | chaos | soak | cover | cross | demo | bench | lint | fmt | deps)
    command=$1
    shift
    "cmd_$command" "$@"
    ;;
  step) # of cmd_test, for itself
    declare -F "step_${2:-}" >/dev/null || die "there is no step ${2:-without a name}; there are: $all_steps"
    "step_$2"
    ;;
  part) # of cmd_check
    declare -F "part_${2:-}" >/dev/null || die "there is no part ${2:-without a name}; there are: $all_parts"
    "part_$2"
    ;;
  -h | --help | help) usage ;;
  '')
    usage >&2
    exit 2
    ;;
  *)
    warn "there is no command $1; ./build.sh --help lists them"
    exit 2
    ;;
esac
