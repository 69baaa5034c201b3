# shellcheck shell=bash
# cfiberbench, and the Go benchmarks.

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
