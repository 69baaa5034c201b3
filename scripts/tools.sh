# shellcheck shell=bash
# What the machine has, and how to get what it lacks.

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
  case ${1:-} in
    '') ;;
    --check) deps_check ;;
    *) die "deps: unknown argument $1" ;;
  esac
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

# deps_check: what `check` needs beyond `test`, by Debian's names: Valgrind, and for each
# architecture a cross compiler and an emulator. zig and a recent libkqueue are in no Debian.
deps_check() {
  local package packages=''
  [ "$(package_manager)" = apt-get ] || die "deps --check knows the packages of Debian only"
  have valgrind || packages="$packages valgrind"
  have qemu-riscv64 || packages="$packages qemu-user"
  for package in arm-linux-gnueabihf i686-linux-gnu powerpc64le-linux-gnu riscv64-linux-gnu s390x-linux-gnu; do
    have "$package-g++" || packages="$packages g++-$package"
  done
  # For loong64, which the default clang of Debian 12 does not know.
  have clang-19 && have ld.lld-19 || packages="$packages clang-19 lld-19"
  # shellcheck disable=SC2086 # a list of words
  set -- $packages
  if [ $# -gt 0 ]; then
    if [ -n "${CFIBER_NO_INSTALL:-}" ]; then die "not installed: $*"; fi
    install_packages apt-get "$@" || die "could not install all of: $*"
  fi
}
