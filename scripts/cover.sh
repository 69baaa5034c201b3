# shellcheck shell=bash
# What of the code the tests reach.

# cover_c DIR: the C tests on a core that counts, with objects and counts in DIR.
cover_c() {
  local dir=$1 flags cc std t exe failed=0
  flags="$(core_flags gcc) -Icsrc -O0 -g"
  # shellcheck disable=SC2086 # lists of words
  compile gcc "$dir" $flags --coverage -fprofile-update=atomic || return
  for t in csrc/testdata/*_test.c csrc/testdata/*_test.cc; do
    exe=$dir/$(basename "${t%.*}")
    cc=gcc std=
    case $t in *.cc) cc=g++ std=-std=gnu++17 ;; esac
    # shellcheck disable=SC2086
    $cc $flags $std -o "$exe" "$t" "$dir"/*.o -lgcov -pthread -lm >"$exe.log" 2>&1 || {
      cat "$exe.log"
      return 1
    }
    say "$t"
    CFIBER_PROGRAMS=300 limited 300 "$exe" >"$exe.log" 2>&1 </dev/null || [ $? = 77 ] || {
      cat "$exe.log"
      failed=1
    }
  done
  return $failed
}

# cover_go DIR TEMP: the Go tests, on C code that counts too. cgo compiles in a folder of its own below
# TEMP, which is where the counts go. They are written by a test binary that is told so,
# since Go's end of a program knows nothing of C's.
cover_go() {
  local dir=$1 temp=$2
  mkdir -p "$dir" "$temp/cache"
  GOCACHE=$temp/cache GOTMPDIR=$temp CGO_CFLAGS='-O0 -g --coverage -fprofile-update=atomic' \
    CGO_LDFLAGS='--coverage -Wl,-u,__gcov_dump' \
    go test -c -work -cover -o "$dir/go.test" . >"$dir/go.log" 2>&1 || {
    cat "$dir/go.log"
    return 1
  }
  say "the Go tests"
  limited 900 "$dir/go.test" -test.short -test.skip '^TestPackaging' -test.coverprofile="$dir/go.out" \
    >"$dir/go.log" 2>&1 || {
    cat "$dir/go.log"
    return 1
  }
}

cmd_cover() {
  need_go
  need gcc || exit 1
  have gcov || die "gcov is missing; it comes with gcc"
  local dir=build/cover temp failed=0
  rm -rf $dir
  mkdir -p $dir
  # Not below build/: what go makes there would be taken for packages of the module.
  temp=$(mktemp -d "${TMPDIR:-/tmp}/cfiber.XXXXXX")
  cover_c $dir/c || failed=1
  cover_go $dir/go "$temp" || failed=1
  # Also of tests that failed: what they have reached they have reached.
  find $dir/c "$temp" -name '*.gcno' -exec gcov -b --json-format --stdout '{}' ';' 2>/dev/null |
    go run ./internal/covsum -module github.com/cfiber/cfiber $dir/go/go.out | tee $dir/report || failed=1
  say '' "docs/coverage.md says why the rest is not reached. This list is $dir/report."
  chmod -R u+w "$temp"
  rm -rf "$temp"
  return $failed
}
