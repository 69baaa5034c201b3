# shellcheck shell=bash
# The Go tests without cgo: the core, and the C functions of the tests, as shared libraries.

# purego_known: whether bridge_purego.go is for this system.
purego_known() {
  case $(go env GOOS)/$(go env GOARCH) in
    darwin/amd64 | darwin/arm64) ;;
    freebsd/amd64 | freebsd/arm64 | netbsd/amd64 | netbsd/arm64) ;;
    # Without cgo, purego asks for the libraries of glibc by name.
    linux/amd64 | linux/arm64 | linux/loong64 | linux/ppc64le | linux/riscv64) ! is_musl ;;
    *) false ;;
  esac
}

is_musl() {
  case $(${CC:-cc} -dumpmachine) in *musl*) ;; *) false ;; esac
}

# purego_flags GOOS GOARCH: what go wants there to build a program without cgo that loads
# libraries.
purego_flags() {
  case $1/$2 in
    freebsd/*) echo -gcflags=github.com/ebitengine/purego/internal/fakecgo=-std ;;
    # Go's linker names a dynamic loader that glibc does not have there.
    linux/riscv64) echo -ldflags=-I=/lib/ld-linux-riscv64-lp64d.so.1 ;;
  esac
}

# purego_libraries DIR: builds both below DIR, and exports where the tests look for them.
purego_libraries() {
  local dir=$root/$1 ext=so
  case $(uname -s) in Darwin) ext=dylib ;; esac
  cmd_lib --prefix "$dir"
  # shellcheck disable=SC2046,SC2086 # lists of words
  $CC $(core_flags "$CC") ${CFLAGS--O2 -g} -fPIC -shared -DCTEST_SHARED -Iinternal/ctest \
    -o "$dir/libctest.$ext" internal/ctest/*.c -L"$dir/lib" -lcfiber -Wl,-rpath,"$dir/lib" -pthread
  export CFIBER_LIBRARY=$dir/lib/libcfiber.$ext CFIBER_CTEST_LIBRARY=$dir/libctest.$ext
}

step_purego() {
  if ! purego_known; then
    say "SKIP purego: on this system cfiber needs cgo"
    count 0 0 1
    return
  fi
  purego_libraries build/purego
  local flags
  flags=$(purego_flags "$(go env GOOS)" "$(go env GOARCH)")
  # shellcheck disable=SC2086 # a list of words, or none
  CGO_ENABLED=0 go vet $flags ./...
  # What cannot be run so: -race and -asan, which want cgo. -count, since a result that is kept
  # does not depend on what the libraries are.
  # shellcheck disable=SC2086
  CGO_ENABLED=0 go_test $flags -count 1 -timeout 10m -skip '^TestPackaging' .
}
