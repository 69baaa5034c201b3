#!/usr/bin/env bash
# Checks the models of the scheduler with Spin, and that each of their mutants fails.
# README.md says what they are.
#
#   model/check.sh          all that is exhaustive: some minutes, half a gigabyte at a time
#   model/check.sh --long   also what is larger, the largest by bitstate hashing
#     CFIBER_MODEL_BITS   the logarithm of that hash table's bits, 28; each more doubles states and time
#   model/check.sh --trail FILE FLAG...   the steps to a model's first error
#
# A line for each: what came out, the states that were stored, and the time of the search.
set -euo pipefail
cd "$(dirname "$0")"

work=${CFIBER_MODEL_WORK:-}
if [ -z "$work" ]; then
  work=$(mktemp -d "${TMPDIR:-/tmp}/cfiber-model.XXXXXX")
  trap 'rm -rf "$work"' EXIT
  export CFIBER_MODEL_WORK=$work # for the instances that check one each
fi

# Model, name and flags. A mutant runs where it is seen soonest. One is seen only together with
# another: a search that is taken up again heals that it was given up when it should not.
models='
ring.pml      owner,-two-thieves
park.pml      bound
park.pml      migratable                -DMIGRATABLE
join.pml      two-fibers
join.pml      a-fiber-and-a-thread      -DTHREAD
join.pml      beside-the-child          -DBESIDE
join.pml      beside-it,-and-a-thread   -DBESIDE -DTHREAD
claim.pml     a-thief
schedule.pml  spawned,-2-threads        -DSPAWNED -DTHREADS=2 -DSTRAYS=1
schedule.pml  spawned,-3-threads        -DSPAWNED -DTHREADS=3 -DFIBERS=3
schedule.pml  spawned-by-two            -DSPAWNED_MANY -DTHREADS=3 -DFIBERS=4 -DSPAWNERS=2
schedule.pml  spawned-and-left          -DSPAWNED_AND_LEFT -DTHREADS=3 -DFIBERS=4
schedule.pml  a-full-ring               -DSPAWNED_MANY -DTHREADS=2 -DFIBERS=4 -DSPAWNERS=1 -DRING_SIZE=2
schedule.pml  from-outside              -DOUTSIDE -DTHREADS=2
schedule.pml  from-outside,-yields      -DOUTSIDE -DTHREADS=2 -DYIELDS=1
schedule.pml  from-outside,-events      -DOUTSIDE -DTHREADS=2 -DEVENTS
schedule.pml  from-outside,-lingering   -DOUTSIDE -DTHREADS=2 -DLINGERS
schedule.pml  spawned,-lingering        -DSPAWNED_AND_LEFT -DTHREADS=2 -DFIBERS=3 -DLINGERS
growth.pml    growth
watchdog.pml  served                    -DSERVED
watchdog.pml  handed                    -DHANDED
'
mutants='
ring.pml      TAIL_FIRST
ring.pml      POP_IN_TWO
ring.pml      STALE_SIZE
park.pml      EPOCH_IGNORED
park.pml      EPOCH_ANEW
park.pml      CANCEL_FORGOTTEN
park.pml      WAKE_IN_TWO
park.pml      READY_WHILE_ARMED         -DMIGRATABLE
park.pml      POST_BEFORE_SWITCH        -DMIGRATABLE
park.pml      WOKEN_WHILE_LEAVING       -DMIGRATABLE
join.pml      SET_BLINDLY
join.pml      GIVEN_UP_BLINDLY
join.pml      LOOK_THEN_ANNOUNCE
join.pml      JOINED_AT_ONCE
join.pml      FINISHING_LEFT
join.pml      FINISHING_NOT_AWAITED
join.pml      BROADCAST_UNLOCKED        -DTHREAD
join.pml      CALL_THEN_ENGAGE          -DBESIDE
join.pml      STRAIGHT_UNCLAIMED        -DBESIDE
claim.pml     CLAIM_IN_TWO
claim.pml     POPPED_CLAIMABLE
claim.pml     ENTRY_FORGOTTEN
claim.pml     END_IN_TWO
claim.pml     VOID_IN_TWO
claim.pml     ROOM_UNCHECKED
schedule.pml  NO_SEARCHER               -DSPAWNED -DTHREADS=2
schedule.pml  NO_NEXT_SEARCHER          -DSPAWNED -DTHREADS=3 -DFIBERS=3
schedule.pml  LOOK_THEN_ANNOUNCE        -DSPAWNED -DTHREADS=2
schedule.pml  ASKED_AFTER_ANNOUNCING    -DSPAWNED -DTHREADS=3 -DFIBERS=3 -DMUTANT_SEARCH_NOT_RESUMED
schedule.pml  SEARCH_NOT_RESUMED        -DSPAWNED_AND_LEFT -DTHREADS=3 -DFIBERS=4
schedule.pml  CHOICE_NOT_AWAITED        -DSPAWNED -DTHREADS=2
schedule.pml  CHOICE_GIVEN_UP           -DSPAWNED_MANY -DTHREADS=3 -DFIBERS=4 -DSPAWNERS=2
schedule.pml  THIEF_SILENT              -DSPAWNED_AND_LEFT -DTHREADS=3 -DFIBERS=4
schedule.pml  SHED_SILENTLY             -DSPAWNED_AND_LEFT -DTHREADS=3 -DFIBERS=4 -DRING_SIZE=2 -DOUTSIDERS=1
schedule.pml  HAND_OVER_IN_TWO          -DOUTSIDE -DTHREADS=2
schedule.pml  HAND_OVER_UNANNOUNCED     -DOUTSIDE -DTHREADS=2
schedule.pml  LONE_FIBER_SILENT         -DOUTSIDE -DTHREADS=2 -DYIELDS=1
schedule.pml  TIMERS_AFTER_LIST         -DOUTSIDE -DTHREADS=2 -DEVENTS
schedule.pml  SEARCHER_TRUSTED          -DOUTSIDE -DTHREADS=2 -DLINGERS
schedule.pml  WAKE_BEFORE_STOP          -DSPAWNED -DTHREADS=2
growth.pml    ACTIVE_AFTER_START
growth.pml    STOP_UNLOCKED             -DLEAVES
watchdog.pml  WAKE_SWALLOWED            -DSERVED
watchdog.pml  TAKEN_UNSEEN              -DHANDED
watchdog.pml  TOLD_BEFORE_COUNTED       -DSERVED -DMISTAKES=0
'
long='
ring.pml      four-fibers               -DFIBERS=4
join.pml      two-fibers,-two-early     -DEARLY_ENDS=2
join.pml      beside-it,-two-early      -DBESIDE -DEARLY_ENDS=2
claim.pml     two-thieves               -DTHIEVES=2
growth.pml    growth,-leaves            -DLEAVES
watchdog.pml  served,-two-mistakes      -DSERVED -DMISTAKES=2
'
bitstate='
schedule.pml  spawned,-4-threads        -DSPAWNED -DTHREADS=4 -DFIBERS=4
schedule.pml  spawned-and-left,-sheds   -DSPAWNED_AND_LEFT -DTHREADS=3 -DFIBERS=4 -DRING_SIZE=2 -DOUTSIDERS=1
schedule.pml  from-outside,-3-fibers    -DOUTSIDE -DTHREADS=2 -DFIBERS=3 -DYIELDS=1
schedule.pml  from-outside,-3-threads   -DOUTSIDE -DTHREADS=3 -DFIBERS=3
'

# build DIR MODEL FLAG...: makes DIR/pan. $PAN_FLAGS are the C compiler's. Most searches take less
# time than it takes to optimise them.
build() {
  local dir=$1 model=$PWD/$2
  shift 2
  rm -rf "$dir"
  mkdir -p "$dir"
  cd "$dir"
  # shellcheck disable=SC2086 # a list of words
  if ! spin -a "$@" "$model" >spin.log 2>&1 || [ ! -e pan.c ] ||
    ! ${CC:-cc} -DSAFETY -DVECTORSZ=4096 -DMEMLIM=4000 $PAN_FLAGS -o pan pan.c >cc.log 2>&1; then
    cat spin.log cc.log 2>/dev/null
    return 1
  fi
}

# check_one KIND MODEL NAME FLAG...: one line; false if it is not as it should be.
check_one() {
  local kind=$1 model=$2 name=$3 title dir states seconds verdict
  shift 3
  title="${model%.pml}: ${name//-/ }"
  dir=$work/$kind-${model%.pml}-$name
  local pan='-m100000 -n' PAN_FLAGS=-DCOLLAPSE
  case $kind in
    mutant) set -- "$@" "-DMUTANT_$name" ;;
    bitstate)
      PAN_FLAGS=-DBITSTATE
      # Some ten million states each; what it leaves out is left to chance.
      pan="-m2000000 -n -w${CFIBER_MODEL_BITS:-28} -k3"
      ;;
  esac
  if ! (build "$dir" "$model" "$@"); then
    echo "FAIL    $title: cannot be built"
    return 1
  fi
  # shellcheck disable=SC2086 # a list of words
  (cd "$dir" && ./pan $pan) >"$dir/log" 2>&1 || true
  states=$(sed -n 's/^ *\([0-9.e+]*\) states, stored.*/\1/p' "$dir/log")
  seconds=$(sed -n 's/^pan: elapsed time \(.*\) seconds/\1/p' "$dir/log")
  verdict=FAIL
  if [ "$kind" = mutant ]; then
    if grep -Eq '^pan:1: (invalid end state|assertion violated)' "$dir/log"; then verdict=caught; fi
  elif grep -q 'errors: 0' "$dir/log" && ! grep -Eq 'not completed|max search depth|out of memory' "$dir/log"; then
    verdict=ok
  fi
  printf '%-7s %-42s %9s states %6s s\n' "$verdict" "$title" "${states:-?}" "${seconds:-0}"
  if [ $verdict = FAIL ]; then
    # Of a mutant that nothing has seen, there is nothing to see.
    grep -E '^pan:1|not completed|max search depth|out of memory' "$dir/log" |
      sed "s|^|        |; \$s|\$| (model/check.sh --trail $model $*)|" || true
    return 1
  fi
  rm -rf "$dir"
}

# list KIND TABLE: one line for each row, for xargs.
list() { printf '%s\n' "$2" | sed -n "s/^[a-z].*/$1 &/p"; }

if ! command -v spin >/dev/null; then
  echo "check.sh: Spin is missing (the package is called spin)" >&2
  exit 2
fi

case ${1:-} in
  --one)
    shift
    check_one "$@"
    ;;
  --trail)
    shift
    model=$1
    shift
    dir=$work/trail
    (PAN_FLAGS=-DCOLLAPSE build "$dir" "$model" "$@" && cd "$dir" && ./pan -m100000 -n >/dev/null) || exit 1
    spin -k "$(echo "$dir"/*.trail)" -p -g "$@" "$model"
    ;;
  '' | --long)
    {
      list model "$models"
      list mutant "$mutants"
      if [ "${1:-}" = --long ]; then
        list model "$long"
        list bitstate "$bitstate"
      fi
    } | xargs -L 1 -P "$(getconf _NPROCESSORS_ONLN)" ./check.sh --one
    ;;
  *)
    sed -n '2,/^set/s/^# \{0,1\}//p' "./${0##*/}"
    exit 2
    ;;
esac
