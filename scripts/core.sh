# shellcheck shell=bash
# Builds the C core: flags, objects, and the library for programs without Go.

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

# links PROGRAM COMPILER FLAG...: the same for the text of a C program.
links() { links_and : "$@"; }

# runs PROGRAM COMPILER FLAG...: the same, and whether the program then runs here.
runs() { links_and env "$@"; }

links_and() { # links_and COMMAND PROGRAM COMPILER FLAG...: COMMAND gets what has been linked
  local command=$1 program=$2 compiler=$3 dir ok=1
  shift 3
  dir=$(mktemp -d "${TMPDIR:-/tmp}/cfiber.XXXXXX")
  echo "$program" >"$dir/t.c"
  # shellcheck disable=SC2086 # it may hold flags
  if $compiler "$@" -o "$dir/t" "$dir/t.c" >"$dir/log" 2>&1 && [ ! -s "$dir/log" ] &&
    $command "$dir/t" >/dev/null 2>&1; then ok=0; fi
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

# exported COMPILER: the functions that cfiber.h declares for C programs and bridge.h for Go
# programs without cgo, and so all that a shared library exports.
exported() {
  # shellcheck disable=SC2086 # it may hold flags
  printf '#include "%s"\n' csrc/include/cfiber.h csrc/bridge.h | $1 -E -P -I. -xc - | grep -oE '(^|[^A-Za-z0-9_])cfiber_[a-z0-9_]+\(' |
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
