/* units.h - the workloads whose units are fibers alone. Each function is a fiber's. */
#ifndef BENCH_UNITS_H
#define BENCH_UNITS_H

#include <stdint.h>

struct work {
  int64_t n;      /* how much to do */
  int64_t fibers; /* by how many */
  int64_t ns;     /* out: how long it took */
};

intptr_t bench_yield(void *work);
intptr_t bench_spawn_warm(void *work);
intptr_t bench_spawn_cold(void *work);
intptr_t bench_park(void *work);

/* A node of the tree, which has the leaves from first on, of which there are n. */
struct node {
  int64_t first, n, fanout;
};

/* Returns the sum of the leaves' numbers. */
intptr_t bench_tree(void *node);

#endif
