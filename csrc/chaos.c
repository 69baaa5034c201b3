/*
 * chaos.c - see chaos.h.
 */
#include "core.h"

/* A file of nothing is not C. */
typedef int cfiber_chaos_is_not_empty;

#ifdef CFIBER_CHAOS

#include "attempt.h"
#include "fault.h"

#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>

#ifndef PIPE_BUF
#define PIPE_BUF 512
#endif

enum knob { YIELD, DELAY, REORDER, HIDDEN, AGAIN, SHORT, FAIL, KNOBS };

static const char *const knob_names[KNOBS] = {"yield", "delay", "reorder", "hidden",
                                              "again", "short", "fail"};

struct site {
  const char *name;
  int hidden, told; /* errors */
};

static const struct site sites[FAULT_SITES] = {
#define SITE(name, hidden, told) {#name, hidden, told},
    FAULT_SITE_LIST(SITE)
#undef SITE
};

static const char *const point_names[CHAOS_POINTS] = {
#define POINT(name) #name,
    CHAOS_POINT_LIST(POINT)
#undef POINT
};

static struct {
  uint64_t seed;
  uint32_t chance[KNOBS]; /* of 2^32; written before there are threads */
  uint32_t point_chance[CHAOS_POINTS];
  uint32_t fail_at[FAULT_SITES];
  uint32_t nth[FAULT_SITES];
  _Atomic(uint32_t) site_calls[FAULT_SITES];
  _Atomic(uint32_t) excepted; /* a bit for each knob */
  _Atomic(uint64_t) passed[CHAOS_POINTS], taken[CHAOS_POINTS];
  _Atomic(uint64_t) hidden[FAULT_SITES], told[FAULT_SITES];
} chaos;

/* ---- Chance ------------------------------------------------------------------------------ */

/* splitmix64 */
static uint64_t mix(uint64_t x) {
  x += UINT64_C(0x9e3779b97f4a7c15);
  x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
  x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
  return x ^ x >> 31;
}

static uint32_t probability(double p) {
  return p <= 0 ? 0 : p >= 1 ? UINT32_MAX : (uint32_t)(p * 4294967296.0);
}

static void initialize(void);

static _Thread_local uint64_t state;

/* Of a thread that has none, or, with an index, of one that begins anew. */
static void seed_thread(uint32_t index) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  static _Atomic(uint32_t) starts[64]; /* 0: of threads without fibers */
  pthread_once(&once, initialize);
  uint32_t which = index % 64, start = atomic_fetch_add(&starts[which], 1);
  state = mix(chaos.seed ^ mix((uint64_t)which << 32 | start)) | 1;
}

/* Opaque: the variable's address must not be kept over a switch. */
static OPAQUE uint32_t draw(void) {
  if (!state)
    seed_thread(0);
  state += UINT64_C(0x9e3779b97f4a7c15);
  return (uint32_t)(mix(state) >> 32);
}

static uint32_t below(uint32_t n) {
  return (uint32_t)((uint64_t)draw() * n >> 32);
}

static bool happens(enum knob knob) {
  return draw() < chaos.chance[knob] && !(atomic_load(&chaos.excepted) >> knob & 1);
}

OPAQUE void cfiber_chaos_thread(uint32_t index) {
  seed_thread(index + 1);
}

/* ---- What is set --------------------------------------------------------------------------- */

/* Which knobs are on, and which points are slow, is the seed's. */
static void set_by_seed(void) {
  static const double choices[] = {0, 0.001, 0.01, 0.05};
  static const double most[KNOBS] = {4, 2, 2, 1, 0.2, 2, 0};
  uint64_t r = mix(chaos.seed);
  for (int k = 0; k < KNOBS; k++)
    chaos.chance[k] = probability(choices[r >> 2 * k & 3] * most[k]);
}

static void set_points(void) {
  for (int p = 0; p < CHAOS_POINTS; p++) {
    uint64_t r = mix(chaos.seed * 1000 + (uint64_t)p) % 16;
    uint64_t chance = chaos.chance[DELAY];
    chance = r < 6 ? 0 : r < 13 ? chance : chance * 16;
    chaos.point_chance[p] = chance > UINT32_MAX ? UINT32_MAX : (uint32_t)chance;
  }
}

static int site_named(const char *name, size_t n) {
  for (int s = 0; s < FAULT_SITES; s++)
    if (strlen(sites[s].name) == n && strncmp(sites[s].name, name, n) == 0)
      return s;
  return -1;
}

static void report(void);

static bool set_knob(const char *name, size_t n, const char *value) {
  if (n == 6 && strncmp(name, "report", n) == 0)
    return atexit(report) == 0;
  const char *at = memchr(name, '@', n);
  int site = at ? site_named(at + 1, n - (size_t)(at + 1 - name)) : -1;
  if (at && site >= 0 && strncmp(name, "fail@", 5) == 0) {
    chaos.fail_at[site] = probability(atof(value));
    return true;
  }
  if (at && site >= 0 && strncmp(name, "nth@", 4) == 0) {
    chaos.nth[site] = (uint32_t)atoi(value);
    return true;
  }
  for (int k = 0; k < KNOBS; k++) {
    if (strlen(knob_names[k]) == n && strncmp(knob_names[k], name, n) == 0) {
      chaos.chance[k] = probability(atof(value));
      return true;
    }
  }
  return false;
}

static void set_by_environment(const char *s) {
  while (*s) {
    size_t all = strcspn(s, ","), n = strcspn(s, ",=");
    if (!set_knob(s, n, n < all ? s + n + 1 : "")) {
      fprintf(stderr, "CFIBER_CHAOS: what is %.*s?\n", (int)all, s);
      abort();
    }
    s += all;
    s += *s == ',';
  }
}

static void initialize(void) {
  const char *seed = getenv("CFIBER_CHAOS_SEED"), *knobs = getenv("CFIBER_CHAOS");
  chaos.seed = seed ? strtoull(seed, NULL, 0) : 1;
  set_by_seed();
  if (knobs)
    set_by_environment(knobs);
  for (int s = 0; s < FAULT_SITES; s++)
    if (!chaos.fail_at[s])
      chaos.fail_at[s] = chaos.chance[FAIL];
  set_points();
}

static void except_for(const char *knobs, size_t n) {
  for (int k = 0; k < KNOBS; k++) {
    size_t length = strlen(knob_names[k]);
    for (size_t i = 0; i + length <= n; i++)
      if (strncmp(knobs + i, knob_names[k], length) == 0)
        atomic_fetch_or(&chaos.excepted, UINT32_C(1) << k);
  }
}

void cfiber_chaos_test(const char *name) {
  atomic_store(&chaos.excepted, 0);
  const char *s = getenv("CFIBER_CHAOS_EXCEPT");
  while (s && *s) {
    size_t all = strcspn(s, ","), n = strcspn(s, ",=");
    if (n < all && ((n == 1 && *s == '*') || (strlen(name) == n && strncmp(name, s, n) == 0)))
      except_for(s + n + 1, all - n - 1);
    s += all;
    s += *s == ',';
  }
}

static void report(void) {
  for (int p = 0; p < CHAOS_POINTS; p++)
    fprintf(stderr, "chaos: point %s %llu %llu\n", point_names[p],
            (unsigned long long)atomic_load(&chaos.passed[p]),
            (unsigned long long)atomic_load(&chaos.taken[p]));
  for (int s = 0; s < FAULT_SITES; s++)
    fprintf(stderr, "chaos: site %s %u %llu %llu\n", sites[s].name,
            atomic_load(&chaos.site_calls[s]), (unsigned long long)atomic_load(&chaos.hidden[s]),
            (unsigned long long)atomic_load(&chaos.told[s]));
}

/* ---- Delays --------------------------------------------------------------------------------- */

static void wait_a_while(void) {
  uint32_t kind = below(32);
  if (kind < 18) {
    for (uint32_t n = below(400); n > 0; n--)
      cfiber_relax();
  } else if (kind < 30) {
    sched_yield();
  } else {
    struct timespec ts = {.tv_nsec = (long)below(100 * NS_PER_US)};
    nanosleep(&ts, NULL);
  }
}

void cfiber_chaos_delay(enum chaos_point point) {
  int e = cfiber_errno();
  atomic_fetch_add_explicit(&chaos.passed[point], 1, memory_order_relaxed);
  if (draw() < chaos.point_chance[point] && !(atomic_load(&chaos.excepted) >> DELAY & 1)) {
    atomic_fetch_add_explicit(&chaos.taken[point], 1, memory_order_relaxed);
    wait_a_while();
  }
  cfiber_fail(e);
}

/* ---- Order ------------------------------------------------------------------------------------
 */

struct cfiber_thread *cfiber_chaos_yield(struct cfiber_thread *t) {
  return happens(YIELD) ? cfiber_reschedule(t) : t;
}

void cfiber_chaos_reorder(struct cfiber_thread *t) {
  if (!happens(REORDER))
    return;
  struct cfiber *f = list_pop(&t->local);
  if (f)
    list_push(&t->local, f);
  if (below(2))
    t->picks |= 3; /* the ring is next */
}

/* ---- Failures ----------------------------------------------------------------------------------
 */

static bool fails(enum fault_site site, int *error) {
  uint32_t call = atomic_fetch_add_explicit(&chaos.site_calls[site], 1, memory_order_relaxed) + 1;
  if (sites[site].hidden && happens(HIDDEN)) {
    atomic_fetch_add_explicit(&chaos.hidden[site], 1, memory_order_relaxed);
    *error = sites[site].hidden;
    return true;
  }
  if (!sites[site].told || atomic_load(&chaos.excepted) >> FAIL & 1)
    return false;
  if (draw() >= chaos.fail_at[site] && chaos.nth[site] != call)
    return false;
  atomic_fetch_add_explicit(&chaos.told[site], 1, memory_order_relaxed);
  *error = sites[site].told;
  return true;
}

bool cfiber_chaos_fault(enum fault_site site) {
  int e = cfiber_errno();
  if (happens(DELAY))
    wait_a_while();
  bool failed = fails(site, &e);
  cfiber_fail(e);
  return failed;
}

int cfiber_chaos_most(int n) {
  return happens(SHORT) ? 1 + (int)below((uint32_t)n) : n;
}

/* The fewest bytes of an operation that may be moved as a part; 0: it moves as a whole. */
static size_t least_part(const struct io *io) {
  struct stat st;
  int type = 0;
  socklen_t len = sizeof type;
  if (io->no_wait || (io->flags & (MSG_PEEK | MSG_OOB)) || fstat(io->fd, &st))
    return 0;
  if (S_ISSOCK(st.st_mode))
    return !getsockopt(io->fd, SOL_SOCKET, SO_TYPE, &type, &len) && type == SOCK_STREAM;
  if (io->dir == DIR_READ)
    return S_ISREG(st.st_mode) || S_ISFIFO(st.st_mode) || S_ISCHR(st.st_mode);
  return S_ISREG(st.st_mode) ? 1 : S_ISFIFO(st.st_mode) ? PIPE_BUF : 0;
}

/* Tries a part of the first element that is not empty. */
static ssize_t attempt_part(struct io *io, const struct iovec *iov, size_t n, size_t least) {
  while (n > 0 && iov->iov_len == 0)
    iov++, n--;
  if (n == 0 || iov->iov_len <= least)
    return io->attempt(io);
  struct iovec part = {iov->iov_base, least + below((uint32_t)(iov->iov_len - least))};
  struct io some = *io;
  struct msghdr msg;
  if (io->msg) {
    msg = *io->msg;
    msg.msg_iov = &part;
    msg.msg_iovlen = 1;
    some.msg = &msg;
  } else {
    some.iov = &part;
    some.iovcnt = 1;
  }
  ssize_t moved = io->attempt(&some);
  io->socket = some.socket;
  if (io->msg) {
    io->msg->msg_namelen = msg.msg_namelen;
    io->msg->msg_controllen = msg.msg_controllen;
    io->msg->msg_flags = msg.msg_flags;
  }
  io->drains = io->drains && moved < (ssize_t)part.iov_len;
  return moved;
}

static bool moves_nothing(const struct io *io) {
  size_t sum = 0;
  for (int i = 0; io->iov && i < io->iovcnt; i++)
    sum += io->iov[i].iov_len;
  return io->attempt == cfiber_attempt_write_nothing ||
         (io->attempt == cfiber_attempt_read && sum == 0);
}

/* A call that could never wait must not be told to. */
static bool could_wait(const struct io *io) {
  int mode = io->no_wait || moves_nothing(io) ? -1 : fcntl(io->fd, F_GETFL);
  return mode >= 0 && (mode & O_ACCMODE) != (io->dir == DIR_READ ? O_WRONLY : O_RDONLY);
}

ssize_t cfiber_chaos_attempt(struct io *io) {
  size_t least;
  if (happens(AGAIN) && could_wait(io))
    return -EAGAIN;
  if ((!io->iov && !io->msg) || !happens(SHORT) || (least = least_part(io)) == 0)
    return io->attempt(io);
  return io->msg ? attempt_part(io, io->msg->msg_iov, (size_t)io->msg->msg_iovlen, least)
                 : attempt_part(io, io->iov, (size_t)io->iovcnt, least);
}

#endif /* CFIBER_CHAOS */
