# shellcheck shell=bash
# The steps of `test`, and what takes longer.

go_test() { # go_test ARGUMENT...: shows failures, skips and a line for each package
  go_test_in . "$@"
}

go_test_in() { # go_test_in DIR ARGUMENT...
  local dir=$1
  shift
  go test -C "$dir" -json "$@" | go run ./internal/testsum ${counts:+-counts "$counts"}
}

# One function for each step of `test`. They run in a process of their own each, where set -e
# holds, which it would not in a condition.
step_lint() {
  cmd_lint
  count 1 0 0
}
step_ctest() { cmd_ctest; }
step_variants() {
  set -- --variant address --variant thread --variant undefined --variant ucontext
  if emulates_arm64; then set -- "$@" --variant arm64; fi
  set -- "$@" --variant chaos --variant migrate-lto
  cmd_ctest "$@"
}
step_go() { go_test -timeout 10m -skip '^TestPackaging' ./...; }
step_race() {
  case $(go env GOOS)/$(go env GOARCH) in
    linux/* | darwin/* | freebsd/amd64 | netbsd/amd64) ;;
    *)
      say "SKIP race: go test -race does not know this system"
      count 0 0 1
      return
      ;;
  esac
  go_test -timeout 15m -race -skip '^TestPackaging' .
}
step_asan() {
  case $(go env GOOS)/$(go env GOARCH) in
    linux/amd64 | linux/arm64 | linux/riscv64 | linux/loong64 | linux/ppc64le) ;;
    *)
      say "SKIP asan: go test -asan does not know this system"
      count 0 0 1
      return
      ;;
  esac
  if ! accepts "${CC:-cc}" -fsanitize=address; then # as on musl
    count 0 0 1
    skipped asan "the C compiler has no AddressSanitizer"
    return
  fi
  go_test -timeout 10m -asan -short -skip '^TestPackaging' .
}
step_packaging() { go_test -timeout 25m -run '^TestPackaging' .; }

# That all of it works; no time is asserted.
step_model() {
  if ! have spin || ! have gcc; then
    count 0 0 1
    skipped model "the models want spin and gcc"
    return
  fi
  model/check.sh
  count 1 0 0
}
step_soak() {
  go run ./internal/soak -for 60s
  count 1 0 0
}
step_bench() {
  go_test_in cmd/cfiberbench -timeout 10m ./...
  cfiberbench
  "$cfiberbench" run -quick -peers none
  count 1 0 0
}

all_steps='lint model ctest variants go race asan purego packaging soak bench'

cmd_test() {
  need_go
  need cc || exit 1
  local steps=${*:-$all_steps} step start summary='' failed=0 status
  for step in $steps; do
    case " $all_steps " in
      *" $step "*) ;;
      *) die "there is no step $step; there are: $all_steps" ;;
    esac
  done
  mkdir -p build
  counts=$root/build/test-counts
  : >"$counts"
  for step in $steps; do
    say '' "==> $step"
    start=$SECONDS
    status=ok
    : >"$counts.step"
    if ! CFIBER_COUNTS=$counts.step "$BASH" "$root/build.sh" step "$step"; then
      status=FAILED
      failed=1
      # A step can fail without a test that failed: what does not compile has no tests.
      awk '{ n += $2 } END { if (n == 0) print 0, 1, 0 }' "$counts.step" >>"$counts"
    fi
    cat "$counts.step" >>"$counts"
    summary=$summary$(printf '%-10s %-6s %4s s' "$step" $status $((SECONDS - start)))$'\n'
  done
  rm -f "$counts.step"
  say '' "$summary"
  awk '{ p += $1; f += $2; s += $3 } END { printf "%d passed, %d failed, %d skipped\n", p, f, s }' "$counts"
  return $failed
}

# Programs made by chance, and fuzzing: some minutes each.
check_random() {
  local failed=0 target
  CFIBER_PROGRAMS=10000 ctest_limit=900 cmd_ctest --variant plain random || failed=1
  CFIBER_PROGRAMS=1000 ctest_limit=900 cmd_ctest --variant address --variant thread random || failed=1
  for target in .:FuzzProgram .:FuzzArguments ./examples/redis/server:FuzzParser; do
    say "fuzzing ${target#*:}"
    go test -run '^$' -fuzz "^${target#*:}\$" -fuzztime 2m -fuzzminimizetime 5s "${target%:*}" || failed=1
  done
  return $failed
}

# That no Go pointer gets where C could keep it, by the stricter of the checks that Go has; the
# other is always on.
check_cgo_pointers() { GOEXPERIMENT=cgocheck2 go_test -timeout 15m -skip '^TestPackaging' .; }

cmd_check() {
  local failed=0 v
  "$BASH" "$root/build.sh" test || failed=1
  for v in valgrind kqueue kqueue-pipe arm 386 ppc64le riscv64 s390x loong64; do
    cmd_ctest --variant $v || failed=1
  done
  check_random || failed=1
  cmd_ctest --variant migrate || failed=1
  CFIBER_CHAOS_SEEDS=200 cmd_ctest --variant chaos || failed=1
  CFIBER_CHAOS_SEEDS=5 cmd_ctest --variant chaos-address --variant chaos-thread || failed=1
  "$BASH" "$root/build.sh" chaos --go --seeds 5 || failed=1
  check_cgo_pointers || failed=1
  cmd_cross || failed=1
  if have spin; then model/check.sh --long || failed=1; fi
  return $failed
}
