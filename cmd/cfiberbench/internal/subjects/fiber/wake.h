/* wake.h - two fibers that wake each other, or a goroutine and a fiber. */
#ifndef BENCH_WAKE_H
#define BENCH_WAKE_H

#include <stdint.h>

struct pair;

enum { PAIR_SAME, PAIR_AWAKE, PAIR_SLEEPING };

/* A pair that makes n wakes. NULL without memory. */
struct pair *pair_new(int mode, int64_t n);
void pair_free(struct pair *p);

/* For fibers: the two sides. Each returns 0, or -1 if it was not where the mode wants it. */
intptr_t pair_left(void *pair);
intptr_t pair_right(void *pair);

/* How long all wakes took, once both sides have ended. */
int64_t pair_ns(const struct pair *p);

/* A fiber that answers each ask with a call of Go, until it has done so n times. */
intptr_t pair_answer(void *pair);
void pair_ask(struct pair *p);

#endif
