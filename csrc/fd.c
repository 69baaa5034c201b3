/*
 * fd.c - who waits on which descriptor.
 *
 * Each runtime has a table indexed by descriptor. An entry is registered with
 * one thread's poller, edge triggered, when somebody first waits, and stays so:
 * in the common case a wait costs no system call of its own. An edge that
 * nobody waits for is remembered as a change of the direction's sequence
 * number; who tries, fails with EAGAIN and then finds the number changed, tries
 * again instead of parking.
 *
 * One edge wakes one waiter. It serves itself, and passes the edge on to the
 * next, until one of them gets EAGAIN. The end of a stream wakes all: it is
 * there for each of them.
 *
 * The kernel forgets a registration silently when the descriptor is closed, and
 * the next owner of the number must not inherit the entry:
 *
 *   - cfiber_close voids the entry, and wakes its waiters with EBADF;
 *   - a descriptor that cfiber_accept returns is known to be new;
 *   - for all others (closed with plain close, opened by anything), the first
 *     CHECK_AFTER of a wait that relies on an old registration is watched by a
 *     timer: when it passes without an edge the registration is confirmed,
 *     once per wait, and made anew if it is gone.
 *
 * A read of a TCP connection that returns less than it had room for has emptied it. If
 * there has been no edge since, the next one need not be tried: it can only fail, and
 * that is the third of three system calls of a server's request. Not once the end, an
 * error or urgent data have been announced: one edge may have told of them and of data.
 *
 * Events carry (fd, generation); the generation changes with each incarnation
 * of the entry, so that late events, and later ones of a batch, find nothing.
 */
#include "fault.h"
#include "poller.h"

#include <netinet/in.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#define CHECK_AFTER (10 * NS_PER_MS)

#define CHUNK_ENTRIES 1024u
#define CHUNKS 16384u /* 2^24 descriptors */

/* On the waiting fiber's stack; linked under the entry's lock. */
struct waiter {
  struct waiter *next, *prev;
  struct cfiber *fiber;
  uint64_t epoch;
  bool linked;
  bool observes; /* takes no edge: it will only look (poll) */
};

struct waiters {
  struct waiter *head, *tail;
};

struct fd_entry {
  _Atomic(uint32_t) lock;
  uint32_t generation;
  bool urgent;                 /* urgent data is reported, too */
  struct cfiber_thread *owner; /* in whose poller it is; NULL: in none */
  _Atomic(uint32_t) sequence[2];
  struct waiters waiters[2];
  _Atomic(uint32_t) closes;  /* begun by cfiber_close */
  _Atomic(uint64_t) drained; /* DRAINED | the sequence at which a read has emptied it, or 0 */
  _Atomic(uint32_t) kind;    /* KIND_... */
} CACHE_ALIGNED;

#define DRAINED (UINT64_C(1) << 32)

enum { KIND_UNKNOWN, KIND_TCP, KIND_SOCKET, KIND_OTHER };

struct fd_table {
  _Atomic(struct fd_entry *) chunks[CHUNKS];
};

static struct cfiber_runtime *runtimes; /* the open ones */
static _Atomic(uint32_t) runtimes_lock;

/* ---- The table --------------------------------------------------------------- */

struct fd_table *cfiber_fds_open(struct cfiber_runtime *rt) {
  struct fd_table *table = cfiber_map_zeroed(sizeof *table);
  if (!table)
    return NULL;
  rt->fds = table;
  cfiber_lock(&runtimes_lock);
  rt->next_runtime = runtimes;
  runtimes = rt;
  cfiber_unlock(&runtimes_lock);
  return table;
}

void cfiber_fds_close(struct cfiber_runtime *rt) {
  cfiber_lock(&runtimes_lock);
  struct cfiber_runtime **link = &runtimes;
  while (*link != rt)
    link = &(*link)->next_runtime;
  *link = rt->next_runtime;
  cfiber_unlock(&runtimes_lock);
  for (uint32_t i = 0; i < CHUNKS; i++) {
    struct fd_entry *chunk = atomic_load_explicit(&rt->fds->chunks[i], memory_order_relaxed);
    if (chunk)
      munmap(chunk, CHUNK_ENTRIES * sizeof *chunk);
  }
  munmap(rt->fds, sizeof *rt->fds);
}

void cfiber_fds_forget(void) {
  runtimes = NULL;
  atomic_store(&runtimes_lock, 0);
}

static struct fd_entry *find(struct cfiber_runtime *rt, int fd) {
  if (fd < 0 || (uint32_t)fd >= CHUNKS * CHUNK_ENTRIES)
    return NULL;
  struct fd_entry *chunk =
      atomic_load_explicit(&rt->fds->chunks[(uint32_t)fd / CHUNK_ENTRIES], memory_order_acquire);
  return chunk ? &chunk[(uint32_t)fd % CHUNK_ENTRIES] : NULL;
}

static struct fd_entry *find_or_make(struct cfiber_runtime *rt, int fd, int *error) {
  struct fd_entry *entry = find(rt, fd);
  if (entry)
    return entry;
  *error = EBADF;
  if (fd < 0 || (uint32_t)fd >= CHUNKS * CHUNK_ENTRIES)
    return NULL;
  *error = ENOMEM;
  struct fd_entry *chunk = cfiber_map_zeroed(CHUNK_ENTRIES * sizeof *chunk), *none = NULL;
  if (!chunk)
    return NULL;
  CHAOS_DELAY(CHUNK);
  if (!atomic_compare_exchange_strong(&rt->fds->chunks[(uint32_t)fd / CHUNK_ENTRIES], &none, chunk))
    munmap(chunk, CHUNK_ENTRIES * sizeof *chunk);
  return find(rt, fd);
}

/* ---- Lists of waiters; the entry's lock is held --------------------------------- */

static void link_waiter(struct waiters *l, struct waiter *w) {
  w->next = NULL;
  w->prev = l->tail;
  w->linked = true;
  if (l->tail)
    l->tail->next = w;
  else
    l->head = w;
  l->tail = w;
}

static void unlink_waiter(struct waiters *l, struct waiter *w) {
  if (!w->linked)
    return;
  w->linked = false;
  *(w->prev ? &w->prev->next : &l->head) = w->next;
  *(w->next ? &w->next->prev : &l->tail) = w->prev;
}

/* Wakes waiters until one takes the edge; all of them if `all`. */
static void wake_waiters(struct cfiber_thread *self, struct waiters *l, enum wake_reason reason,
                         bool all) {
  struct waiter *w;
  while ((w = l->head) != NULL) {
    bool observes = w->observes;
    unlink_waiter(l, w); /* before the wake: w lies on the stack of the woken */
    if (cfiber_wake(self, w->fiber, w->epoch, reason) && !observes && !all)
      return;
  }
}

/* ---- Registration; the entry's lock is held ---------------------------------------- */

static void forget_state(struct fd_entry *entry) {
  atomic_store_explicit(&entry->drained, 0, memory_order_relaxed);
  atomic_store_explicit(&entry->kind, KIND_UNKNOWN, memory_order_relaxed);
}

static int add(struct cfiber_thread *t, struct fd_entry *entry, int fd) {
  forget_state(entry);
  int e = cfiber_poller_add(&t->poller, fd, ++entry->generation);
  entry->owner = e ? NULL : t;
  entry->urgent = false;
  return e;
}

/*
 * Sees to it that the entry is registered. *old tells that it was so before and
 * that this was taken on trust.
 */
static int ensure_registered(struct cfiber_thread *t, struct fd_entry *entry, int fd, bool recheck,
                             bool *old) {
  *old = false;
  if (!entry->owner)
    return add(t, entry, fd);
  if (!recheck) {
    *old = true;
    return 0;
  }
  if (cfiber_poller_confirm(&entry->owner->poller, fd, entry->generation))
    return 0;
  return add(t, entry, fd);
}

/* Forgets the descriptor and tells its waiters. */
static void renounce(struct cfiber_thread *self, struct fd_entry *entry, enum wake_reason reason) {
  entry->generation++;
  entry->owner = NULL;
  forget_state(entry);
  wake_waiters(self, &entry->waiters[DIR_READ], reason, true);
  wake_waiters(self, &entry->waiters[DIR_WRITE], reason, true);
}

void cfiber_fd_renew(struct cfiber_runtime *rt, int fd, enum wake_reason reason) {
  struct fd_entry *entry = find(rt, fd);
  if (!entry)
    return;
  cfiber_lock(&entry->lock);
  if (entry->owner)
    renounce(cfiber_thread_self(), entry, reason);
  cfiber_unlock(&entry->lock);
}

/* ---- Waiting -------------------------------------------------------------------------- */

int cfiber_fd_attempt(struct cfiber_runtime *rt, int fd, enum direction dir, struct fd_attempt *a) {
  int e;
  struct fd_entry *entry = find_or_make(rt, fd, &e); /* closes are counted from now on */
  if (!entry)
    return 0; /* whoever has to wait will be told */
  uint32_t closes = atomic_load_explicit(&entry->closes, memory_order_acquire);
  if (!a->begun)
    a->closes = closes;
  a->begun = true;
  a->sequence = atomic_load_explicit(&entry->sequence[dir], memory_order_acquire);
  uint32_t kind = atomic_load_explicit(&entry->kind, memory_order_relaxed);
  a->socket = kind == KIND_TCP || kind == KIND_SOCKET;
  a->drained =
      dir == DIR_READ && !a->recheck &&
      atomic_load_explicit(&entry->drained, memory_order_acquire) == (DRAINED | a->sequence);
  return UNLIKELY(a->closes != closes) ? EBADF : 0;
}

static uint32_t kind_of(int fd) {
#ifdef SO_PROTOCOL
  int protocol = 0;
  socklen_t len = sizeof protocol;
  if (TRY(PROTOCOL, -1, getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &protocol, &len)) == 0)
    return protocol == IPPROTO_TCP ? KIND_TCP : KIND_SOCKET;
#else
  (void)fd;
#endif
  return KIND_OTHER;
}

void cfiber_fd_drained(struct cfiber_runtime *rt, int fd, const struct fd_attempt *a) {
  struct fd_entry *entry = find(rt, fd);
  if (!entry)
    return;
  cfiber_lock(&entry->lock);
  uint32_t kind = atomic_load_explicit(&entry->kind, memory_order_relaxed);
  if (entry->owner && kind == KIND_UNKNOWN)
    atomic_store_explicit(&entry->kind, kind = kind_of(fd), memory_order_relaxed);
  if (entry->owner && kind == KIND_TCP)
    atomic_store_explicit(&entry->drained, DRAINED | a->sequence, memory_order_release);
  cfiber_unlock(&entry->lock);
}

void cfiber_fd_pass(struct cfiber_runtime *rt, int fd, enum direction dir,
                    const struct fd_attempt *a) {
  struct fd_entry *entry;
  if (!a->woken || !(entry = find(rt, fd)))
    return;
  CHAOS_DELAY(PASS);
  cfiber_lock(&entry->lock);
  wake_waiters(cfiber_thread_self(), &entry->waiters[dir], WAKE_EVENT, false);
  cfiber_unlock(&entry->lock);
}

/* Links w, registering where needed. *changed: there has been an edge; w is not linked. */
static int enlist(struct cfiber_thread *t, struct fd_entry *entry, int fd, enum direction dir,
                  struct fd_attempt *a, struct waiter *w, bool *changed, bool *old) {
  int e = 0;
  *old = false;
  CHAOS_DELAY(ENLIST);
  cfiber_lock(&entry->lock);
  if (atomic_load_explicit(&entry->closes, memory_order_relaxed) != a->closes)
    e = EBADF; /* while it was looking */
  *changed = atomic_load_explicit(&entry->sequence[dir], memory_order_relaxed) != a->sequence;
  if (!e && !*changed && (e = ensure_registered(t, entry, fd, a->recheck, old)) == 0)
    link_waiter(&entry->waiters[dir], w);
  cfiber_unlock(&entry->lock);
  a->recheck = false;
  CHAOS_DELAY(ENLISTED);
  return e;
}

/* Takes w off its list, unless a waker has. */
static void delist(struct fd_entry *entry, enum direction dir, struct waiter *w) {
  cfiber_lock(&entry->lock);
  unlink_waiter(&entry->waiters[dir], w);
  cfiber_unlock(&entry->lock);
}

/* The wait was armed but will not be used. */
static void abandon(struct cfiber_thread *t, struct cfiber *f, uint64_t epoch) {
  if (!cfiber_disarm(f, epoch))
    cfiber_park(t, f);
}

int cfiber_fd_wait(struct cfiber_thread *t, int fd, enum direction dir, struct fd_attempt *a) {
  struct cfiber *f = t->current;
  int e = cfiber_pending(f);
  if (e)
    return e;
  struct fd_entry *entry = find_or_make(t->runtime, fd, &e);
  if (!entry)
    return e;
  uint64_t epoch = cfiber_arm(f);
  if (!epoch)
    return ECANCELED;
  struct waiter w = {.fiber = f, .epoch = epoch};
  bool changed, old;
  e = enlist(t, entry, fd, dir, a, &w, &changed, &old);
  if (e || changed) {
    abandon(t, f, epoch);
    return e;
  }
  int64_t deadline = f->deadline ? f->deadline : INT64_MAX;
  int64_t check = old ? t->now + CHECK_AFTER : INT64_MAX;
  enum wake_reason reason = cfiber_park_until(t, f, epoch, check < deadline ? check : deadline, &e);
  if (e || (reason != WAKE_EVENT && reason != WAKE_CLOSED))
    delist(entry, dir, &w);
  if (e)
    return e;
  switch (reason) {
  case WAKE_EVENT:
    a->woken = true;
    return 0;
  case WAKE_CLOSED:
    return EBADF;
  case WAKE_CANCEL:
    return ECANCELED;
  case WAKE_TIMEOUT:
    if (check >= deadline)
      return ETIMEDOUT;
    a->recheck = true;
    return 0;
  case WAKE_RECHECK:
    return 0;
  }
  return 0;
}

/* ---- Waiting for any of several ------------------------------------------------------------ */

struct any_wait {
  struct waiter waiter[2];
  struct fd_entry *entry;
};

static void delist_all(struct fd_interest *interests, struct any_wait *waits, size_t n) {
  for (size_t i = 0; i < n; i++)
    for (int dir = 0; dir < 2; dir++)
      if (interests[i].wants[dir] && waits[i].entry)
        delist(waits[i].entry, dir, &waits[i].waiter[dir]);
}

/*
 * Has urgent data reported to who has just been linked as a reader. Where the
 * system cannot, this is an error only to who waits for nothing else: many ask
 * for POLLPRI beside POLLIN and have never seen it.
 */
static int enlist_urgent(struct fd_entry *entry, const struct fd_interest *in) {
  int e = 0;
  cfiber_lock(&entry->lock);
  if (entry->owner && !entry->urgent) { /* no owner: closed meanwhile, of which the waiter hears */
    e = cfiber_poller_add_urgent(&entry->owner->poller, in->fd, entry->generation);
    entry->urgent = e == 0;
  }
  cfiber_unlock(&entry->lock);
  return e == ENOTSUP && !in->urgent_only ? 0 : e;
}

/* Links everything. *n_linked is how far it came. */
static int enlist_all(struct cfiber_thread *t, uint64_t epoch, struct fd_interest *interests,
                      struct any_wait *waits, size_t n, bool *changed, bool *old,
                      size_t *n_linked) {
  *changed = *old = false;
  for (size_t i = 0; i < n; i++) {
    struct fd_interest *in = &interests[i];
    *n_linked = i + 1;
    waits[i] = (struct any_wait){0};
    if (!in->wants[0] && !in->wants[1])
      continue;
    int e = 0;
    waits[i].entry = find_or_make(t->runtime, in->fd, &e);
    if (!waits[i].entry)
      return e;
    for (int dir = 0; dir < 2; dir++) {
      bool one_changed = false, one_old = false;
      if (!in->wants[dir])
        continue;
      struct waiter *w = &waits[i].waiter[dir];
      *w = (struct waiter){.fiber = t->current, .epoch = epoch, .observes = true};
      e = enlist(t, waits[i].entry, in->fd, dir, &in->attempt[dir], w, &one_changed, &one_old);
      *old |= one_old;
      *changed |= one_changed;
      if (e == EPERM)
        e = 0; /* always ready: poll has said so */
      else if (!e && !one_changed && dir == DIR_READ && in->urgent)
        e = enlist_urgent(waits[i].entry, in);
      if (e || *changed)
        return e;
    }
  }
  return 0;
}

static void recheck_all(struct fd_interest *interests, size_t n) {
  for (size_t i = 0; i < n; i++)
    interests[i].attempt[0].recheck = interests[i].attempt[1].recheck = true;
}

int cfiber_fd_wait_any(struct cfiber_thread *t, struct fd_interest *interests, size_t n,
                       int64_t when) {
  struct cfiber *f = t->current;
  struct any_wait few[4], *waits = few;
  int e = cfiber_pending(f);
  if (e)
    return e;
  if (n > sizeof few / sizeof *few && !(waits = TRY(MALLOC, NULL, malloc(n * sizeof *waits))))
    return ENOMEM;
  uint64_t epoch = cfiber_arm(f);
  bool changed, old;
  size_t linked = 0;
  enum wake_reason reason = WAKE_CANCEL;
  int64_t check = INT64_MAX;
  if (epoch) {
    e = enlist_all(t, epoch, interests, waits, n, &changed, &old, &linked);
    if (e || changed) {
      abandon(t, f, epoch);
      reason = WAKE_EVENT;
    } else {
      check = old ? t->now + CHECK_AFTER : INT64_MAX;
      reason = cfiber_park_until(t, f, epoch, check < when ? check : when, &e);
    }
    delist_all(interests, waits, linked);
  }
  if (waits != few)
    free(waits);
  if (e)
    return e;
  if (reason == WAKE_CLOSED)
    return EBADF;
  if (reason == WAKE_CANCEL)
    return ECANCELED;
  if (reason == WAKE_TIMEOUT) {
    if (check >= when)
      return ETIMEDOUT;
    recheck_all(interests, n);
  }
  return 0;
}

/* ---- Events and close ------------------------------------------------------------------------ */

void cfiber_fd_event(struct cfiber_thread *t, int fd, uint32_t generation, enum readiness readable,
                     enum readiness writable) {
  struct fd_entry *entry = find(t->runtime, fd);
  if (!entry)
    return;
  enum readiness ready[2] = {[DIR_READ] = readable, [DIR_WRITE] = writable};
  struct cfiber_thread *self = cfiber_thread_self();
  CHAOS_DELAY(EDGE);
  cfiber_lock(&entry->lock);
  for (int dir = 0; dir < 2 && entry->owner && entry->generation == generation; dir++) {
    if (!ready[dir])
      continue;
    atomic_fetch_add_explicit(&entry->sequence[dir], 1, memory_order_release);
    CHAOS_DELAY(COUNT_EDGE);
    if (dir == DIR_READ && ready[dir] == READY_FOR_GOOD) { /* there will be no edge for the end */
      atomic_store_explicit(&entry->kind, KIND_OTHER, memory_order_relaxed);
      atomic_store_explicit(&entry->drained, 0, memory_order_relaxed);
    }
    wake_waiters(self, &entry->waiters[dir], WAKE_EVENT, ready[dir] == READY_FOR_GOOD);
  }
  cfiber_unlock(&entry->lock);
}

/* WAKE_CLOSED: the descriptor is about to be closed. WAKE_RECHECK: it has been. */
static void renounce_everywhere(int fd, enum wake_reason reason) {
  struct cfiber_thread *self = cfiber_thread_self();
  cfiber_lock(&runtimes_lock);
  for (struct cfiber_runtime *rt = runtimes; rt; rt = rt->next_runtime) {
    struct fd_entry *entry = find(rt, fd);
    if (!entry)
      continue;
    cfiber_lock(&entry->lock);
    if (reason == WAKE_CLOSED)
      atomic_fetch_add_explicit(&entry->closes, 1, memory_order_release);
    if (entry->owner || entry->waiters[DIR_READ].head || entry->waiters[DIR_WRITE].head)
      renounce(self, entry, reason);
    cfiber_unlock(&entry->lock);
  }
  cfiber_unlock(&runtimes_lock);
}

/*
 * Those that wait when the call begins get EBADF and never touch the number
 * again; those that are just looking, for the first time or again, notice that `closes`
 * has changed. Somebody who began to wait between that and the kernel's close is
 * told to look again: by then the number may be somebody else's.
 */
int cfiber_close(int fd) {
  renounce_everywhere(fd, WAKE_CLOSED);
  CHAOS_DELAY(CLOSE);
  int e = TRY_DONE(CLOSE, -1, close(fd)) ? cfiber_errno() : 0;
  if (e == EBADF)
    return cfiber_fail(e);
  CHAOS_DELAY(CLOSED);
  renounce_everywhere(fd, WAKE_RECHECK);
  return e && e != EINTR ? cfiber_fail(e) : 0;
}
