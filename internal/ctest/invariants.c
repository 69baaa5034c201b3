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

/* As ct_sleep_and_count, under a shield. */
intptr_t ct_shielded_sleep(void *arg) {
  cfiber_shield(1);
  return ct_sleep_and_count(arg);
}

/* Leaves a detached fiber behind that does ct_sleep_and_count(arg). */
intptr_t ct_leave_behind(void *arg) {
  struct cfiber_attr attr = {.flags = CFIBER_DETACHED};
  return cfiber_spawn(ct_sleep_and_count, arg, &attr) ? 0 : -errno;
}

/* Counts the int arg points to up, waits until it is cancelled, then spawns: returns what that
 * failed with. */
intptr_t ct_spawn_when_canceled(void *arg) {
  atomic_fetch_add((_Atomic int *)arg, 1);
  cfiber_sleep(INT64_MAX);
  struct cfiber_attr attr = {.flags = CFIBER_DETACHED};
  return cfiber_spawn(ct_sleep_and_count, arg, &attr) ? 0 : errno;
}

static __attribute__((noinline)) int descend(int n) {
  volatile char frame[512];
  frame[0] = (char)n;
  return n == 0 ? 0 : descend(n - 1) + (frame[0] != (char)n);
}

/* Touches most of a default stack, then counts the int arg points to up and waits for ever. */
intptr_t ct_recurse_and_park(void *arg) {
  int n = descend(300);
  atomic_fetch_add((_Atomic int *)arg, 1);
  return cfiber_sleep(INT64_MAX) ? -errno : n;
}
