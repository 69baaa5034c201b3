# shellcheck shell=bash
# Other architectures of Linux, by Debian's cross compilers and qemu's emulators of a single process;
# and other C libraries, by zig.

# emulation ARCH (as Go names it): sets cross, the prefix of its compilers, qemu, and emulator,
# the command that runs its programs.
emulation() {
  case $1 in
    386) cross=i686-linux-gnu qemu=qemu-i386 ;;
    arm) cross=arm-linux-gnueabihf qemu=qemu-arm ;;
    arm64) cross=aarch64-linux-gnu qemu=qemu-aarch64 ;;
    loong64) cross=loongarch64-linux-musl qemu=qemu-loongarch64 ;;
    ppc64le) cross=powerpc64le-linux-gnu qemu=qemu-ppc64le ;;
    riscv64) cross=riscv64-linux-gnu qemu=qemu-riscv64 ;;
    s390x) cross=s390x-linux-gnu qemu=qemu-s390x ;;
    *) die "no emulation of $1" ;;
  esac
  emulator="$qemu -L /usr/$cross"
}

# Whether what `emulation` has named is there.
emulated() { have "$cross-gcc" && have "$cross-g++" && have "$qemu"; }

# zig_compilers TARGET: puts TARGET-gcc and TARGET-g++ into the path. They are zig, which brings a C
# library for each of its targets. False where there is no zig.
zig_compilers() {
  local dir=$root/build/zig zig=${ZIG:-zig}
  have "$zig" || return
  mkdir -p "$dir"
  printf '#!/bin/sh\nexec "%s" cc -target %s "$@"\n' "$zig" "$1" >"$dir/$1-gcc"
  printf '#!/bin/sh\nexec "%s" c++ -target %s "$@"\n' "$zig" "$1" >"$dir/$1-g++"
  chmod +x "$dir/$1-gcc" "$dir/$1-g++"
  PATH=$dir:$PATH
}

# Whether the tests also run on arm64, by emulation: not where they do so anyway.
emulates_arm64() { [ "$(uname -s)" = Linux ] && [ "$(uname -m)" != aarch64 ]; }

# go_emulated ARCH...: the tests of the Go package on each, with cgo and, where purego knows the
# architecture, without.
go_emulated() {
  local arch cross qemu emulator compilers failed=0
  need_go
  for arch; do
    emulation "$arch"
    if ! emulated; then
      skipped "Go on $arch" "wants $cross-gcc, $cross-g++ and $qemu" || failed=1
      continue
    fi
    compilers="CC=$cross-gcc CXX=$cross-g++" # for the tests, too
    say "Go on $arch, with cgo"
    go_env="GOARCH=$arch CGO_ENABLED=1 $compilers" go_test_emulated || failed=1
    if ! (GOOS=linux GOARCH=$arch CC=$cross-gcc purego_known); then continue; fi
    say "Go on $arch, without cgo"
    go_emulated_purego "$arch" || failed=1
  done
  return $failed
}

go_emulated_purego() { # go_emulated_purego ARCH: in a process of its own, for what it exports
  (
    CC=$cross-gcc
    purego_libraries "build/purego-$1" || exit
    go_env="GOARCH=$1 CGO_ENABLED=0 $compilers"
    # shellcheck disable=SC2046 # a list of words, or none
    go_test_emulated $(purego_flags linux "$1")
  )
}

# go_test_emulated FLAG...: -short, since an emulator is slow and keeps in memory of its own what
# the larger tests would fill.
go_test_emulated() {
  CFIBER_EMULATED=$emulator go_test "$@" -exec "$emulator" -count 1 -short -timeout 20m -skip '^TestPackaging' .
}
