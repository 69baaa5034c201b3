/* call.h - the C calls that the demo makes by the thousand. */
#ifndef CALL_H
#define CALL_H

#include <stdint.h>

struct call {
  uintptr_t id;
  int64_t pause_ns;
  int pauses;
};

/*
 * Both wait until all calls that are expected have got here, then sleep as
 * often as the call says, call Go once in between, and return what Go returned,
 * or -1. One waits as code on a fiber does, the other one as code on a thread.
 */
intptr_t call_on_fiber(void *call);
intptr_t call_on_thread(void *call);

/* Says how many calls to expect, once, before the first. Returns 0 or an errno. */
int calls_expect(int n);

/* How many of them are still to come. */
int calls_missing(void);

/* How long it took from then until all had got here. */
int64_t calls_gathered_ns(void);

/*
 * How many threads the system lets this process start, up to n. It starts them,
 * and ends them. Go cannot try: it dies when a thread cannot be started.
 */
int threads_possible(int n);

#endif
