# shellcheck shell=bash
# Compiles for systems that are not at hand.

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
    # shellcheck disable=SC2046 # a list of words, or none
    GOOS=$s GOARCH=amd64 CGO_ENABLED=0 go vet $(purego_flags $s amd64) ./... || bad=1
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
