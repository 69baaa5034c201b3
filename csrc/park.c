/*
 * park.c - park and wake, the primitive under every wait.
 *
 * A wait goes through the wait word of its fiber (core.h):
 *
 *     RUNNING/WOKEN --arm--> ARMED --wake--> WOKEN
 *                              |               ^
 *                    (migratable, saved)       |
 *                              v               |
 *                            PARKED ---wake----+
 *
 * Whoever moves the word from ARMED or PARKED to WOKEN has won the wait, for
 * the epoch in the word is the wait's own: event, timer, cancel and close
 * compare it in the same instruction. The winner makes the fiber ready, once.
 *
 * A fiber must not run before its registers are saved. Two kinds of fiber get
 * there in two ways:
 *
 *   - A fiber bound to its thread is only ever taken from that thread's
 *     queues by that thread. The thread is busy running the fiber until the
 *     switch is done, so the waker may enqueue it while it is still ARMED: at
 *     worst the fiber finds itself at the head of the queue and does not
 *     switch at all.
 *   - A migratable fiber could be taken by another thread. The waker that finds
 *     it ARMED leaves it to the thread that the fiber is just leaving, which,
 *     on the other side of the switch, moves the word to PARKED, or, if it is
 *     WOKEN already, makes the fiber ready (POST_PARK).
 */
#include "core.h"
#include "switch.h"

static uint64_t arm(struct cfiber *f, uint64_t shielded) {
  uint64_t kind = WAIT_ARMED | shielded | (fiber_migratable(f) ? WAIT_MIGRATABLE : 0);
  uint64_t old = atomic_load_explicit(&f->wait, memory_order_relaxed), word;
  do {
    if ((old & WAIT_CANCEL) && !shielded)
      return 0;
    uint64_t epoch = (old >> WAIT_EPOCH_SHIFT) + 1;
    word = epoch << WAIT_EPOCH_SHIFT | (old & (WAIT_CANCEL | WAIT_LIVE)) | kind;
    CHAOS_DELAY(ARM);
  } while (!atomic_compare_exchange_weak_explicit(&f->wait, &old, word, memory_order_seq_cst,
                                                  memory_order_relaxed));
  return word >> WAIT_EPOCH_SHIFT;
}

/* What is called and is about to wait has made joiners of its callers before anybody can wake it.
 */
static void settle_first(struct cfiber *f) {
  if (UNLIKELY(f->flags & FIBER_CALLED))
    cfiber_settle(cfiber_thread_self(), f);
}

uint64_t cfiber_arm(struct cfiber *f) {
  settle_first(f);
  uint64_t epoch = arm(f, f->shield ? WAIT_SHIELDED : 0);
  CHAOS_DELAY(ARMED);
  return epoch;
}

uint64_t cfiber_arm_caller(struct cfiber *f, bool *canceled) {
  uint64_t epoch = arm(f, f->shield ? WAIT_SHIELDED : 0);
  *canceled = !epoch;
  return epoch ? epoch : arm(f, WAIT_SHIELDED);
}

/* Moves the word from (epoch, ARMED or PARKED) to (epoch, WOKEN, reason). */
static bool end_wait(struct cfiber *f, uint64_t epoch, enum wake_reason reason, uint64_t *before) {
  uint64_t old = atomic_load_explicit(&f->wait, memory_order_relaxed), word;
  do {
    uint64_t state = old & WAIT_STATE;
    if (old >> WAIT_EPOCH_SHIFT != epoch || (state != WAIT_ARMED && state != WAIT_PARKED))
      return false;
    word = (old & ~(WAIT_STATE | WAIT_REASON)) | WAIT_WOKEN | (uint64_t)reason << WAIT_REASON_SHIFT;
    CHAOS_DELAY(WAKE);
  } while (!atomic_compare_exchange_weak_explicit(&f->wait, &old, word, memory_order_seq_cst,
                                                  memory_order_relaxed));
  *before = old;
  return true;
}

/* The winner of a wait makes its fiber ready, unless the fiber's thread will: then f is no longer
 * looked at. */
static void ready_after(struct cfiber_thread *self, struct cfiber *f, uint64_t before) {
  CHAOS_DELAY(WOKEN);
  if (!(before & WAIT_MIGRATABLE) || (before & WAIT_STATE) == WAIT_PARKED)
    cfiber_ready(self, f);
}

bool cfiber_wake(struct cfiber_thread *self, struct cfiber *f, uint64_t epoch,
                 enum wake_reason reason) {
  uint64_t before;
  if (!end_wait(f, epoch, reason, &before))
    return false;
  ready_after(self, f, before);
  return true;
}

bool cfiber_claim(struct cfiber *f, uint64_t epoch, enum wake_reason reason) {
  uint64_t before;
  return end_wait(f, epoch, reason, &before);
}

bool cfiber_disarm(struct cfiber *f, uint64_t epoch) {
  uint64_t before;
  return end_wait(f, epoch, WAKE_EVENT, &before);
}

enum wake_reason cfiber_wake_reason(const struct cfiber *f) {
  uint64_t word = atomic_load_explicit(&f->wait, memory_order_acquire);
  return (enum wake_reason)((word & WAIT_REASON) >> WAIT_REASON_SHIFT);
}

enum wake_reason cfiber_park(struct cfiber_thread *t, struct cfiber *f) {
  t->ops = 0;
  CHAOS_DELAY(PARK);
  cfiber_switch_away(t, f, cfiber_next(t), fiber_migratable(f) ? POST_PARK : POST_NONE);
  return cfiber_wake_reason(f);
}

enum wake_reason cfiber_park_until(struct cfiber_thread *t, struct cfiber *f, uint64_t epoch,
                                   int64_t when, int *error) {
  int e = when == INT64_MAX ? 0 : cfiber_timer_set(t, f, epoch, when);
  *error = e;
  if (e && cfiber_disarm(f, epoch))
    return WAKE_EVENT;
  enum wake_reason reason = cfiber_park(t, f);
  *error = 0; /* of two, the wake was first */
  if (!e && when != INT64_MAX && reason != WAKE_TIMEOUT)
    cfiber_timer_clear(f, epoch);
  return reason;
}

/* POST_PARK: f has been left, its registers are saved. */
static void confirm_parked(struct cfiber_thread *t, struct cfiber *f) {
  uint64_t old = atomic_load_explicit(&f->wait, memory_order_relaxed);
  do {
    if ((old & WAIT_STATE) == WAIT_WOKEN) {
      cfiber_ready(t, f);
      return;
    }
    CHAOS_DELAY(PARKED);
  } while (!atomic_compare_exchange_weak_explicit(&f->wait, &old, (old & ~WAIT_STATE) | WAIT_PARKED,
                                                  memory_order_seq_cst, memory_order_relaxed));
}

void cfiber_post(struct cfiber_thread *t) {
  enum post_action post = t->post;
  t->post = POST_NONE;
  CHAOS_DELAY(LEFT);
  switch (post) {
  case POST_NONE:
    break;
  case POST_PARK:
    confirm_parked(t, t->left);
    break;
  case POST_YIELD:
    cfiber_ready(t, t->left);
    break;
  case POST_FINISH:
    cfiber_fiber_finish(t, t->left);
    break;
  case POST_FINISH_JOINED:
    cfiber_fiber_finish_joined(t, t->left);
    break;
  }
}

int cfiber_cancel(cfiber_t *f) {
  if (!f)
    return cfiber_fail(EINVAL);
  uint64_t old = atomic_load_explicit(&f->wait, memory_order_relaxed), word;
  bool ends;
  do {
    uint64_t state = old & WAIT_STATE;
    if ((old & WAIT_CANCEL) || !(old & WAIT_LIVE))
      return 0;
    ends = (state == WAIT_ARMED || state == WAIT_PARKED) && !(old & WAIT_SHIELDED);
    word = old | WAIT_CANCEL;
    if (ends)
      word = (word & ~(WAIT_STATE | WAIT_REASON)) | WAIT_WOKEN |
             (uint64_t)WAKE_CANCEL << WAIT_REASON_SHIFT;
    CHAOS_DELAY(CANCEL);
  } while (!atomic_compare_exchange_weak_explicit(&f->wait, &old, word, memory_order_seq_cst,
                                                  memory_order_relaxed));
  if (ends)
    ready_after(cfiber_thread_self(), f, old);
  return 0;
}

int cfiber_pending(const struct cfiber *f) {
  if (UNLIKELY(atomic_load_explicit(&f->wait, memory_order_relaxed) & WAIT_CANCEL) && !f->shield)
    return ECANCELED;
  if (f->deadline && cfiber_now() >= f->deadline)
    return ETIMEDOUT;
  return 0;
}

static struct cfiber *current(void) {
  struct cfiber_thread *t = cfiber_thread_self();
  return t ? t->current : NULL;
}

int cfiber_canceled(void) {
  struct cfiber *f = current();
  return f && (atomic_load_explicit(&f->wait, memory_order_relaxed) & WAIT_CANCEL);
}

int cfiber_shield(int on) {
  struct cfiber *f = current();
  if (!f)
    return 0;
  int before = (int)f->shield;
  f->shield = on != 0;
  return before;
}

int64_t cfiber_deadline(int64_t abs_ns) {
  struct cfiber *f = current();
  if (!f)
    return 0;
  int64_t before = f->deadline;
  f->deadline = abs_ns < 0 ? 1 : abs_ns;
  return before;
}
