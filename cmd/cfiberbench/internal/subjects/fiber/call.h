/* call.h - C functions as Go programs call them: they wait, or return at once. */
#ifndef BENCH_CALL_H
#define BENCH_CALL_H

#include <stdint.h>

/* Sleeps for so many nanoseconds, not at all for 0. On a fiber or on a plain thread. */
intptr_t bench_wait(void *ns);

/* How many do so now. */
int bench_waiting(void);

/* Calls Go as often as the argument says. */
intptr_t bench_call_go(void *n);

/* A thread that answers: reads one eventfd, blocking, and writes the other. 0 or an errno. */
int bench_answerer(int ask, int answer);

#endif
