/*
 * stress_test.c - everything at once, by chance: a tree of fibers that spawn,
 * yield, sleep, wait, cancel, detach, transfer and close, on one thread and on
 * several, bound to them and not.
 *
 *      stress_test [seed [rounds]]
 *
 * The seed is printed; with the same seed each fiber makes the same choices,
 * though not in the same order among each other. CFIBER_STRESS_SEED serves
 * where there are no arguments. What is bounded is the work, not the time.
 *
 * Each fiber watches over itself: that its stack holds what it has put there,
 * that it is on one thread only, that it is who it was, that each call ends as
 * it may end, and no other way.
 */
#define CFIBER_REDEFINE_ERRNO /* the fibers of some rounds may move */
#include "testing.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#define US INT64_C(1000)

/* ---- A fiber's state --------------------------------------------------------------------- */

/* ThreadSanitizer clears most of a megabyte for each new fiber. */
#if defined(__SANITIZE_THREAD__)
#define TREES 2
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define TREES 2
#endif
#endif
#ifndef TREES
#define TREES 24
#endif

enum { CANARY = 16, CHILDREN = 4, DEPTH = 4, STEPS = 12, OPEN_PAIRS = 100 };

/* How a fiber's end is known to whoever started it. */
struct job {
  uint64_t seed;
  int depth;
  bool cancelled;    /* by its parent, some time */
  _Atomic int *done; /* counted up at the end, if nobody joins */
};

struct self {
  cfiber_t *fiber;
  uint64_t random;
  bool may_fail; /* it may have been cancelled */
  _Atomic int running;
  uint64_t canary[CANARY];
};

static _Atomic int spawned, ended, pairs;
static bool single; /* one thread only */

/* splitmix64 */
static uint64_t mix(uint64_t x) {
  x += UINT64_C(0x9e3779b97f4a7c15);
  x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
  x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
  return x ^ x >> 31;
}

static uint64_t any(struct self *s, uint64_t below) {
  s->random = mix(s->random);
  return s->random % below;
}

static void begin(struct self *s, uint64_t seed, bool may_fail) {
  s->fiber = cfiber_self();
  s->random = seed;
  s->may_fail = may_fail;
  for (int i = 0; i < CANARY; i++)
    s->canary[i] = mix(seed + (uint64_t)i);
  atomic_store(&s->running, 1);
  atomic_fetch_add(&spawned, 1);
}

/* Around each call that may park: by then nobody else may run this fiber. */
static void leave(struct self *s) {
  CHECK(atomic_exchange(&s->running, 0) == 1);
}

static void back(struct self *s, uint64_t seed) {
  CHECK(atomic_exchange(&s->running, 1) == 0);
  CHECK(cfiber_self() == s->fiber);
  for (int i = 0; i < CANARY; i++)
    CHECK(s->canary[i] == mix(seed + (uint64_t)i));
}

/* What a call may return: success, or ECANCELED for who may be cancelled. */
static bool ok(struct self *s, intptr_t r) {
  if (r >= 0)
    return true;
  CHECK(errno == ECANCELED && s->may_fail && cfiber_canceled());
  return false;
}

/* ---- What children do, beside being a tree ------------------------------------------------ */

struct transfer {
  int fd;
  size_t n;
  uint64_t seed;
};

static unsigned char byte_at(uint64_t seed, size_t i) {
  return (unsigned char)(seed >> i % 7 * 8 ^ i);
}

/* Writes n bytes of a pattern, in pieces. The result: how many. */
static intptr_t writer(void *p) {
  struct transfer t = *(struct transfer *)p;
  struct self s;
  begin(&s, t.seed, true);
  unsigned char buf[1500];
  size_t done = 0;
  while (done < t.n) {
    size_t piece = 1 + (size_t)any(&s, sizeof buf);
    if (piece > t.n - done)
      piece = t.n - done;
    for (size_t i = 0; i < piece; i++)
      buf[i] = byte_at(t.seed, done + i);
    leave(&s);
    ssize_t n = cfiber_write(t.fd, buf, piece);
    back(&s, t.seed);
    if (n < 0) {
      CHECK(errno == ECANCELED);
      break;
    }
    done += (size_t)n;
  }
  atomic_fetch_add(&ended, 1);
  return (intptr_t)done;
}

/* Reads one byte; the result is it, or a negative errno value. */
static intptr_t reader(void *p) {
  int fd = *(int *)p;
  unsigned char c;
  struct self s;
  begin(&s, (uint64_t)fd, true);
  leave(&s);
  ssize_t n = cfiber_read(fd, &c, 1);
  back(&s, (uint64_t)fd);
  atomic_fetch_add(&ended, 1);
  return n < 0 ? -errno : n == 0 ? 1000 : c;
}

static intptr_t sum_below(void *p) {
  volatile uint64_t deep[2048]; /* as much as a small stack holds */
  uint64_t n = (uint64_t)(uintptr_t)p, sum = 0;
  for (uint64_t i = 0; i < 2048; i++)
    deep[i] = i;
  for (uint64_t i = 0; i < n; i++)
    sum += deep[i];
  return (intptr_t)sum;
}

/* ---- The steps ---------------------------------------------------------------------------------
 */

static bool open_pair(struct self *s, int fds[2]) {
  if (atomic_fetch_add(&pairs, 1) >= OPEN_PAIRS) {
    atomic_fetch_sub(&pairs, 1);
    return false;
  }
  int e = any(s, 2) ? pipe(fds) : socketpair(AF_UNIX, SOCK_STREAM, 0, fds);
  CHECK(e == 0);
  return e == 0;
}

static void closed(void) {
  atomic_fetch_sub(&pairs, 1);
}

/* A child writes, this fiber reads, all or part of it. */
static void step_transfer(struct self *s, uint64_t seed) {
  int fds[2];
  if (!open_pair(s, fds))
    return;
  struct transfer t = {.fd = fds[1], .n = 1 + (size_t)any(s, 100000), .seed = mix(seed)};
  size_t got = 0, wanted = any(s, 4) ? t.n : 1 + (size_t)any(s, t.n);
  unsigned char buf[2000];
  cfiber_t *f = cfiber_spawn(writer, &t, NULL);
  CHECK(f);
  bool whole = true;
  while (f && got < wanted) {
    size_t most = wanted - got < sizeof buf ? wanted - got : sizeof buf;
    leave(s);
    ssize_t n = cfiber_read(fds[0], buf, most);
    back(s, seed);
    if (!ok(s, n)) {
      whole = false;
      break;
    }
    CHECK(n > 0);
    if (n <= 0)
      break;
    for (ssize_t i = 0; i < n; i++)
      CHECK(buf[i] == byte_at(t.seed, got + (size_t)i));
    got += (size_t)n;
  }
  if (f) {
    intptr_t written = -1;
    if (got < t.n)
      cfiber_cancel(f); /* nobody reads the rest */
    cfiber_shield(1);
    leave(s);
    int e = cfiber_join(f, &written);
    back(s, seed);
    cfiber_shield(0);
    CHECK(e == 0 && written >= (intptr_t)got && written <= (intptr_t)t.n);
    CHECK(!whole || got == wanted);
  }
  CHECK(cfiber_close(fds[0]) == 0 && cfiber_close(fds[1]) == 0);
  closed();
}

/* Two children wait for one byte each; one gets it, one meets the end, or both do. */
static void step_close(struct self *s, uint64_t seed) {
  int fds[2], byte = 0, end = 0;
  if (!open_pair(s, fds))
    return;
  cfiber_t *f[2] = {cfiber_spawn(reader, &fds[0], NULL), cfiber_spawn(reader, &fds[0], NULL)};
  CHECK(f[0] && f[1]);
  bool sent = any(s, 2);
  cfiber_shield(1);
  if (sent) {
    unsigned char c = 77;
    leave(s);
    CHECK(cfiber_write(fds[1], &c, 1) == 1);
    back(s, seed);
  }
  if (any(s, 2)) {
    leave(s);
    CHECK(cfiber_sleep((int64_t)any(s, 50) * US) == 0);
    back(s, seed);
  }
  CHECK(cfiber_close(fds[1]) == 0);
  intptr_t r[2] = {0, 0};
  for (int i = 0; i < 2; i++) {
    leave(s);
    CHECK(cfiber_join(f[i], &r[i]) == 0);
    back(s, seed);
    byte += r[i] == 77;
    end += r[i] == 1000;
  }
  CHECK(byte == sent && end == 2 - sent);
  cfiber_shield(0);
  CHECK(cfiber_close(fds[0]) == 0);
  closed();
}

/* A child waits for what never comes, until it is cancelled, or the file ends, or is closed. */
static void step_close_under_reader(struct self *s, uint64_t seed) {
  int fds[2];
  if (!open_pair(s, fds))
    return;
  cfiber_t *f = cfiber_spawn(reader, &fds[0], NULL);
  CHECK(f);
  int way = (int)any(s, single ? 3 : 2);
  cfiber_shield(1);
  if (way == 2) {
    /* Only where it is known to wait: else it might find the number's next owner. */
    until_waits(f);
    CHECK(cfiber_close(fds[0]) == 0);
  } else if (way == 1) {
    CHECK(cfiber_close(fds[1]) == 0);
  } else {
    CHECK(cfiber_cancel(f) == 0);
  }
  intptr_t r = 0;
  leave(s);
  CHECK(cfiber_join(f, &r) == 0);
  back(s, seed);
  cfiber_shield(0);
  CHECK(r == (way == 2 ? -EBADF : way == 1 ? 1000 : -ECANCELED));
  if (way != 2)
    CHECK(cfiber_close(fds[0]) == 0);
  if (way != 1)
    CHECK(cfiber_close(fds[1]) == 0);
  closed();
}

static void step_poll(struct self *s, uint64_t seed) {
  int fds[2];
  if (!open_pair(s, fds))
    return;
  struct pollfd p[2] = {{.fd = fds[0], .events = POLLIN}, {.fd = -1}};
  leave(s);
  int n = cfiber_poll(p, 2, (int)any(s, 2));
  back(s, seed);
  if (ok(s, n))
    CHECK(n == 0);
  struct transfer t = {.fd = fds[1], .n = 1, .seed = seed};
  cfiber_t *f = cfiber_spawn(writer, &t, NULL);
  CHECK(f);
  leave(s);
  n = cfiber_poll(p, 2, -1);
  back(s, seed);
  if (ok(s, n))
    CHECK(n == 1 && p[0].revents == POLLIN);
  cfiber_shield(1);
  leave(s);
  CHECK(cfiber_join(f, NULL) == 0);
  back(s, seed);
  cfiber_shield(0);
  CHECK(cfiber_close(fds[0]) == 0 && cfiber_close(fds[1]) == 0);
  closed();
}

/* A deadline, that passes. */
static void step_deadline(struct self *s, uint64_t seed) {
  int fds[2];
  char c;
  if (!open_pair(s, fds))
    return;
  int64_t when = cfiber_now() + (int64_t)any(s, 100) * US;
  CHECK(cfiber_deadline(when) == 0);
  leave(s);
  ssize_t n = cfiber_read(fds[0], &c, 1);
  back(s, seed);
  CHECK(n == -1);
  if (errno != ETIMEDOUT)
    CHECK(!ok(s, n));
  else
    CHECK(cfiber_now() >= when);
  CHECK(cfiber_deadline(0) == when);
  CHECK(cfiber_close(fds[0]) == 0 && cfiber_close(fds[1]) == 0);
  closed();
}

static void step_sleep(struct self *s, uint64_t seed) {
  int64_t ns = (int64_t)any(s, 100) * US, before = cfiber_now();
  leave(s);
  int r = cfiber_sleep(ns);
  back(s, seed);
  if (ok(s, r))
    CHECK(cfiber_now() - before >= ns);
}

static void step_yield(struct self *s, uint64_t seed) {
  int mark = (int)any(s, 100);
  errno = mark;
  leave(s);
  cfiber_yield();
  CHECK(errno == mark);
  back(s, seed);
}

static void step_native(struct self *s) {
  intptr_t n = (intptr_t)any(s, 2000);
  CHECK(cfiber_on_native_stack(sum_below, (void *)n) == n * (n - 1) / 2);
}

/* ---- The tree
 * ------------------------------------------------------------------------------------ */

static intptr_t tree(void *p);

/* Starts a child; waits for it now, later (then it is returned), or never. */
static cfiber_t *step_spawn(struct self *s, struct job *child, int depth, uint64_t seed,
                            _Atomic int *detached, int *ndetached) {
  *child = (struct job){.seed = mix(s->random), .depth = depth - 1};
  struct cfiber_attr attr = {.name = "stress"};
  static const size_t sizes[] = {0, 0, 0, 64 * 1024, 128 * 1024};
  attr.stack_size = sizes[any(s, 5)];
  attr.flags = (any(s, 3) ? 0 : CFIBER_MIGRATABLE) | (any(s, 8) ? 0 : CFIBER_KEEP_FP);
  int way = (int)any(s, 4);
  child->cancelled = way == 1;
  if (way == 2)
    child->done = detached;
  cfiber_t *f = cfiber_spawn(tree, child, &attr);
  CHECK(f);
  if (!f)
    return NULL;
  if (way == 1 && any(s, 2))
    step_sleep(s, seed);
  if (way == 1)
    CHECK(cfiber_cancel(f) == 0);
  if (way == 2) {
    ++*ndetached;
    CHECK(cfiber_detach(f) == 0);
    return NULL;
  }
  if (way != 0)
    return f;
  intptr_t r = -1;
  cfiber_shield(1);
  leave(s);
  CHECK(cfiber_join(f, &r) == 0);
  back(s, seed);
  cfiber_shield(0);
  CHECK(r == (intptr_t)(child->seed >> 8));
  return NULL;
}

static void step(struct self *s, int kind, uint64_t seed) {
  switch (kind) {
  case 0:
    step_transfer(s, seed);
    break;
  case 1:
    step_close(s, seed);
    break;
  case 2:
    step_close_under_reader(s, seed);
    break;
  case 3:
    step_poll(s, seed);
    break;
  case 4:
    step_deadline(s, seed);
    break;
  case 5:
  case 6:
    step_sleep(s, seed);
    break;
  case 7:
    step_native(s);
    break;
  default:
    step_yield(s, seed);
    break;
  }
}

static intptr_t tree(void *p) {
  struct job job = *(struct job *)p, children[CHILDREN];
  cfiber_t *later[CHILDREN];
  intptr_t expected[CHILDREN];
  struct self s;
  int n = 0, nlater = 0, ndetached = 0;
  _Atomic int detached = 0;
  begin(&s, job.seed, job.cancelled);
  for (int i = 0; i < STEPS; i++) {
    if (job.depth > 0 && n < CHILDREN && any(&s, 3) == 0) {
      cfiber_t *f = step_spawn(&s, &children[n], job.depth, job.seed, &detached, &ndetached);
      n++;
      if (f) {
        expected[nlater] = (intptr_t)(children[n - 1].seed >> 8);
        later[nlater++] = f;
      }
    } else {
      step(&s, (int)any(&s, 12), job.seed);
    }
  }
  cfiber_shield(1);
  for (int i = 0; i < nlater; i++) {
    intptr_t r = -1;
    leave(&s);
    CHECK(cfiber_join(later[i], &r) == 0);
    back(&s, job.seed);
    CHECK(r == expected[i]);
  }
  while (atomic_load(&detached) < ndetached) {
    leave(&s);
    CHECK(cfiber_sleep(20 * US) == 0);
    back(&s, job.seed);
  }
  atomic_fetch_add(&ended, 1);
  if (job.done)
    atomic_fetch_add(job.done, 1);
  return (intptr_t)(job.seed >> 8);
}

int main(int argc, char **argv) {
  const char *given = argc > 1 ? argv[1] : getenv("CFIBER_STRESS_SEED");
  uint64_t seed = given ? strtoull(given, NULL, 0) : (uint64_t)cfiber_now();
  int rounds = argc > 2 ? atoi(argv[2]) : TREES;
  CHAOS_TEST("stress");
  alarm(PATIENCE); /* a fiber that nobody wakes is a failure */
  int before = open_descriptors();
  for (int i = 0; i < rounds; i++) {
    struct job job = {.seed = mix(seed + (uint64_t)i), .depth = DEPTH};
    struct cfiber_options options = {.threads = 1 + (unsigned)(i + 1) % 4,
                                     .migrate = (unsigned)i / 4 % 2};
    single = options.threads == 1;
    intptr_t r = -1;
    printf("seed %llu, round %d: %u threads, migrate %u\n", (unsigned long long)seed, i,
           options.threads, options.migrate);
    fflush(stdout);
    CHECK(cfiber_run(tree, &job, &options, &r) == 0);
    CHECK(r == (intptr_t)(job.seed >> 8));
    CHECK(atomic_load(&spawned) == atomic_load(&ended));
    CHECK(atomic_load(&pairs) == 0);
    CHECK(all_closed(before));
  }
  printf("%d fibers, %d failures\n", atomic_load(&spawned), atomic_load(&failures));
  return atomic_load(&failures) != 0;
}
