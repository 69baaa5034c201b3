# shellcheck shell=bash
# Chaos: the tests with a core that yields, delays and fails by chance; see csrc/chaos.h.

# chaos_exceptions PROGRAM: its lines of scripts/chaos.exceptions, as "TEST KNOB+KNOB".
chaos_exceptions() {
  awk -v program="$1" '$1 == program { gsub(",", "+", $3); print $2, $3 }' scripts/chaos.exceptions
}

# chaos_leaves_out PROGRAM: whether all of it is.
chaos_leaves_out() { chaos_exceptions "$1" | grep -qx '\* all'; }

# chaos_environment PROGRAM: what is switched off in it, for csrc/chaos.c.
chaos_environment() { chaos_exceptions "$1" | awk '{ printf "%s=%s,", $1, $2 }'; }

cmd_chaos() {
  local go='' seeds=200 first=1
  while [ $# -gt 0 ]; do
    case $1 in
      --seeds | --from)
        [ $# -gt 1 ] || die "$1 wants a number"
        case $1 in --seeds) seeds=$2 ;; *) first=$2 ;; esac
        shift
        ;;
      --go) go=yes ;;
      -*) die "chaos: unknown option $1" ;;
      *) break ;;
    esac
    shift
  done
  export CFIBER_CHAOS_SEEDS=$seeds CFIBER_CHAOS_SEED=$first
  if [ -n "$go" ]; then
    chaos_go
  else
    cmd_ctest --variant chaos "$@"
  fi
}

# The tests of the Go package.
chaos_go() {
  local skip exe=build/chaos/cfiber.test
  need_go
  skip=$(chaos_exceptions go | awk '{ gsub("/", "$/^", $1); printf "|^%s$", $1 }')
  mkdir -p build/chaos
  go test -c -tags cfiber_chaos -o $exe . || return
  # The package's own limit comes first, and shows all goroutines.
  CFIBER_CHAOS_LIMIT=630 scripts/seeds.sh './build.sh chaos --go --seeds 1 --from %' \
    $exe -test.short -test.timeout 600s -test.skip "^TestPackaging$skip"
}
