# shellcheck shell=bash
# Runs the C tests, in each of their variants.

ctest_limit=120 # seconds, for one test

cmd_ctest() {
  local variants='' tests='' t v
  while [ $# -gt 0 ]; do
    case $1 in
      --variant=*) variants="$variants ${1#*=}" ;;
      --variant)
        [ $# -gt 1 ] || die "--variant wants one of: $all_variants"
        variants="$variants $2"
        shift
        ;;
      -*) die "ctest: unknown option $1" ;;
      *) break ;;
    esac
    shift
  done
  for v in $variants; do
    case " $all_variants " in
      *" $v "*) ;;
      *) die "there is no variant $v; there are: $all_variants" ;;
    esac
  done
  if [ $# -gt 0 ]; then
    for t; do
      t=csrc/testdata/${t%_test}_test
      if [ -e "$t.c" ]; then
        tests="$tests $t.c"
      elif [ -e "$t.cc" ]; then
        tests="$tests $t.cc"
      else
        die "there is no $t.c"
      fi
    done
  else
    for t in csrc/testdata/*_test.c csrc/testdata/*_test.cc; do
      if [ -e "$t" ]; then tests="$tests $t"; fi
    done
  fi
  if [ -z "$tests" ]; then
    say "no C tests in csrc/testdata"
    return
  fi

  local compilers='' c
  if [ -n "${CC:-}" ]; then
    compiler
    compilers=$CC
  else
    for c in gcc clang; do
      if have $c; then compilers="$compilers $c"; fi
    done
    if [ -z "$compilers" ]; then
      compiler
      compilers=$CC
    fi
  fi

  ctest_passed=0 ctest_failed=0 ctest_skipped=0
  for v in ${variants:-plain lto}; do
    case $v in
      # What a compiler keeps over a switch shows with each of them, at its boldest.
      migrate) for v in migrate migrate-lto migrate-thread; do ctest_variant $v "$tests" "$compilers"; done ;;
      *) ctest_variant "$v" "$tests" "$compilers" ;;
    esac
  done
  say "C tests: $ctest_passed passed, $ctest_failed failed, $ctest_skipped skipped"
  count $ctest_passed $ctest_failed $ctest_skipped
  [ $ctest_failed = 0 ]
}

all_variants='plain lto address thread undefined ucontext valgrind chaos chaos-address chaos-thread migrate migrate-lto migrate-thread kqueue kqueue-pipe musl arm64 arm 386 ppc64le riscv64 s390x loong64 ia32'

makecontext_program='#define _XOPEN_SOURCE 700
#include <ucontext.h>
static ucontext_t u;
static void f(void) {}
int main(void) { makecontext(&u, f, 0); return 0; }'

# ctest_variant VARIANT TESTS COMPILERS: the tests in one variant, with all compilers where
# the compiler matters, else with the first that can.
ctest_variant() {
  local variant=$1 tests=$2 compilers=$3 flags='' all='' built='' wrap='' cross='' qemu='' emulator='' static='' libs='' sanitizer='' c
  case $variant in
    plain)
      flags='-O2 -g'
      all=yes
      ;;
    lto)
      # What must not be kept over a switch is kept where the compiler sees through calls.
      flags='-O3 -g -flto'
      all=yes
      ;;
    chaos) flags='-O2 -g -DCFIBER_CHAOS' ;;
    chaos-address | chaos-thread) flags='-DCFIBER_CHAOS' sanitizer=${variant#chaos-} ;;
    migrate)
      flags='-O2 -g -DCFIBER_MIGRATE_ALWAYS'
      all=yes
      ;;
    migrate-lto)
      flags='-O3 -g -flto -DCFIBER_MIGRATE_ALWAYS'
      all=yes
      ;;
    migrate-thread) flags='-DCFIBER_MIGRATE_ALWAYS' sanitizer=thread ;;
    address | thread | undefined) sanitizer=$variant ;;
    ucontext)
      flags='-O2 -g -DCFIBER_UCONTEXT'
      # musl and OpenBSD have no such functions.
      for c in $compilers; do break; done
      if ! links "$makecontext_program" "$c" -w; then
        say "SKIP ucontext: this system has no makecontext"
        ctest_skipped=$((ctest_skipped + 1))
        return
      fi
      ;;
    valgrind)
      flags='-O1 -g -DCFIBER_VALGRIND'
      wrap='env CFIBER_EMULATED=1 valgrind -q --error-exitcode=99'
      if ! have valgrind; then
        ctest_skip valgrind "not installed"
        return
      fi
      ;;
    loong64)
      if ! zig_compilers loongarch64-linux-musl; then
        ctest_loong64 "$tests"
        return
      fi
      emulation loong64
      static=-static libs=-lunwind
      ;;
    musl)
      if ! zig_compilers "$(uname -m)-linux-musl"; then
        ctest_skip musl "wants zig, whose compiler brings musl"
        return
      fi
      compilers=$(uname -m)-linux-musl-gcc flags='-O2 -g -static' libs=-lunwind
      ;;
    kqueue | kqueue-pipe)
      if [ "$(uname -s)" != Linux ]; then
        ctest_skip "$variant" "for Linux only; where kqueue is at home, every variant tests it"
        return
      fi
      if ! have pkg-config || ! pkg-config --exists libkqueue; then
        ctest_skip "$variant" "pkg-config knows no libkqueue"
        return
      fi
      flags="-O2 -g -DCFIBER_KQUEUE $(pkg-config --cflags libkqueue)"
      if [ "$variant" = kqueue-pipe ]; then flags="$flags -DCFIBER_KQUEUE_PLAIN"; fi
      # With what libkqueue itself wants, in case it is there as an archive only.
      libs="$(pkg-config --libs libkqueue) -lpthread -lrt"
      ;;
    386 | ia32)
      emulation 386
      # Because under this emulation no dynamic program gets past pthread_create.
      static=-static
      ;;
    *) emulation "$variant" ;;
  esac
  if [ -n "$sanitizer" ]; then
    flags="-O1 -g -fsanitize=$sanitizer -fno-sanitize-recover=all $flags"
    # An older ThreadSanitizer does not cope with all layouts of the address space.
    if [ "$sanitizer" = thread ] && have setarch && setarch "$(uname -m)" -R true 2>/dev/null; then
      wrap="setarch $(uname -m) -R"
    fi
    # gcc's takes most of a megabyte for each fiber, and minutes where clang's takes seconds.
    if [ "$sanitizer" = thread ]; then
      case " $compilers " in *' clang '*) compilers="clang $compilers" ;; esac
    fi
  fi
  if [ -n "$cross" ]; then
    if ! emulated; then
      ctest_skip "$variant" "wants $cross-gcc, $cross-g++ and $qemu"
      return
    fi
    compilers=$cross-gcc
    # gcc notes for some of these what changed in their calling convention long ago.
    flags="-O2 -g -Wno-psabi $static"
    wrap="env CFIBER_EMULATED=1 $emulator"
    if [ "$variant" = ia32 ]; then
      wrap=''
      # The kernel itself: programs meet it as they meet no emulator.
      if ! runs 'int main(void) { return 0; }' "$cross-gcc" "$static"; then
        ctest_skip ia32 "the kernel does not run programs for 386"
        return
      fi
    fi
  fi
  for c in $compilers; do
    # shellcheck disable=SC2086 # a list of words
    if accepts "$c" $flags; then
      ctest_build "$c" "$variant" "$flags" "$tests" "$wrap" "$libs"
      built=yes
      [ -n "$all" ] || return 0
    elif [ -n "$all" ]; then
      ctest_skip "$c $variant" "that compiler cannot build it here"
    fi
  done
  [ -n "$all$built" ] || ctest_skip "$variant" "no compiler here can build it"
}

# ctest_loong64 TESTS: no Debian so far has a cross gcc and a C library for it; so without zig
# this is the switch alone, instead of switch_test, in a program that needs none. Any clang
# with that target and its lld can build it.
ctest_loong64() {
  local target='--target=loongarch64-linux-gnu -march=loongarch64 -mabi=lp64d' c qemu='' compiler=''
  case " $1 " in *switch_test.c\ *) ;; *)
    ctest_skip loong64 "only the switch test can be built for it"
    return
    ;;
  esac
  for c in qemu-loongarch64 qemu-loongarch64-static; do
    if have $c; then qemu=$c; fi
  done
  for c in clang clang-21 clang-20 clang-19 clang-18; do
    # shellcheck disable=SC2086 # a list of words
    if [ -z "$compiler" ] && have $c && accepts $c $target -fuse-ld=lld -nostdlib -shared; then compiler=$c; fi
  done
  if [ -z "$qemu" ] || [ -z "$compiler" ]; then
    ctest_skip loong64 "wants qemu-loongarch64, and a clang and lld with that target"
    return
  fi
  local exe=build/ctest/loong64/switch_freestanding log result=0 start=$SECONDS
  log=$exe.log
  mkdir -p "${exe%/*}"
  # shellcheck disable=SC2086 # a list of words
  $compiler $target -std=gnu11 -O2 -g -Wall -Wextra -ffreestanding -fno-omit-frame-pointer -nostdlibinc \
    -Icsrc -static -nostdlib -fuse-ld=lld -o $exe csrc/testdata/switch_freestanding.c \
    csrc/switch_loong64.c csrc/switch_loong64.S >$log 2>&1 || result=$?
  if [ $result = 0 ]; then limited 120 $qemu $exe >>$log 2>&1 || result=$?; fi
  if [ $result = 0 ]; then
    say "PASS $compiler loong64 csrc/testdata/switch_freestanding.c ($((SECONDS - start)) s)"
    ctest_passed=$((ctest_passed + 1))
  else
    say "FAIL $compiler loong64 csrc/testdata/switch_freestanding.c (exit status $result)"
    sed 's/^/    /' $log
    ctest_failed=$((ctest_failed + 1))
  fi
}

ctest_skip() {
  if skipped "$@"; then
    ctest_skipped=$((ctest_skipped + 1))
  else
    ctest_failed=$((ctest_failed + 1))
  fi
}

# ctest_build COMPILER VARIANT FLAGS TESTS WRAP LIBS: one build of the core and all tests on
# it, linked with LIBS too, each run by the command WRAP.
ctest_build() {
  local compiler=$1 name=$2 flags=$3 tests=$4 wrap=$5 libs=$6 dir cc std t exe start result
  dir=build/ctest/${compiler%% *}-$name
  flags="$(core_flags "$compiler") -Icsrc $flags ${CFLAGS-}"
  # shellcheck disable=SC2086 # lists of words
  if ! compile "$compiler" "$dir" $flags; then
    say "FAIL $compiler $name: the core does not compile"
    ctest_failed=$((ctest_failed + 1))
    return
  fi
  # The linker takes the objects of an -flto build as they are; an archive of them would
  # need the compiler's own ar.
  local core="$dir/libcfiber.a"
  case $flags in
    *-flto*) core="$dir/*.o" ;;
    *) ar rcs "$core" "$dir"/*.o ;;
  esac
  for t in $tests; do
    exe=$dir/$(basename "${t%.*}")
    cc=$compiler
    std=
    case $t in
      *.cc)
        std=-std=gnu++17 # the last -std counts
        case $compiler in
          gcc*) cc=g++${compiler#gcc} ;;
          clang*) cc=clang++${compiler#clang} ;;
          *-gcc) cc=${compiler%gcc}g++ ;;
          *) cc=${CXX:-c++} ;;
        esac
        if ! have "${cc%% *}"; then
          say "SKIP $compiler $name $t: no $cc"
          ctest_skipped=$((ctest_skipped + 1))
          continue
        fi
        ;;
    esac
    # The emulator runs stores and loads that are to stay in order as plain ones of the host,
    # which may swap them: what litmus_test sees there is the emulator's fault.
    case $wrap:$t in *qemu*:*/litmus_test.c) continue ;; esac
    ctest_concerns "$name" "$t" || continue
    start=$SECONDS
    # shellcheck disable=SC2086 # lists of words, and *.o
    if ! $cc $flags $std -o "$exe" "$t" $core $libs -pthread -lm ${LDFLAGS-} >"$exe.log" 2>&1; then
      result=1
    else
      result=0
      ctest_run "$name" "$exe" "$wrap" >>"$exe.log" 2>&1 </dev/null || result=$?
    fi
    case $result in
      0)
        say "PASS $compiler $name $t ($((SECONDS - start)) s)"
        ctest_passed=$((ctest_passed + 1))
        ;;
      77) # automake's word for a test that cannot run here
        say "SKIP $compiler $name $t: $(tail -n 1 "$exe.log")"
        ctest_skipped=$((ctest_skipped + 1))
        ;;
      *)
        case $result in 124) result="no end within $ctest_limit s" ;; *) result="exit status $result" ;; esac
        say "FAIL $compiler $name $t ($result)"
        sed 's/^/    /' "$exe.log"
        ctest_failed=$((ctest_failed + 1))
        ;;
    esac
  done
}

# ctest_concerns VARIANT TEST: whether the variant makes a difference to the test.
ctest_concerns() {
  local program=${2##*/}
  program=${program%_test.*}
  case $1:$program in
    chaos*) ! chaos_leaves_out "$program" ;;
    migrate*:core | migrate*:join | migrate*:stress | migrate*:cases) ;;
    migrate*) return 1 ;;
  esac
}

# ctest_run VARIANT PROGRAM WRAP
ctest_run() {
  local program=${2##*/}
  program=${program%_test}
  # shellcheck disable=SC2086 # a list of words
  case $1 in
    chaos*)
      CFIBER_CHAOS_EXCEPT=$(chaos_environment "$program") scripts/seeds.sh \
        "CFIBER_CHAOS_SEEDS=1 CFIBER_CHAOS_SEED=% ./build.sh ctest --variant $1 $program" $3 "$2"
      ;;
    *) limited "$ctest_limit" $3 "$2" ;;
  esac
}
