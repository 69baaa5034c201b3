# shellcheck shell=bash
# The steps of `test`, and what takes longer.

go_env='' # for go test, but not for what is run to sum up: NAME=VALUE...

go_test() { # go_test ARGUMENT...: shows failures, skips and a line for each package
  go_test_in . "$@"
}

go_test_in() { # go_test_in DIR ARGUMENT...
  local dir=$1
  shift
  # shellcheck disable=SC2086 # a list of words, or none
  env $go_env go test -C "$dir" -json "$@" | go run ./internal/testsum ${counts:+-counts "$counts"}
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

# The parts of `check`, in processes of their own as well.
part_test() { cmd_test; }
part_levels() { # of optimisation, beside those of the variants plain and lto
  local o failed=0
  for o in 0 1 3; do
    CFLAGS="${CFLAGS-} -O$o" cmd_ctest --variant plain || failed=1
  done
  return $failed
}
part_musl() { cmd_ctest --variant musl; }
part_valgrind() { cmd_ctest --variant valgrind; }
part_kqueue() { cmd_ctest --variant kqueue --variant kqueue-pipe; }
part_emulated() {
  cmd_ctest --variant arm --variant 386 --variant ppc64le --variant riscv64 --variant s390x --variant loong64 \
    --variant ia32
}
part_emulated_go() { go_emulated arm64 ppc64le riscv64 s390x; }
# Programs made by chance.
part_random() {
  local failed=0
  CFIBER_PROGRAMS=10000 ctest_limit=900 cmd_ctest --variant plain random || failed=1
  CFIBER_PROGRAMS=1000 ctest_limit=900 cmd_ctest --variant address --variant thread random || failed=1
  return $failed
}
part_fuzz() { # some minutes each
  local failed=0 target
  for target in .:FuzzProgram .:FuzzArguments ./examples/redis/server:FuzzParser; do
    say "fuzzing ${target#*:}"
    go test -run '^$' -fuzz "^${target#*:}\$" -fuzztime 2m -fuzzminimizetime 5s "${target%:*}" || failed=1
  done
  return $failed
}
part_migrate() { cmd_ctest --variant migrate; }
part_chaos() { CFIBER_CHAOS_SEEDS=200 cmd_ctest --variant chaos; }
part_chaos_sanitized() { CFIBER_CHAOS_SEEDS=5 cmd_ctest --variant chaos-address --variant chaos-thread; }
part_chaos_go() { cmd_chaos --go; }
# That no Go pointer gets where C could keep it, by the stricter of the checks that Go has; the
# other is always on.
part_cgocheck() { GOEXPERIMENT=cgocheck2 go_test -timeout 15m -skip '^TestPackaging' .; }
part_cross() { cmd_cross; }
part_model() {
  if have spin; then
    model/check.sh --long
  else
    skipped "the larger models" "no spin"
  fi
}

all_parts='test levels musl valgrind kqueue emulated emulated_go random fuzz migrate chaos chaos_sanitized chaos_go cgocheck cross model'

cmd_check() {
  local parts=${*:-$all_parts} part start summary='' failed=0 status
  need_go
  need cc || exit 1
  for part in $parts; do
    case " $all_parts " in
      *" $part "*) ;;
      *) die "check has no part $part; it has: $all_parts" ;;
    esac
  done
  for part in $parts; do
    say '' "=> $part"
    start=$SECONDS
    status=ok
    if ! "$BASH" "$root/build.sh" part "$part"; then
      status=FAILED
      failed=1
    fi
    summary=$summary$(printf '%-15s %-6s %5s s' "$part" $status $((SECONDS - start)))$'\n'
  done
  say '' "$summary"
  return $failed
}
