/*
 * join_test.c - children that their joiner calls (join.c), and the void entries that
 * this leaves on rings.
 */
#define CFIBER_REDEFINE_ERRNO
#include "ring.h"
#include "testing.h"

#include <pthread.h>
#include <unistd.h>

/* ---- The order ------------------------------------------------------------------------- */

static int order[16], started; /* on one thread */

static intptr_t note(void *p) {
  order[started++] = (int)(intptr_t)p;
  return (intptr_t)p;
}

/* Spawns some and joins them in another order; true if they have run in that order. */
static bool run_as_joined(void) {
  enum { N = 8 };
  static const int joins[N] = {5, 0, 7, 6, 1, 2, 4, 3};
  cfiber_t *f[N];
  started = 0;
  for (intptr_t i = 0; i < N; i++)
    f[i] = go(note, (void *)i);
  for (int i = 0; i < N; i++)
    CHECK(joined(f[joins[i]]) == joins[i]);
  CHECK(started == N);
  return memcmp(order, joins, sizeof joins) == 0;
}

/*
 * The child that is joined runs first, wherever it stands on the ring, and each runs
 * once. Not so when it is time to look around, so this is tried until it is.
 */
static intptr_t joined_first(void *unused) {
  (void)unused;
  while (!run_as_joined())
    continue;
  return 0;
}

/* ---- Children that wait ------------------------------------------------------------------ */

static intptr_t yielding(void *p) {
  for (int i = 0; i < 3; i++)
    cfiber_yield();
  return (intptr_t)p;
}

static intptr_t sleeping(void *p) {
  errno = EDOM;
  CHECK(cfiber_sleep(1000) == 0);
  CHECK(errno == EDOM);
  return (intptr_t)p;
}

static intptr_t calls_one(void *p) {
  errno = ERANGE;
  intptr_t r = joined(go(sleeping, p));
  CHECK(errno == ERANGE);
  return r + joined(go(yielding, p));
}

/* A call that is not over at once becomes a wait, and so do those it is nested in. */
static intptr_t calls_become_waits(void *unused) {
  (void)unused;
  for (intptr_t i = 0; i < ROUNDS(1000) + 1; i++) {
    CHECK(joined(go(yielding, (void *)i)) == i);
    CHECK(joined(go(calls_one, (void *)i)) == 2 * i);
  }
  return 0;
}

static intptr_t sleep_for_ever(void *p) {
  atomic_store((_Atomic int *)p, 1);
  return cfiber_sleep(3600 * NS_PER_S) ? -errno : 0;
}

struct canceling {
  _Atomic int sleeps;
  cfiber_t *caller, *sleeper;
};

static intptr_t call_a_sleeper(void *p) {
  struct canceling *c = p;
  c->sleeper = go(sleep_for_ever, &c->sleeps);
  return joined(c->sleeper);
}

/* Cancelling the caller ends its wait, not the child; the child can be joined later. */
static intptr_t cancel_a_caller(void *unused) {
  (void)unused;
  struct canceling c = {.sleeps = 0};
  c.caller = go(call_a_sleeper, &c);
  until(&c.sleeps);
  CHECK(cfiber_cancel(c.caller) == 0);
  CHECK(joined(c.caller) == -ECANCELED);
  CHECK(cfiber_cancel(c.sleeper) == 0);
  CHECK(joined(c.sleeper) == -ECANCELED);
  return 0;
}

static intptr_t cancel_the_caller_then_wait(void *p) {
  CHECK(cfiber_cancel(p) == 0);
  CHECK(cfiber_sleep(1000) == 0); /* the caller is cancelled, this fiber is not */
  return 7;
}

static intptr_t canceled_by_the_called(void *p) {
  cfiber_t **child = p;
  *child = go(cancel_the_caller_then_wait, cfiber_self());
  return joined(*child);
}

/* Cancelled before the call becomes a wait: that wait then ends at once. */
static intptr_t cancel_before_the_wait(void *unused) {
  (void)unused;
  cfiber_t *child;
  CHECK(joined(go(canceled_by_the_called, &child)) == -ECANCELED);
  CHECK(joined(child) == 7);
  return 0;
}

/* ---- Two at one child --------------------------------------------------------------------- */

struct detaching {
  _Atomic int runs, tried;
  cfiber_t *child;
};

enum { CALLED = 1, NOT_CALLED };

static intptr_t await_detach(void *p) {
  struct detaching *d = p;
  if (!(cfiber_self()->flags & FIBER_CALLED)) { /* the scheduler came first */
    atomic_store(&d->runs, NOT_CALLED);
    return 0;
  }
  atomic_store(&d->runs, CALLED);
  while (!atomic_load(&d->tried))
    cfiber_relax();
  return 3;
}

static void *detach_it(void *p) {
  struct detaching *d = p;
  while (!atomic_load(&d->runs))
    cfiber_relax();
  if (atomic_load(&d->runs) == CALLED) {
    FAILS(cfiber_detach(d->child), EINVAL);
    FAILS(cfiber_join(d->child, NULL), EINVAL);
    atomic_store(&d->tried, 1);
  }
  return NULL;
}

/* While it is called, a child is the caller's: another thread can neither detach nor join it. */
static intptr_t called_is_joined(void *unused) {
  (void)unused;
  for (int called = 0; called < 10;) {
    struct detaching d = {.runs = 0};
    pthread_t thread;
    d.child = go(await_detach, &d);
    CHECK(pthread_create(&thread, NULL, detach_it, &d) == 0);
    intptr_t r = joined(d.child);
    called += atomic_load(&d.runs) == CALLED;
    CHECK(r == (atomic_load(&d.runs) == CALLED ? 3 : 0));
    CHECK(pthread_join(thread, NULL) == 0);
  }
  return 0;
}

struct intruding {
  cfiber_t *victim; /* being joined; NULL: none */
  bool stop;
};

/* Tries to get at what another joins. If it succeeds once, that is said, and not tried again. */
static intptr_t intrude(void *p) {
  struct intruding *i = p;
  for (int n = 0; !i->stop; n++) {
    if (i->victim && (n % 2 ? cfiber_join(i->victim, NULL) : cfiber_detach(i->victim)) == 0)
      return 1;
    cfiber_yield();
  }
  return 0;
}

/*
 * From when a join begins until it returns, nobody else can join or detach: not while it
 * lets others run before it calls, nor between the end of the child and the return.
 */
static intptr_t joins_are_exclusive(void *unused) {
  (void)unused;
  struct intruding i = {.victim = NULL};
  cfiber_t *a = go(intrude, &i), *b = go(intrude, &i);
  for (intptr_t n = 0; n < ROUNDS(200000); n++) {
    i.victim = go(n % 16 ? identity : yielding, (void *)n);
    CHECK(joined(i.victim) == n);
    i.victim = NULL;
  }
  i.stop = true;
  CHECK(joined(a) == 0 && joined(b) == 0);
  return 0;
}

static intptr_t detach_self(void *unused) {
  (void)unused;
  CHECK(cfiber_detach(cfiber_self()) == 0);
  return 0;
}

static bool live(cfiber_t *f) {
  return atomic_load(&f->wait) & WAIT_LIVE;
}

/* A detached fiber is nobody's to join, and whoever tries is told, before its end and after. */
static intptr_t detached_for_ever(void *unused) {
  (void)unused;
  cfiber_t *f = go(detach_self, NULL);
  while (live(f))
    cfiber_yield();
  FAILS(cfiber_join(f, NULL), EINVAL);
  FAILS(cfiber_detach(f), EINVAL);
  f = go(yielding, NULL);
  CHECK(cfiber_detach(f) == 0);
  FAILS(cfiber_join(f, NULL), EINVAL);
  FAILS(cfiber_detach(f), EINVAL);
  return 0;
}

/* A thread that detaches what a fiber joins: the two begin and end each round together. */
struct contest {
  cfiber_t *child;
  _Atomic int begun, ended; /* rounds */
  int rounds;
  bool detached; /* in the last */
};

static void *detach_each(void *p) {
  struct contest *c = p;
  for (int n = 1; n <= c->rounds; n++) {
    while (atomic_load(&c->begun) < n)
      cfiber_relax();
    c->detached = cfiber_detach(c->child) == 0;
    CHECK(c->detached || errno == EINVAL);
    atomic_store(&c->ended, n);
  }
  return NULL;
}

static intptr_t join_or_detach(void *unused) {
  (void)unused;
  struct contest c = {.rounds = ROUNDS(20000)};
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, detach_each, &c) == 0);
  for (int n = 1; n <= c.rounds; n++) {
    c.child = go(n % 2 ? identity : yielding, (void *)(intptr_t)n);
    atomic_store(&c.begun, n);
    if (n % 4 == 0)
      cfiber_yield();
    intptr_t r = 0;
    bool got_it = cfiber_join(c.child, &r) == 0;
    CHECK(got_it ? r == n : errno == EINVAL);
    while (atomic_load(&c.ended) < n)
      cfiber_relax();
    CHECK(got_it != c.detached);
  }
  CHECK(pthread_join(thread, NULL) == 0);
  return 0;
}

/* ---- Trees --------------------------------------------------------------------------------- */

#define FANOUT 6

struct node {
  int first, n;
};

static _Atomic(int64_t) nodes;

/* The sum of first ... first + n - 1. Some nodes wait, some join in another order. */
static intptr_t sum(void *p) {
  struct node *me = p, children[FANOUT];
  cfiber_t *f[FANOUT];
  intptr_t total = 0;
  int64_t id = atomic_fetch_add_explicit(&nodes, 1, memory_order_relaxed);
  if (me->n == 1) {
    if (id % 64 == 0)
      cfiber_yield();
    return me->first;
  }
  int from = 0, n = me->n < FANOUT ? me->n : FANOUT;
  for (int i = 0; i < n; i++) {
    int to = (int)((int64_t)me->n * (i + 1) / n);
    children[i] = (struct node){me->first + from, to - from};
    f[i] = go(sum, &children[i]);
    from = to;
  }
  for (int i = 0; i < n; i++)
    total += joined(f[id % 3 == 0 ? n - 1 - i : i]);
  return total;
}

/* Every node runs once, whoever starts it, and its record comes back. */
static intptr_t tree(void *unused) {
  (void)unused;
  int n = ROUNDS(20000);
  struct cfiber_runtime *rt = cfiber_thread_self()->runtime;
  for (int i = 0; i < 3; i++) {
    struct node root = {0, n};
    CHECK(joined(go(sum, &root)) == (intptr_t)n * (n - 1) / 2);
    CHECK(cfiber_runtime_live(rt) <= 1);
  }
  return 0;
}

/*
 * Void entries keep their records for a while, not for ever: many more fibers than there
 * may be at once, each void at some time, behind one that holds up the head of the ring.
 */
static intptr_t void_entries(void *unused) {
  (void)unused;
  struct cfiber_runtime *rt = cfiber_thread_self()->runtime;
  for (intptr_t i = 0; i < ROUNDS(20000); i++) {
    cfiber_t *behind = go(note, (void *)(intptr_t)0), *f = go(identity, (void *)i);
    started = 0;
    CHECK(joined(f) == i);
    CHECK(joined(behind) == 0);
  }
  CHECK(rt->nfibers <= 4 * RING_SIZE);
  return 0;
}

/* ---- Others ---------------------------------------------------------------------------------- */

static intptr_t set(void *p) {
  atomic_store((_Atomic int *)p, 1);
  return 0;
}

/* Whoever joins one child after the other does not keep those waiting that nobody joins. */
static intptr_t overtaken_for_a_while(void *unused) {
  (void)unused;
  _Atomic int flag = 0;
  cfiber_t *f = go(set, &flag);
  while (!atomic_load(&flag)) {
    cfiber_t *a = go(identity, NULL), *b = go(identity, NULL);
    CHECK(joined(b) == 0 && joined(a) == 0);
  }
  CHECK(joined(f) == 0);
  return 0;
}

/*
 * What has been taken of the global queue while calls overtake the ring is bound to this thread
 * before it has begun. It runs before those of the ring, which may block the thread.
 */
static intptr_t admitted_runs_first(void *unused) {
  (void)unused;
  cfiber_t *outside = go(note, (void *)1);
  cfiber_shed_ring(cfiber_thread_self());
  cfiber_t *on_ring = go(note, (void *)2);
  started = 0;
  for (int64_t end = cfiber_now() + 2 * NS_PER_MS; cfiber_now() < end;)
    continue; /* the ring has waited for long enough to be next */
  while (!started)
    CHECK(joined(go(identity, NULL)) == 0);
  CHECK(order[0] == 1);
  CHECK(joined(on_ring) == 2 && joined(outside) == 1);
  return 0;
}

int main(int argc, char **argv) {
  only = argc > 1 ? argv[1] : NULL;
  alarm(PATIENCE); /* what is not woken hangs */
  run(joined_first, 1, 0);
  run(cancel_a_caller, 1, 0);
  run(cancel_before_the_wait, 1, 0);
  run(called_is_joined, 1, 0);
  run(joins_are_exclusive, 1, 0);
  run(detached_for_ever, 1, 0);
  run(void_entries, 1, 0);
  run(overtaken_for_a_while, 1, 0);
#ifndef CFIBER_CHAOS /* whose yields run the ring's before there is a look around */
  run(admitted_runs_first, 1, 0);
#endif
  for (unsigned threads = 1; threads <= 3; threads++) {
    for (unsigned migrate = 0; migrate < 2; migrate++) {
      run(calls_become_waits, threads, migrate);
      run(join_or_detach, threads, migrate);
      run(tree, threads, migrate);
    }
  }
  return atomic_load(&failures) != 0;
}
