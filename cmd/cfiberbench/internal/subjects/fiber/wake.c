#include "wake.h"
#include "event.h"

#include <stdlib.h>

struct pair {
  int mode;
  int64_t n, ns;
  struct side {
    struct event event;
    struct cfiber_thread *thread; /* where it runs */
    _Atomic(int) placed, attended;
  } CACHE_ALIGNED left, right;
  _Atomic(int) ended;
};

struct pair *pair_new(int mode, int64_t n) {
  struct pair *p = aligned_alloc(CACHE_LINE, sizeof *p);
  if (p)
    *p = (struct pair){.mode = mode, .n = n / 2 * 2};
  return p;
}

void pair_free(struct pair *p) {
  free(p);
}

int64_t pair_ns(const struct pair *p) {
  return p->ns;
}

/* Keeps its thread awake: there is always a fiber that can run. */
static intptr_t attend(void *arg) {
  struct side *me = ((void **)arg)[0];
  struct pair *p = ((void **)arg)[1];
  atomic_store(&me->attended, cfiber_thread_self() == me->thread ? 1 : -1);
  while (!atomic_load(&p->ended))
    cfiber_yield();
  return 0;
}

/*
 * Takes a place on a thread, and keeps it without a wait until the other side
 * has another thread. Starts there what keeps it awake, if the mode wants it.
 */
static int take_place(struct pair *p, struct side *me, struct side *other, cfiber_t **attendant,
                      void *args[2]) {
  me->thread = cfiber_thread_self();
  atomic_store(&me->placed, 1);
  if (p->mode == PAIR_SAME)
    return 0;
  while (!atomic_load(&other->placed))
    continue;
  if (p->mode == PAIR_AWAKE) {
    args[0] = me;
    args[1] = p;
    *attendant = cfiber_spawn(attend, args, NULL);
    if (!*attendant)
      abort();
    /* It runs next here, for the other thread is as busy with its own. */
    while (!atomic_load(&me->attended))
      cfiber_yield();
    while (!atomic_load(&other->attended))
      continue;
  }
  return me->thread == other->thread || atomic_load(&me->attended) < 0 ? -1 : 0;
}

/* The left side begins; both make n / 2 wakes. */
static intptr_t take_turns(struct pair *p, struct side *me, struct side *other, int begins) {
  cfiber_t *attendant = NULL;
  void *args[2];
  int misplaced = take_place(p, me, other, &attendant, args);
  int64_t start = cfiber_now();
  for (int64_t i = 0; i < p->n / 2; i++) {
    if (begins)
      event_set(&other->event);
    event_wait(&me->event);
    if (!begins)
      event_set(&other->event);
  }
  if (begins) {
    p->ns = cfiber_now() - start;
    atomic_store(&p->ended, 1);
  }
  if (attendant && cfiber_join(attendant, NULL))
    return -1;
  return misplaced;
}

intptr_t pair_left(void *arg) {
  struct pair *p = arg;
  return take_turns(p, &p->left, &p->right, 1);
}

intptr_t pair_right(void *arg) {
  struct pair *p = arg;
  return take_turns(p, &p->right, &p->left, 0);
}

extern void benchAnswer(void);

intptr_t pair_answer(void *arg) {
  struct pair *p = arg;
  for (int64_t i = 0; i < p->n / 2; i++) {
    event_wait(&p->right.event);
    benchAnswer();
  }
  return 0;
}

void pair_ask(struct pair *p) {
  event_set(&p->right.event);
}
