# shellcheck shell=bash
# Checks that every system call and allocation of the core goes through a named site, where it
# can be made to fail (csrc/fault.h).

# What can fail: each call of these stands in TRY or TRY_DONE.
with_site='accept calloc close connect epoll_create1 epoll_ctl epoll_wait eventfd fcntl fstat
  getsockopt kevent kqueue madvise malloc mincore mmap mprotect nanosleep open pipe pipe2 poll
  posix_memalign preadv2 pthread_atfork pthread_attr_get_np pthread_attr_init pthread_create
  pthread_getattr_np pthread_getcpuclockid pwritev2 read readlink readv realloc recvfrom recvmsg
  sched_getaffinity sendmsg sendto sigaction sigaltstack syscall write writev'

# What needs none, since it does not fail, or not so that anything could be done.
without_site='cxa_get_globals ehdr_start errno_location real_crosscall2
  _GLOBAL_OFFSET_TABLE_ _exit clock_gettime free isatty memcmp memcpy memset munmap
  pthread_attr_destroy pthread_attr_getstack pthread_cond_broadcast pthread_cond_wait
  pthread_join pthread_mutex_lock pthread_mutex_unlock pthread_once pthread_self sched_yield
  sched_cpucount sigfillset signal strcmp strnlen sysconf stack_chk_fail tcgetattr tls_get_addr
  getcontext makecontext setcontext swapcontext fegetround fesetround'

# sites_of_calls FILE...: the calls of $with_site outside of TRY, a line for each.
sites_of_calls() {
  awk -v names="$(echo $with_site)" '
    BEGIN { n = split(names, list, " "); for (i = 1; i <= n; i++) wanted[list[i]] = 1 }
    FNR == 1 { check(); file = FILENAME; text = "" }
    { text = text $0 "\n" }
    END { check() }

    # Blanks what is comment or text, and keeps the lines.
    function code(s,   out, c, two, inside) {
      for (i = 1; i <= length(s); i++) {
        c = substr(s, i, 1)
        two = substr(s, i, 2)
        if (inside == "" && two == "/*") { inside = "*/"; i++; continue }
        if (inside == "" && two == "//") { inside = "\n"; i++; continue }
        if (inside == "" && (c == "\"" || c == "\047")) { inside = c; continue }
        if (inside != "" && c == "\\" && inside != "*/") { i++; continue }
        if (inside == "*/" && two == "*/") { inside = ""; i++; continue }
        if (inside == c) inside = ""
        if (inside == "" || c == "\n") out = out c
      }
      return out
    }

    # Goes through the text with the depth of parentheses, and that of the innermost TRY.
    function check(   s, word, c, depth, tries, line, i) {
      s = code(text)
      line = 1; depth = 0; tries = 0; word = ""
      for (i = 1; i <= length(s); i++) {
        c = substr(s, i, 1)
        if (c ~ /[A-Za-z0-9_]/) { word = word c; continue }
        if (c == "(") {
          depth++
          if (word == "TRY" || word == "TRY_DONE") tries_at[++tries] = depth
          else if (word in wanted && tries == 0 && before != "." && before != ">" &&
            substr(s, i + 1, 10) != "SYS_gettid")
            print file ":" line ": " word " has no site (csrc/fault.h)"
        } else if (c == ")") {
          if (tries > 0 && tries_at[tries] == depth) tries--
          depth--
        }
        if (c == "\n") line++
        if (c != " " && c != "\n") before = c
        if (c != " " && c != "\n" || word != "") word = ""
      }
    }' "$@"
}

# unknown_calls OBJECT...: what the objects want of the system that is on neither list. A C library
# may have a call by other names, for checked buffers or for 64 bits. The lists have those of Linux.
unknown_calls() {
  [ "$(uname -s)" = Linux ] || return 0
  nm -u "$@" 2>/dev/null | sed -E 's/ __([a-z])/ \1/; s/_chk$//; s/(_time)?64$//' |
    awk -v known="$(echo $with_site $without_site)" '
    BEGIN { n = split(known, list, " "); for (i = 1; i <= n; i++) is[list[i]] = 1 }
    NF == 2 && $1 ~ /^[Uwv]$/ && !($2 in is) && $2 !~ /^_*cfiber_/ { print $2 }' | sort -u
}

# check_sites DIR: DIR has the objects of csrc.
check_sites() {
  local found bad=0 name
  # chaos.c is no part of what it tests.
  found=$(for name in csrc/*.c csrc/*.h; do echo "$name"; done | grep -v chaos.c)
  # shellcheck disable=SC2086 # a list of files
  found=$(sites_of_calls $found)
  if [ -n "$found" ]; then
    say "$found"
    bad=1
  fi
  for name in $(unknown_calls "$1"/*.o); do
    say "the core calls $name: say in scripts/sites.sh whether it can fail"
    bad=1
  done
  if nm "$1"/*.o 2>/dev/null | grep -i ' [a-z] .*chaos'; then
    say "an ordinary build has something of chaos.h left"
    bad=1
  fi
  return $bad
}
