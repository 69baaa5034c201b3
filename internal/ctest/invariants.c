#define CFIBER_REDEFINE_ERRNO /* these run on migratable fibers too */
#include "invariants.h"
#include "cfiber.h"

#include <stdatomic.h>

extern uintptr_t ctestCallback(uintptr_t arg);

/* Sets errno to arg, calls Go, and returns what errno is then. */
intptr_t ct_errno_over_go(void *arg) {
  errno = (int)(intptr_t)arg;
  ctestCallback((uintptr_t)arg);
  return errno;
}

/* arg: int[2], a descriptor and a number that is counted up before it is read from. */
intptr_t ct_read_byte(void *arg) {
  int *a = arg;
  unsigned char c;
  atomic_fetch_add((_Atomic int *)&a[1], 1);
  ssize_t n = cfiber_read(a[0], &c, 1);
  return n < 0 ? -errno : n == 0 ? 1000 : c;
}

/* Counts the int arg points to up, sleeps 30 ms, counts it up again. */
intptr_t ct_sleep_and_count(void *arg) {
  atomic_fetch_add((_Atomic int *)arg, 1);
  if (cfiber_sleep(30000000))
    return -errno;
  return atomic_fetch_add((_Atomic int *)arg, 1);
}
