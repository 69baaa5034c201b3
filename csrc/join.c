/*
 * join.c - waiting for a fiber to end.
 *
 * A fiber that joins a child which nobody has started yet runs it at once: it calls
 * it, like a function on another stack. Most children end without ever waiting, and
 * then neither a wait of the caller nor a wake is needed; and in a tree of fibers
 * depth comes before breadth, so that few of them live at a time. Only when the
 * child waits or yields does its caller become a joiner like others
 * (cfiber_settle). A call counts as a switch: the scheduler looks around in time.
 *
 * The child's entry may lie anywhere on a stealable ring. It is taken from the
 * front; elsewhere it stays, and is void:
 *
 *   CLAIMABLE --claim--> CLAIMED --the record is free--> ENDED
 *       |                   |                              |
 *       +----- found on a queue, by whoever takes it: -----+
 *         start the fiber   nothing                         release the record
 *
 * Only entries of rings may be void, since a list is linked through the fibers
 * themselves; see void_or_fiber in sched.c.
 */
#include "ring.h"

#include <pthread.h>

/* How long a fiber on a ring may be overtaken by calls. */
#define RING_PATIENCE NS_PER_MS

/* ---- Who joins -------------------------------------------------------------------------- */

/* f->joiner, past the instant in which the thread that f ends on still uses f. */
static uintptr_t joiner_of(struct cfiber *f) {
  uintptr_t j;
  while ((j = atomic_load_explicit(&f->joiner, memory_order_acquire)) == JOINER_FINISHING)
    cfiber_relax();
  return j;
}

/* Whether f, which the caller joins, has ended. */
static bool has_ended(struct cfiber *f) {
  return joiner_of(f) == JOINER_JOINED;
}

static bool set_joiner(struct cfiber *f, uintptr_t from, uintptr_t to) {
  return atomic_compare_exchange_strong(&f->joiner, &from, to);
}

/*
 * Makes `joiner` the one who joins f, or, if f has ended, the caller the one to collect
 * it. Comes before anything that is done for a join, so that nobody else can get at f.
 */
enum engagement { REFUSED, ENGAGED, ENDED };

static enum engagement engage(struct cfiber *f, uintptr_t joiner) {
  for (;;) {
    uintptr_t j = joiner_of(f);
    CHAOS_DELAY(ENGAGE);
    if (j == JOINER_NONE && set_joiner(f, j, joiner))
      return ENGAGED;
    if (j == JOINER_FINISHED && set_joiner(f, j, JOINER_JOINED))
      return ENDED;
    if (j != JOINER_NONE && j != JOINER_FINISHED)
      return REFUSED; /* somebody else is */
  }
}

static int collect(struct cfiber *f, intptr_t *result) {
  int e = f->error;
  if (!e && result)
    *result = f->result;
  cfiber_fiber_release(cfiber_thread_self(), f);
  return e ? cfiber_fail(e) : 0;
}

/* ---- Threads ------------------------------------------------------------------------------ */

/* Threads without fiber wait for joins here, all on one condition. */
static pthread_mutex_t thread_join_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t thread_join_cond = PTHREAD_COND_INITIALIZER;

void cfiber_wake_joining_threads(void) {
  pthread_mutex_lock(&thread_join_mutex);
  pthread_cond_broadcast(&thread_join_cond);
  pthread_mutex_unlock(&thread_join_mutex);
}

/*
 * Whether f can run on t only, which is about to block. A fiber that has been started
 * and is on no thread yet is just being started by another, for t is not doing that.
 */
static bool runs_only_on(const struct cfiber_thread *t, const struct cfiber *f) {
  return f == t->current || t->runtime->lone || (!fiber_movable(f) && f->thread == t);
}

/* Joins by blocking the thread. t is NULL, or in a call on its native stack. */
static int join_on_thread(struct cfiber_thread *t, struct cfiber *f, intptr_t *result) {
  if (t && t->current && t->runtime == f->runtime && runs_only_on(t, f)) {
    uintptr_t j = joiner_of(f);
    if (j != JOINER_FINISHED && j != JOINER_JOINED)
      return cfiber_fail(EDEADLK);
  }
  if (engage(f, JOINER_THREAD) == REFUSED)
    return cfiber_fail(EINVAL);
  CHAOS_DELAY(ENGAGED);
  pthread_mutex_lock(&thread_join_mutex);
  while (!has_ended(f))
    pthread_cond_wait(&thread_join_cond, &thread_join_mutex);
  pthread_mutex_unlock(&thread_join_mutex);
  return collect(f, result);
}

/* ---- Calling a child that has not been started --------------------------------------- */

/* Makes f, which is on a ring, this thread's to start. */
static bool claim(struct cfiber_thread *t, struct cfiber *f) {
  uint8_t claimable = QUEUE_CLAIMABLE;
  CHAOS_DELAY(CLAIM);
  if (ring_pop_if(t, f)) {
    atomic_store_explicit(&f->queued, QUEUE_NONE, memory_order_relaxed);
    return true;
  }
  /* Where the number of records is exact, a void entry must not keep one. */
  return t->runtime->fiber_batch &&
         atomic_compare_exchange_strong_explicit(&f->queued, &claimable, QUEUE_CLAIMED,
                                                 memory_order_acq_rel, memory_order_relaxed);
}

/* Only on the thread that spawned f, on whose ring it is, most likely. */
static bool may_call(const struct cfiber_thread *t, const struct cfiber *me,
                     const struct cfiber *f) {
  return atomic_load_explicit(&f->queued, memory_order_relaxed) == QUEUE_CLAIMABLE &&
         f->spawner == t->index && f->runtime == t->runtime && !fiber_migratable(me) &&
         !me->deadline;
}

/*
 * Whether it is the turn of others: of those that are ready, each time that the
 * scheduler has to look around. Those on the ring before f, which have not started, may
 * be overtaken for longer, since depth first is what calls are for.
 */
static bool others_first(struct cfiber_thread *t) {
  if (t->tick > 1)
    return false;
  cfiber_look_around(t);
  if (t->now - t->ring_served < RING_PATIENCE) {
    if (t->local.head)
      return true;
    cfiber_offer_ring(t);
    return false;
  }
  t->picks |= 3; /* now the ring is next */
  if (t->local.head && !t->local.head->sp)
    t->picks--; /* but for what has just been admitted: from behind another nobody could take it */
  return true;
}

/* Runs f, if that may be, until it ends or makes the caller wait for it. False: it has not been
 * run. */
static bool call(struct cfiber_thread *t, struct cfiber *me, struct cfiber *f) {
  if (!may_call(t, me, f))
    return false;
  if (others_first(t)) {
    cfiber_reschedule(t);
    if (!may_call(t, me, f))
      return false;
  }
  if (!claim(t, f) || !cfiber_fiber_prepare(t, f))
    return false;
  t->tick--;
  f->flags |= FIBER_CALLED;
  f->caller = me;
  t->ops = 0;
  cfiber_call(t, me, f);
  return true;
}

/* Whether f was called; it no longer counts as that. */
static bool take_called(struct cfiber *f) {
  bool called = f->flags & FIBER_CALLED;
  f->flags &= ~FIBER_CALLED;
  return called;
}

/* The flags of each are changed before others can find it waiting. */
void cfiber_settle(struct cfiber_thread *t, struct cfiber *f) {
  bool called = take_called(f);
  while (called) {
    struct cfiber *caller = f->caller;
    called = take_called(caller);
    CHAOS_DELAY(SETTLE);
    bool canceled;
    uint64_t epoch = cfiber_arm_caller(caller, &canceled);
    atomic_store_explicit(&caller->join_epoch, epoch, memory_order_relaxed); /* f ends here */
    if (canceled)
      cfiber_wake(t, caller, epoch, WAKE_CANCEL);
    f = caller;
  }
}

struct cfiber *cfiber_call_ends(struct cfiber_thread *t, struct cfiber *f) {
  if (--t->tick > 0)
    return f->caller;
  cfiber_settle(t, f);
  return NULL;
}

/* ---- Join and detach ----------------------------------------------------------------- */

/* The error that the end of a wait for a fiber is, where it has not ended. */
static int given_up(enum wake_reason reason) {
  return reason == WAKE_CANCEL ? ECANCELED : reason == WAKE_TIMEOUT ? ETIMEDOUT : 0;
}

/*
 * Parks the running fiber until f has ended, or its own deadline. f may be ending on
 * another thread, which takes the joiner, then reads the epoch: of that thread, and of
 * this one, which stores the epoch, then looks for itself, one sees the other.
 */
static int join_by_waiting(struct cfiber_thread *t, struct cfiber *me, struct cfiber *f) {
  uint64_t epoch = cfiber_arm(me);
  if (!epoch)
    return ECANCELED;
  CHAOS_DELAY(JOIN_ARMED);
  CFIBER_ANNOUNCE(&me->join_epoch, epoch);
  CHAOS_DELAY(JOIN_EPOCH);
  if (atomic_load(&f->joiner) != (uintptr_t)me) {
    if (!cfiber_disarm(me, epoch))
      cfiber_park(t, me);
    return 0;
  }
  int e;
  int64_t when = me->deadline ? me->deadline : INT64_MAX;
  enum wake_reason reason = cfiber_park_until(t, me, epoch, when, &e);
  return e ? EAGAIN : given_up(reason); /* ENOMEM says that f could not be started */
}

/* Waits until f has ended, or returns an error. */
static int await_end(struct cfiber_thread *t, struct cfiber *me, struct cfiber *f) {
  int e = cfiber_pending(me);
  if (e)
    return e;
  if (call(t, me, f))
    return has_ended(f) ? 0 : given_up(cfiber_wake_reason(me));
  return has_ended(f) ? 0 : join_by_waiting(t, me, f);
}

int cfiber_join(cfiber_t *f, intptr_t *result) {
  if (!f)
    return cfiber_fail(EINVAL);
  struct cfiber_thread *t = cfiber_thread_on_fiber();
  if (!t)
    return join_on_thread(cfiber_thread_self(), f, result);
  struct cfiber *me = t->current;
  if (f == me)
    return cfiber_fail(EDEADLK);
  atomic_store_explicit(&me->join_epoch, 0, memory_order_relaxed); /* no wait yet */
  enum engagement engagement = engage(f, (uintptr_t)me);
  if (engagement == REFUSED)
    return cfiber_fail(EINVAL);
  if (engagement == ENGAGED) {
    CHAOS_DELAY(ENGAGED);
    CHAOS_YIELD(t);
    int e = await_end(t, me, f);
    if (e && set_joiner(f, (uintptr_t)me, JOINER_NONE))
      return cfiber_fail(e);
    joiner_of(f); /* it has ended, be it at the last moment */
  }
  return collect(f, result);
}

int cfiber_detach(cfiber_t *f) {
  enum engagement engagement = f ? engage(f, JOINER_DETACHED) : REFUSED;
  if (engagement == REFUSED)
    return cfiber_fail(EINVAL);
  if (engagement == ENDED)
    cfiber_fiber_release(cfiber_thread_self(), f);
  return 0;
}
