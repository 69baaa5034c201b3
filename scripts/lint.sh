# shellcheck shell=bash
# Format and static checks.

# staticcheck is run by version, so that it is the same everywhere and needs no
# install. The newest release wants the newest Go.
staticcheck_new=v0.8.2   # 2026.2.2, Go 1.26 or later
staticcheck_go125=v0.7.0 # the last for Go 1.25

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

  # What a build has left, and git add -A has taken.
  if have git && git rev-parse --git-dir >/dev/null 2>&1; then
    say "files that are no text"
    out=$(git ls-files -z | xargs -0 grep -LI '' || true)
    if [ -n "$out" ]; then
      say "empty or binary, and known to git:" "$out"
      bad=1
    fi
  fi

  # With and without CFIBER_CGO, which some of the code depends on.
  for c in gcc clang; do
    if have $c; then
      say "warnings of $c"
      # shellcheck disable=SC2046 # a list of words
      if ! compile $c build/lint/$c $(core_flags $c) -O2 -Werror ||
        ! compile $c build/lint/$c-cgo $(core_flags $c) -O2 -Werror -DCFIBER_CGO; then
        bad=1
      elif ! check_sites build/lint/$c-cgo; then
        bad=1
      fi
    fi
  done

  say "go vet"
  go vet ./... || bad=1
  go vet -tags cfiber_chaos . ./csrc || bad=1
  go vet -C cmd/cfiberbench ./... || bad=1
  # The Go code for other systems, as far as it can be checked without their C compilers.
  for c in freebsd/amd64 netbsd/amd64 netbsd/386 openbsd/amd64 dragonfly/amd64 darwin/arm64 linux/arm64; do
    say "go vet for $c"
    tool=$(purego_flags "${c%/*}" "${c#*/}")
    # shellcheck disable=SC2086 # a list of words, or none
    GOOS=${c%/*} GOARCH=${c#*/} CGO_ENABLED=0 go vet $tool . ./internal/ctest || bad=1
    # shellcheck disable=SC2086
    GOOS=${c%/*} GOARCH=${c#*/} CGO_ENABLED=0 go vet -C cmd/cfiberbench $tool ./... || bad=1
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
    # scripts/ is checked as the parts of build.sh that they are.
    find . \( -name .git -o -path ./build -o -path ./scripts \) -prune -o -name '*.sh' -print0 |
      xargs -0 shellcheck -x .ci/run || bad=1
  else
    skipped shellcheck "not installed" || bad=1
  fi
  return $bad
}
