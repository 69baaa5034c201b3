#include "units.h"
#include "cfiber.h"

#include <stdatomic.h>
#include <stdlib.h>

static intptr_t nothing(void *arg) {
  return (intptr_t)arg;
}

/* Fibers that begin their work when all have started, since their first page faults are not it. */
struct team {
  int64_t members, yields;
  _Atomic(int64_t) started, begin;
};

static intptr_t yields(void *arg) {
  struct team *team = arg;
  if (atomic_fetch_add_explicit(&team->started, 1, memory_order_relaxed) == team->members - 1)
    atomic_store(&team->begin, cfiber_now());
  while (atomic_load_explicit(&team->started, memory_order_relaxed) < team->members)
    cfiber_yield();
  for (int64_t n = team->yields; n > 0; n--)
    cfiber_yield();
  return 0;
}

static int run_team(struct team *team) {
  cfiber_t **all = malloc((size_t)team->members * sizeof *all);
  if (!all)
    return -1;
  int64_t spawned = 0;
  while (spawned < team->members && (all[spawned] = cfiber_spawn(yields, team, NULL)) != NULL)
    spawned++;
  if (spawned < team->members)
    abort(); /* those that have been spawned would wait for the others */
  int failed = 0;
  for (int64_t i = 0; i < spawned; i++)
    failed |= cfiber_join(all[i], NULL);
  free(all);
  return failed;
}

intptr_t bench_yield(void *arg) {
  struct work *w = arg;
  struct team team = {.members = w->fibers, .yields = w->n / w->fibers};
  int result = run_team(&team);
  w->ns = cfiber_now() - team.begin;
  return result;
}

intptr_t bench_spawn_warm(void *arg) {
  struct work *w = arg;
  int64_t begin = cfiber_now();
  for (int64_t i = 0; i < w->n; i++) {
    if (cfiber_join(cfiber_spawn(nothing, NULL, NULL), NULL))
      return -1;
  }
  w->ns = cfiber_now() - begin;
  return 0;
}

/* Each waits until all have started, so all have a stack at once. */
intptr_t bench_spawn_cold(void *arg) {
  struct work *w = arg;
  struct team team = {.members = w->n};
  int64_t begin = cfiber_now();
  int result = run_team(&team);
  w->ns = cfiber_now() - begin;
  return result;
}

/* ---- The tree ---------------------------------------------------------------- */

#define FANOUT_MAX 64

intptr_t bench_tree(void *arg) {
  struct node *me = arg;
  if (me->n == 1)
    return me->first;
  struct node children[FANOUT_MAX];
  cfiber_t *fibers[FANOUT_MAX];
  int64_t from = 0, spawned = 0;
  for (int64_t i = 0; i < me->fanout; i++) {
    int64_t to = me->n * (i + 1) / me->fanout;
    if (to > from) {
      children[spawned] = (struct node){me->first + from, to - from, me->fanout};
      fibers[spawned] = cfiber_spawn(bench_tree, &children[spawned], NULL);
      if (!fibers[spawned])
        abort();
      spawned++;
    }
    from = to;
  }
  intptr_t sum = 0;
  for (int64_t i = 0; i < spawned; i++) {
    intptr_t part;
    if (cfiber_join(fibers[i], &part))
      abort();
    sum += part;
  }
  return sum;
}

/* ---- Parking ------------------------------------------------------------------- */

static _Atomic(int64_t) parked;

static intptr_t park(void *arg) {
  (void)arg;
  atomic_fetch_add_explicit(&parked, 1, memory_order_relaxed);
  return cfiber_sleep(INT64_MAX);
}

/* Returns once all have run for the first time and wait for ever. */
intptr_t bench_park(void *arg) {
  static const struct cfiber_attr detached = {.flags = CFIBER_DETACHED};
  struct work *w = arg;
  for (int64_t i = 0; i < w->n; i++) {
    if (!cfiber_spawn(park, NULL, &detached))
      return -1;
  }
  while (atomic_load_explicit(&parked, memory_order_relaxed) < w->n)
    cfiber_yield();
  return 0;
}
