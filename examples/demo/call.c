#define _GNU_SOURCE
#include "call.h"

#include <errno.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

#include "cfiber.h"

/* In Go: see callback.go. */
extern uintptr_t demoCallback(uintptr_t id);

/* How code waits: on a fiber, and on a thread. */
struct waits {
  ssize_t (*read)(int fd, void *buf, size_t n);
  int (*sleep)(int64_t ns);
};

static int thread_sleep(int64_t ns) {
  struct timespec left = {.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
  int failed;
  while ((failed = nanosleep(&left, &left)) != 0 && errno == EINTR)
    continue;
  return failed;
}

static const struct waits fiber_waits = {cfiber_read, cfiber_sleep};
static const struct waits thread_waits = {read, thread_sleep};

/* ---- Gathering ------------------------------------------------------------------- */

/* Calls wait for the end of this pipe, which is when the last of them closes it. */
static int gate[2];
static atomic_int missing;
static int64_t started, gathered;

int calls_expect(int n) {
  started = cfiber_now();
  atomic_store(&missing, n);
  return pipe(gate) == 0 ? 0 : errno;
}

int calls_missing(void) {
  return atomic_load(&missing);
}

int64_t calls_gathered_ns(void) {
  return gathered - started;
}

static int gather(const struct waits *waits) {
  if (atomic_fetch_sub(&missing, 1) == 1) {
    gathered = cfiber_now();
    return close(gate[1]);
  }
  char byte;
  return waits->read(gate[0], &byte, 1) == 0 ? 0 : -1;
}

/* ---- Calls ----------------------------------------------------------------------- */

static intptr_t run(const struct call *call, const struct waits *waits) {
  intptr_t result = -1;
  if (gather(waits) != 0)
    return -1;
  for (int i = 0; i < call->pauses; i++) {
    if (waits->sleep(call->pause_ns) != 0)
      return -1;
    if (i == 0)
      result = (intptr_t)demoCallback(call->id);
  }
  return result;
}

intptr_t call_on_fiber(void *call) {
  return run(call, &fiber_waits);
}
intptr_t call_on_thread(void *call) {
  return run(call, &thread_waits);
}
