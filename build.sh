#!/usr/bin/env bash
# Builds, checks and measures cfiber. ./build.sh --help says what it does.
#
# Kept to what bash 3.2 and the tools of any of the systems have, so that it
# runs on macOS and the BSDs as well.
set -euo pipefail

caller_dir=$PWD
root=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
cd "$root"

# staticcheck is run by version, so that it is the same everywhere and needs no
# install. The newest release wants the newest Go.
staticcheck_new=v0.8.2   # 2026.2.2, Go 1.26 or later
staticcheck_go125=v0.7.0 # the last for Go 1.25

usage() {
  cat <<'EOF'
usage: ./build.sh COMMAND [ARGUMENT...]

  lib [--prefix DIR]  build libcfiber for C programs without Go, static and shared, and
                      install it with cfiber.h and the pkg-config files below DIR
                      (default build/prefix; $DESTDIR is honoured)
  test [STEP...]      run every check, or only the steps named:
                      lint model ctest variants go race asan packaging bench
  check               run test and all that takes longer: the other variants and architectures
                      of the C tests, cross, and the larger models
  ctest [--variant NAME]... [TEST...]
                      run the C tests (csrc/testdata/TEST_test.c). The variants are plain (-O2)
                      and lto (-O3 -flto), which run by default and with each of gcc and clang
                      that is there; with one of them, the sanitizers address, thread and
                      undefined, ucontext (instead of the assembly), and valgrind; kqueue and
                      kqueue-pipe (the poller of macOS and the BSDs, on Linux by libkqueue);
                      and other architectures, emulated: arm64 arm 386 ppc64le riscv64 s390x,
                      and loong64, of which only the switch is tested
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
  deps                install all that the tests need beside Go (see below)

Only cgo's needs (Go 1.25 and a C compiler) are needed to use cfiber from Go: there
go build does all, and this script nothing.

A missing tool is installed through the system's package manager, as root or by sudo
where that asks for no password; otherwise the script says what to install.

Environment:
  CC, CXX            compilers for lib and for cgo
  CFLAGS, LDFLAGS    flags for lib and ctest (default -O2 -g for lib)
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

# ---- Tools and packages ---------------------------------------------------

package_manager() {
  case $(uname -s) in
    Darwin)
      if have brew; then echo brew; fi
      ;;
    FreeBSD | DragonFly)
      if have pkg; then echo pkg; fi
      ;;
    Linux)
      local m
      for m in apt-get dnf apk pacman zypper; do
        if have "$m"; then
          echo "$m"
          return
        fi
      done
      ;;
  esac
}

# packages_for MANAGER TOOL: the packages that bring TOOL. Nothing where there is
# none to install, because the system has it or brings it by other means.
packages_for() {
  case $1:$2 in
    apt-get:cc) echo gcc libc6-dev ;;
    dnf:cc | pacman:cc | zypper:cc) echo gcc ;;
    apk:cc) echo build-base ;;

    apt-get:c++) echo g++ ;;
    dnf:c++) echo gcc-c++ ;;
    pacman:c++) echo gcc ;;
    apk:c++) echo build-base ;;
    zypper:c++) echo gcc-c++ ;;

    apt-get:clang | dnf:clang | apk:clang | pacman:clang | zypper:clang) echo clang ;;
    pkg:clang | brew:clang) echo llvm ;;

    apt-get:clang-format | brew:clang-format) echo clang-format ;;
    dnf:clang-format) echo clang-tools-extra ;;
    apk:clang-format) echo clang-extra-tools ;;
    pacman:clang-format | zypper:clang-format) echo clang ;;
    pkg:clang-format) echo llvm ;;

    apt-get:pkg-config) echo pkg-config ;;
    dnf:pkg-config) echo pkgconf-pkg-config ;;
    apk:pkg-config | pacman:pkg-config | zypper:pkg-config) echo pkgconf ;;
    pkg:pkg-config | brew:pkg-config) echo pkgconf ;;

    dnf:shellcheck | zypper:shellcheck) echo ShellCheck ;;
    pkg:shellcheck) echo hs-ShellCheck ;;
    *:shellcheck) echo shellcheck ;;

    # For the example and the tests that talk to a real server.
    apt-get:redis-server) echo redis-server ;;
    *:redis-server) echo redis ;;

    *:git | *:gdb | *:strace) echo "$2" ;;
  esac
}

as_root() {
  if [ "$(id -u)" = 0 ]; then
    "$@"
  elif have sudo && sudo -n true 2>/dev/null; then
    sudo -n "$@"
  else
    return 1
  fi
}

refreshed=
install_packages() { # install_packages MANAGER PACKAGE...
  local manager=$1
  shift
  # Some images come without an index, and an old index names packages that the
  # mirror no longer has.
  if [ -z "$refreshed" ]; then
    refreshed=yes
    case $manager in
      apt-get) as_root apt-get update -q >&2 || warn "apt-get update failed; trying with the index as it is" ;;
      pacman) as_root pacman -Sy >&2 || true ;;
    esac
  fi
  case $manager in
    apt-get)
      as_root env DEBIAN_FRONTEND=noninteractive \
        apt-get install -q -y --no-install-recommends "$@" >&2
      ;;
    dnf) as_root dnf install -q -y "$@" >&2 ;;
    apk) as_root apk add "$@" >&2 ;;
    pacman) as_root pacman -S --noconfirm --needed "$@" >&2 ;;
    zypper) as_root zypper --non-interactive install "$@" >&2 ;;
    pkg) as_root pkg install -y "$@" >&2 ;;
    brew) brew install "$@" >&2 ;; # refuses to run as root
  esac
}

# need TOOL: true if TOOL is there, or could be installed. If not, says why.
need() {
  local tool=$1 manager packages
  if have "$tool"; then return; fi
  if [ "$tool" = cc ] && [ "$(uname -s)" = Darwin ]; then
    warn "no C compiler: run xcode-select --install"
    return 1
  fi
  manager=$(package_manager)
  packages=
  if [ -n "$manager" ]; then packages=$(packages_for "$manager" "$tool"); fi
  if [ -z "$packages" ]; then
    warn "$tool is missing; install it and run this again"
    return 1
  fi
  if [ -z "${CFIBER_NO_INSTALL:-}" ]; then
    warn "$tool is missing; installing $packages"
    # shellcheck disable=SC2086 # a list of words
    if install_packages "$manager" $packages && have "$tool"; then return; fi
  fi
  warn "$tool is missing; install it, for example with: $manager install $packages"
  return 1
}

need_go() {
  local version minor
  if ! have go; then
    die "Go is missing. cfiber needs Go 1.25 or later: take it from the Go project's own
download page, or from your system's packages if those are new enough (Debian's are not)."
  fi
  version=$(go env GOVERSION)
  minor=${version#go1.}
  minor=${minor%%[!0-9]*}
  # No number: a development version, which is newer than any release.
  if [ -n "$minor" ] && [ "$minor" -lt 25 ]; then
    die "$version at $(command -v go) is too old. cfiber needs Go 1.25 or later: take it from the
Go project's own download page (a distribution's package is often older)."
  fi
}

# compiler: the C compiler for lib, and its name in cgo's environment.
compiler() {
  if [ -n "${CC:-}" ]; then
    # shellcheck disable=SC2086 # CC may hold flags
    set -- $CC
    have "$1" || die "CC is $CC, and there is no $1"
    return
  fi
  need cc || exit 1
  CC=cc
}

cmd_deps() {
  need_go
  local manager tools tool packages
  manager=$(package_manager)
  tools='cc c++ clang clang-format pkg-config shellcheck git redis-server gdb'
  if [ "$(uname -s)" = Linux ]; then tools="$tools strace"; fi

  # All in one go, since each start of a package manager takes seconds.
  packages=
  for tool in $tools; do
    if [ -n "$manager" ] && ! have "$tool"; then
      packages="$packages $(packages_for "$manager" "$tool")"
    fi
  done
  if [ "$manager" = apt-get ]; then
    # What a bare image lacks and no command's absence shows: the certificates that go's
    # downloads are checked with, and Boost's switch, which a benchmark measures too.
    [ -e /etc/ssl/certs/ca-certificates.crt ] || packages="$packages ca-certificates"
    have spin || packages="$packages spin" # the model checker
    [ -e /usr/include/boost/context/detail/fcontext.hpp ] || packages="$packages libboost-context-dev"
  fi
  # shellcheck disable=SC2086 # a list of words
  set -- $packages
  if [ $# -gt 0 ]; then
    if [ -n "${CFIBER_NO_INSTALL:-}" ]; then die "not installed: $*"; fi
    install_packages "$manager" "$@" || die "could not install all of: $*"
  fi
  for tool in $tools; do
    have "$tool" || die "$tool is still missing"
  done

  # For the kqueue variants of the C tests. Not every release has it.
  if [ "$manager" = apt-get ] && [ -z "${CFIBER_NO_INSTALL:-}" ] && ! pkg-config --exists libkqueue &&
    ! install_packages apt-get libkqueue-dev; then
    warn "no libkqueue-dev: the kqueue variants of the C tests will be skipped"
  fi

  # clang's sanitizers, which Debian has in a package of their own, named by the version.
  if [ "$manager" = apt-get ] && ! accepts clang -fsanitize=thread; then
    packages=libclang-rt-$(clang -dumpversion | cut -d . -f 1)-dev
    if [ -n "${CFIBER_NO_INSTALL:-}" ] || ! install_packages apt-get "$packages"; then
      warn "no $packages: gcc's sanitizers will be used, which are slower"
    fi
  fi

  # For the C tests on another architecture. Apart, since Debian's cross compilers cannot be
  # installed beside its gcc-multilib, which may be wanted more.
  if [ "$manager" = apt-get ] && emulates_arm64 && ! { have aarch64-linux-gnu-g++ && have qemu-aarch64; }; then
    if [ -n "${CFIBER_NO_INSTALL:-}" ] ||
      ! install_packages apt-get g++-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user; then
      warn "no cross compiler and emulator for arm64: those tests will be skipped"
    fi
  fi
}

# Whether the tests also run on arm64, by emulation: not where they do so anyway.
emulates_arm64() { [ "$(uname -s)" = Linux ] && [ "$(uname -m)" != aarch64 ]; }

# ---- The C library --------------------------------------------------------

version() {
  local v
  v=$(sed -n -E 's/^#define CFIBER_VERSION_(MAJOR|MINOR|PATCH) //p' csrc/include/cfiber.h | tr '\n' .)
  echo "${v%.}"
}

# accepts COMPILER FLAG...: whether it compiles and links with them, without a word.
accepts() {
  local compiler=$1
  shift
  links 'int main(void) { return 0; }' "$compiler" "$@"
}

links() { # links PROGRAM COMPILER FLAG...: the same for the text of a C program
  local program=$1 compiler=$2 dir ok=1
  shift 2
  dir=$(mktemp -d "${TMPDIR:-/tmp}/cfiber.XXXXXX")
  echo "$program" >"$dir/t.c"
  # shellcheck disable=SC2086 # it may hold flags
  if $compiler "$@" -o "$dir/t" "$dir/t.c" >"$dir/log" 2>&1 && [ ! -s "$dir/log" ]; then ok=0; fi
  rm -rf "$dir"
  return $ok
}

# core_flags COMPILER: what every build of csrc is given, cgo.go's build aside. The reasons
# stand there.
core_flags() {
  local flags='-std=gnu11 -Wall -Wextra -Icsrc/include -fno-omit-frame-pointer -fasynchronous-unwind-tables'
  if accepts "$1" -fstack-clash-protection; then flags="$flags -fstack-clash-protection"; fi
  echo "$flags"
}

# compile COMPILER DIR FLAG...: every source of csrc to an object in DIR. Each source says
# itself, by #if, for which systems it has anything.
compile() {
  local compiler=$1 dir=$2
  shift 2
  rm -rf "$dir"
  mkdir -p "$dir"
  # shellcheck disable=SC2016 # for the inner shell, to which xargs gives the source last
  printf '%s\0' csrc/*.c csrc/*.S | COMPILER=$compiler DIR=$dir xargs -0 -n 1 -P "$(jobs_wanted)" \
    sh -c 'for s; do :; done; $COMPILER "$@" -c -o "$DIR/${s##*/}.o" || exit 255' sh "$@"
}

jobs_wanted() { getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2; }

# exported COMPILER: the functions that the header declares, and so all that a shared
# library exports.
exported() {
  # shellcheck disable=SC2086 # it may hold flags
  $1 -E -P csrc/include/cfiber.h | grep -oE '(^|[^A-Za-z0-9_])cfiber_[a-z0-9_]+\(' |
    sed 's/[^a-z0-9_]//g' | sort -u
}

cmd_lib() {
  local prefix=$root/build/prefix
  while [ $# -gt 0 ]; do
    case $1 in
      --prefix=*) prefix=${1#*=} ;;
      --prefix)
        [ $# -gt 1 ] || die "--prefix wants a folder"
        prefix=$2
        shift
        ;;
      *) die "lib: unknown argument $1" ;;
    esac
    shift
  done
  case $prefix in
    '') die "--prefix wants a folder" ;;
    /*) ;;
    *) prefix=$caller_dir/$prefix ;;
  esac
  compiler

  local v so dir=build/lib lib name
  v=$(version)
  so=${v%%.*}
  local flags
  flags="$(core_flags "$CC") -fPIC"
  # Calls inside the library go straight to their target, as in the static one.
  if accepts "$CC" -fno-semantic-interposition; then flags="$flags -fno-semantic-interposition"; fi
  say "compiling libcfiber $v with $CC ${CFLAGS--O2 -g}"
  # shellcheck disable=SC2086 # lists of words
  compile "$CC" "$dir" $flags ${CFLAGS--O2 -g}

  rm -f "$dir/libcfiber.a"
  ar rcs "$dir/libcfiber.a" "$dir"/*.o

  exported "$CC" >"$dir/exported"
  [ -s "$dir/exported" ] || die "found no function in cfiber.h"
  # shellcheck disable=SC2086 # lists of words
  if [ "$(uname -s)" = Darwin ]; then
    name=libcfiber.$so.dylib
    sed 's/^/_/' "$dir/exported" >"$dir/exported.list"
    $CC -dynamiclib ${CFLAGS--O2 -g} ${LDFLAGS-} -o "$dir/$name" "$dir"/*.o \
      -install_name "$prefix/lib/$name" -current_version "$v" -compatibility_version "$so" \
      -Wl,-exported_symbols_list,"$dir/exported.list"
  else
    name=libcfiber.so.$v
    { echo '{ global:' && sed 's/$/;/' "$dir/exported" && echo 'local: *; };'; } >"$dir/exported.map"
    local defs=
    # The BSDs' own shared libraries leave environ to the program.
    if [ "$(uname -s)" = Linux ]; then defs=-Wl,-z,defs; fi
    $CC -shared ${CFLAGS--O2 -g} ${LDFLAGS-} -o "$dir/$name" "$dir"/*.o \
      -Wl,-soname,"libcfiber.so.$so" -Wl,--version-script="$dir/exported.map" \
      -Wl,-Bsymbolic-functions $defs -Wl,--as-needed -pthread -lm
  fi

  local to=${DESTDIR-}$prefix
  mkdir -p "$to/include" "$to/lib/pkgconfig"
  cp csrc/include/cfiber.h "$to/include/"
  # Not cp over an old one: a running program may have it mapped.
  for lib in libcfiber.a "$name"; do
    rm -f "$to/lib/$lib"
    cp "$dir/$lib" "$to/lib/"
  done
  case $name in
    *.dylib) ln -sf "$name" "$to/lib/libcfiber.dylib" ;;
    *)
      ln -sf "$name" "$to/lib/libcfiber.so.$so"
      ln -sf "libcfiber.so.$so" "$to/lib/libcfiber.so"
      ;;
  esac
  local escaped
  escaped=$(printf '%s' "$prefix" | sed 's/[\\|&]/\\&/g')
  for name in cfiber cfiber-headers; do
    sed -e "s|@PREFIX@|$escaped|" -e "s|@VERSION@|$v|" "csrc/$name.pc.in" >"$to/lib/pkgconfig/$name.pc"
  done
  say "installed below $to"
}

# ---- Checks -----------------------------------------------------------------

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
    ctest_variant "$v" "$tests" "$compilers"
  done
  say "C tests: $ctest_passed passed, $ctest_failed failed, $ctest_skipped skipped"
  count $ctest_passed $ctest_failed $ctest_skipped
  [ $ctest_failed = 0 ]
}

all_variants='plain lto address thread undefined ucontext valgrind kqueue kqueue-pipe arm64 arm 386 ppc64le riscv64 s390x loong64'

makecontext_program='#define _XOPEN_SOURCE 700
#include <ucontext.h>
static ucontext_t u;
static void f(void) {}
int main(void) { makecontext(&u, f, 0); return 0; }'

# ctest_variant VARIANT TESTS COMPILERS: the tests in one variant, with all compilers where
# the compiler matters, else with the first that can.
ctest_variant() {
  local variant=$1 tests=$2 compilers=$3 flags='' all='' built='' wrap='' cross='' qemu='' static='' libs='' c
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
      wrap='valgrind -q --error-exitcode=99'
      if ! have valgrind; then
        ctest_skip valgrind "not installed"
        return
      fi
      ;;
    loong64)
      ctest_loong64 "$tests"
      return
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
    arm64) cross=aarch64-linux-gnu qemu=qemu-aarch64 ;;
    arm) cross=arm-linux-gnueabihf qemu=qemu-arm ;;
    ppc64le) cross=powerpc64le-linux-gnu qemu=qemu-ppc64le ;;
    riscv64) cross=riscv64-linux-gnu qemu=qemu-riscv64 ;;
    s390x) cross=s390x-linux-gnu qemu=qemu-s390x ;;
    # Static, because under this emulator no dynamic program gets past pthread_create.
    386) cross=i686-linux-gnu qemu=qemu-i386 static=-static ;;
    address | thread | undefined)
      flags="-O1 -g -fsanitize=$variant -fno-sanitize-recover=all"
      # An older ThreadSanitizer does not cope with all layouts of the address space.
      if [ "$variant" = thread ] && have setarch && setarch "$(uname -m)" -R true 2>/dev/null; then
        wrap="setarch $(uname -m) -R"
      fi
      # gcc's takes most of a megabyte for each fiber, and minutes where clang's takes seconds.
      if [ "$variant" = thread ]; then
        case " $compilers " in *' clang '*) compilers="clang $compilers" ;; esac
      fi
      ;;
  esac
  if [ -n "$cross" ]; then
    # The names and folders that Debian's cross compilers have.
    if ! have "$cross-gcc" || ! have "$qemu"; then
      ctest_skip "$variant" "wants $cross-gcc and $qemu"
      return
    fi
    compilers=$cross-gcc
    # gcc notes for some of these what changed in their calling convention long ago.
    flags="-O2 -g -Wno-psabi $static"
    wrap="$qemu -L /usr/$cross"
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

# ctest_loong64 TESTS: no Debian so far has a cross gcc and a C library for it; so this is
# the switch alone, instead of switch_test, in a program that needs none. Any clang with
# that target and its lld can build it.
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
    start=$SECONDS
    # shellcheck disable=SC2086 # lists of words, and *.o
    if ! $cc $flags $std -o "$exe" "$t" $core $libs -pthread -lm ${LDFLAGS-} >"$exe.log" 2>&1; then
      result=1
    else
      result=0
      # shellcheck disable=SC2086
      limited 120 $wrap "$exe" >>"$exe.log" 2>&1 </dev/null || result=$?
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
        case $result in 124) result='no end within 120 s' ;; *) result="exit status $result" ;; esac
        say "FAIL $compiler $name $t ($result)"
        sed 's/^/    /' "$exe.log"
        ctest_failed=$((ctest_failed + 1))
        ;;
    esac
  done
}

c_files() { find . \( -name .git -o -path ./build \) -prune -o \( -name '*.c' -o -name '*.h' -o -name '*.cc' \) -print0; }

cmd_fmt() {
  need_go
  need clang-format || exit 1
  gofmt -w .
  c_files | xargs -0 clang-format -i
}

# staticcheck: the path of a staticcheck built by the Go that is here.
staticcheck() {
  local version=$staticcheck_new go dir
  go=$(go env GOVERSION)
  case $go in go1.25*) version=$staticcheck_go125 ;; esac
  dir=$root/build/tools/staticcheck-$version-$go
  if [ ! -x "$dir/staticcheck" ]; then
    GOFLAGS='' GOBIN=$dir go install "honnef.co/go/tools/cmd/staticcheck@$version" >&2 || return
  fi
  echo "$dir/staticcheck"
}

cmd_lint() {
  need_go
  need cc || exit 1
  local bad=0 out c tool

  say "gofmt"
  out=$(gofmt -l .)
  if [ -n "$out" ]; then
    say "not formatted (./build.sh fmt does it):" "$out"
    bad=1
  fi

  say "clang-format"
  if need clang-format; then
    out=$(c_files | while read -r -d '' c; do clang-format "$c" | diff -u "$c" - || true; done)
    case $(clang-format --version) in
      *' 14.'*)
        if [ -n "$out" ]; then
          say "$out" "./build.sh fmt formats"
          bad=1
        fi
        ;;
      *) [ -z "$out" ] || skipped clang-format "the style of record is that of version 14; this one differs" || bad=1 ;;
    esac
  else
    skipped clang-format "not installed" || bad=1
  fi

  # With and without CFIBER_CGO, which some of the code depends on.
  for c in gcc clang; do
    if have $c; then
      say "warnings of $c"
      # shellcheck disable=SC2046 # a list of words
      if ! compile $c build/lint/$c $(core_flags $c) -O2 -Werror ||
        ! compile $c build/lint/$c-cgo $(core_flags $c) -O2 -Werror -DCFIBER_CGO; then
        bad=1
      fi
    fi
  done

  say "go vet"
  go vet ./... || bad=1
  go vet -C cmd/cfiberbench ./... || bad=1
  # The Go code for other systems, as far as it can be checked without their C compilers.
  for c in freebsd/amd64 netbsd/386 openbsd/amd64 dragonfly/amd64 darwin/arm64; do
    say "go vet for $c"
    GOOS=${c%/*} GOARCH=${c#*/} CGO_ENABLED=0 go vet . || bad=1
    GOOS=${c%/*} GOARCH=${c#*/} CGO_ENABLED=0 go vet -C cmd/cfiberbench ./... || bad=1
  done

  say "staticcheck"
  if tool=$(staticcheck); then
    "$tool" ./... || bad=1
    (cd cmd/cfiberbench && "$tool" ./...) || bad=1
  else
    skipped staticcheck "it could not be built" || bad=1
  fi

  say "shellcheck"
  if have shellcheck; then
    find . \( -name .git -o -path ./build \) -prune -o -name '*.sh' -print0 |
      xargs -0 shellcheck .ci/run || bad=1
  else
    skipped shellcheck "not installed" || bad=1
  fi
  return $bad
}

# ---- Other systems -----------------------------------------------------------

# cross_c ZIG ARCH: the core and the C tests for macOS, to programs that cannot run here.
cross_c() {
  local cc="$1 cc -target $2-macos" dir=build/cross/$2-macos flags t
  flags="$(core_flags "$cc") -Icsrc -Werror -O2 -g"
  # shellcheck disable=SC2086 # lists of words
  compile "$cc" "$dir-cgo" $flags -DCFIBER_CGO &&
    compile "$cc" "$dir" $flags || return
  for t in csrc/testdata/*_test.c; do
    # shellcheck disable=SC2086
    $cc $flags -o "$dir/$(basename "${t%.c}")" "$t" "$dir"/*.o || return
  done
  # shellcheck disable=SC2086
  $1 c++ -target "$2-macos" $flags -std=gnu++17 -o "$dir/exceptions_test" \
    csrc/testdata/exceptions_test.cc "$dir"/*.o
}

# cross_cc ZIG ARCH: prints the path of a compiler for cgo. zig has no frameworks of macOS and
# does not know some flags of its linker; Go's own packages ask for them, and cfiber for none.
cross_cc() {
  local path=$root/build/cross/cc-$2
  mkdir -p "$root/build/cross"
  cat >"$path" <<EOF
#!/usr/bin/env bash
args=()
while [ \$# -gt 0 ]; do
  case \$1 in
    -framework) shift ;;
    -lresolv | -Wl,-x | -Wl,-S | -Wl,--compress-debug-sections=* | -Qunused-arguments) ;;
    *) args+=("\$1") ;;
  esac
  shift
done
exec $1 cc -target $2-macos "\${args[@]}"
EOF
  chmod +x "$path"
  echo "$path"
}

cmd_cross() {
  need_go
  local bad=0 zig=${ZIG:-zig} arch goarch s t
  for s in freebsd netbsd openbsd dragonfly; do
    say "go vet for $s"
    GOOS=$s GOARCH=amd64 CGO_ENABLED=0 go vet ./... || bad=1
  done
  if have clang; then
    for t in x86_64-unknown-freebsd aarch64-unknown-freebsd x86_64-unknown-netbsd x86_64-unknown-openbsd; do
      say "assembly for $t"
      mkdir -p "build/cross/$t"
      for s in csrc/*.S; do
        clang "--target=$t" -ffreestanding -c -o "build/cross/$t/$(basename "$s").o" "$s" || bad=1
      done
    done
  else
    skipped "assembly for the BSDs" "no clang" || bad=1
  fi
  if ! have "$zig"; then
    skipped macOS "no zig, whose compiler brings what macOS has for headers and libraries" || bad=1
    return $bad
  fi
  for arch in aarch64 x86_64; do
    say "C for $arch-macos"
    cross_c "$zig" $arch || bad=1
    goarch=amd64
    if [ $arch = aarch64 ]; then goarch=arm64; fi
    say "Go for $arch-macos"
    s=$(cross_cc "$zig" $arch)
    GOOS=darwin GOARCH=$goarch CGO_ENABLED=1 CC=$s go vet ./... || bad=1
    GOOS=darwin GOARCH=$goarch CGO_ENABLED=1 CC=$s go build -ldflags=-w ./... || bad=1 # -w: strip here knows no Mach-O
  done
  return $bad
}

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
step_bench() {
  go_test_in cmd/cfiberbench -timeout 10m ./...
  cfiberbench
  "$cfiberbench" run -quick -peers none
  count 1 0 0
}

all_steps='lint model ctest variants go race asan packaging bench'

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

cmd_check() {
  local failed=0 v
  "$BASH" "$root/build.sh" test || failed=1
  for v in valgrind kqueue kqueue-pipe arm 386 ppc64le riscv64 s390x loong64; do
    cmd_ctest --variant $v || failed=1
  done
  cmd_cross || failed=1
  if have spin; then model/check.sh --long || failed=1; fi
  return $failed
}

cmd_demo() {
  need_go
  need cc || exit 1
  exec go run ./examples/demo "$@"
}

# cfiberbench: builds it; it is then $cfiberbench. It tells which commit it measured.
cfiberbench() {
  local commit
  commit=$(git describe --always --dirty --abbrev=12 2>/dev/null || echo unknown)
  cfiberbench=$root/cmd/cfiberbench/build/cfiberbench
  go build -C cmd/cfiberbench -o build/cfiberbench \
    -ldflags "-X github.com/cfiber/cfiber/cmd/cfiberbench/internal/machine.commit=$commit" .
}

cmd_bench() {
  need_go
  need cc || exit 1
  case ${1:-} in
    --go)
      exec go test -run '^$' -bench "${2:-.}" -benchmem .
      ;;
    --peers)
      bench_peers
      return
      ;;
  esac
  cfiberbench
  cd "$caller_dir" # files are named from there
  case ${1:-} in
    '' | -*) set -- run "$@" ;;
  esac
  exec "$cfiberbench" "$@"
}

# Installs the libraries that the peers of cfiberbench are, as far as there are packages of
# them, and says which are still absent.
bench_peers() {
  need c++ || exit 1
  cfiberbench
  local package failed=''
  if [ "$(package_manager)" = apt-get ]; then
    for package in $("$cfiberbench" list -packages); do
      # One by one: a system may lack one of them.
      if ! dpkg -s "$package" >/dev/null 2>&1; then
        install_packages apt-get "$package" || failed="$failed $package"
      fi
    done
    if [ -n "$failed" ]; then warn "could not install:$failed"; fi
  else
    say "Their packages are known by Debian's names only:" "$("$cfiberbench" list -packages)"
  fi
  "$cfiberbench" list -subjects
}

case ${1:-} in
  lib | test | check | ctest | cross | demo | bench | lint | fmt | deps)
    command=$1
    shift
    "cmd_$command" "$@"
    ;;
  step) "step_$2" ;; # of cmd_test, for itself
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
