/*
 * random_test.c - random programs of fibers, each with a result that is known.
 *
 *      random_test [programs]
 *
 * random_program.h makes a program out of a seed, and says why it must end. This file runs it
 * and holds each call against what the program allows: bytes of a channel arrive in order and
 * once; a join yields what the child returned; a call fails with ECANCELED only for who has
 * been cancelled, and then always; nobody waits past what ends the wait; everything that was
 * begun has ended once; and no descriptor is left.
 *
 * The programs run in a process of their own. If it fails, crashes or hangs, the program is
 * made smaller for as long as it still fails, and what is left is printed. Some seeds are the
 * same each time, the others come from the clock. CFIBER_SEED=n runs that program alone,
 * many times; CFIBER_PROGRAMS=n so many others than by default.
 */
#define CFIBER_REDEFINE_ERRNO /* some of the fibers may move */
#include "random_program.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define US INT64_C(1000)

#ifdef CFIBER_SANITIZE
enum { PROGRAMS = 60, HANG = 60, REPLAYS = 50, SHRINK_HANG = 15, SHRINKING = 40 };
#else
enum { PROGRAMS = 600, HANG = 30, REPLAYS = 300, SHRINK_HANG = 3, SHRINKING = 40 };
#endif

/* Seconds, of the seeds that are always the same and of the others: emulated, each takes long. */
enum { LONGEST = 20 };

/* Numbers of descriptors that are used once in a program lie from here on. */
enum { FIRST_NUMBER = 200 };

static int idle_pipe[2], full_pipe[2], idle_listener; /* nothing ever happens to these */

/* ---- Events: a wait of the test's own, on the primitive under all others ------------------ */

struct event_waiter {
  struct event_waiter *next;
  struct cfiber *fiber;
  uint64_t epoch;
  uint32_t target;
};

static bool happened(struct event *e, uint32_t target) {
  return atomic_load(&e->count) >= target;
}

static void count_up(struct event *e) {
  struct event_waiter **link = &e->waiters, *w;
  cfiber_lock(&e->lock);
  uint32_t count = atomic_fetch_add(&e->count, 1) + 1;
  while ((w = *link) != NULL) {
    if (w->target > count) {
      link = &w->next;
      continue;
    }
    *link = w->next; /* before the wake: w lies on the stack of the woken */
    cfiber_wake(cfiber_thread_self(), w->fiber, w->epoch, WAKE_EVENT);
  }
  cfiber_unlock(&e->lock);
}

static bool enlist(struct event *e, struct event_waiter *w) {
  cfiber_lock(&e->lock);
  bool waits = !happened(e, w->target);
  if (waits) {
    w->next = e->waiters;
    e->waiters = w;
  }
  cfiber_unlock(&e->lock);
  return waits;
}

static void delist(struct event *e, struct event_waiter *w) {
  cfiber_lock(&e->lock);
  for (struct event_waiter **link = &e->waiters; *link; link = &(*link)->next) {
    if (*link == w) {
      *link = w->next;
      break;
    }
  }
  cfiber_unlock(&e->lock);
}

/* Of the running fiber. 0, or an errno value of its cancel or deadline. */
static int await(struct event *e, uint32_t target) {
  struct cfiber_thread *t = cfiber_thread_self();
  struct cfiber *f = t->current;
  int error = cfiber_pending(f);
  if (error)
    return error;
  struct event_waiter w = {.fiber = f, .epoch = cfiber_arm(f), .target = target};
  if (!w.epoch)
    return ECANCELED;
  if (!enlist(e, &w)) {
    if (!cfiber_disarm(f, w.epoch))
      cfiber_park(t, f);
    return 0;
  }
  int64_t when = f->deadline ? f->deadline : INT64_MAX;
  enum wake_reason reason = cfiber_park_until(t, f, w.epoch, when, &error);
  delist(e, &w);
  CHECK(error == 0);
  if (reason == WAKE_CANCEL)
    return ECANCELED;
  if (reason == WAKE_TIMEOUT)
    return ETIMEDOUT;
  CHECK(reason == WAKE_EVENT && happened(e, target));
  return 0;
}

/* ---- An actor at work -------------------------------------------------------------------------
 */

struct self {
  struct program *p;
  struct actor *actor;
  int number;
  uint64_t random;
  cfiber_t *fiber; /* NULL: a thread outside */
  struct cfiber_thread *home;
  bool shield, was_cancelled;
  int64_t deadline, began;
  uint32_t owns[2];
  _Atomic int running;
};

static intptr_t result_of(const struct program *p, int actor) {
  return (intptr_t)(mix(p->seed + (uint64_t)actor) >> 33);
}

static unsigned char byte_at(const struct program *p, int channel, uint64_t i) {
  return (unsigned char)(mix(p->seed + (uint64_t)channel) >> i % 7 * 8 ^ i);
}

/* Around each call that may park: meanwhile somebody else may run, but never this fiber. */
static void leave(struct self *me) {
  me->was_cancelled = me->fiber && !me->shield && cfiber_canceled();
  me->began = cfiber_now();
  CHECK(atomic_exchange(&me->running, 0) == 1);
}

static bool may_be_cancelled(const struct self *me) {
  return atomic_load(&me->actor->may_be_cancelled) || atomic_load(&me->p->closing);
}

/* Whether a call may fail so because of what has been done to its fiber. */
static bool given_up_rightly(const struct self *me, int e) {
  if (e == ECANCELED)
    return me->fiber && !me->shield && cfiber_canceled() && may_be_cancelled(me);
  return e == ETIMEDOUT && me->deadline && cfiber_now() >= me->deadline;
}

/* e: what the call failed with, 0: it did not. other: what else it may have failed with. */
static void back(struct self *me, int e, int other) {
  CHECK(atomic_exchange(&me->running, 1) == 0);
  CHECK(cfiber_self() == me->fiber);
  if (me->fiber && !(me->fiber->flags & CFIBER_MIGRATABLE))
    CHECK(cfiber_thread_self() == me->home);
  if (me->was_cancelled)
    CHECK(e == ECANCELED);
  if (e && e != other && !given_up_rightly(me, e)) {
    fprintf(stderr, "actor %d, operation %d: errno %d\n", me->number, atomic_load(&me->actor->at),
            e);
    CHECK(!"the call may fail so");
  }
}

/* Waits whatever happens, for what is due anyway. */
static void await_surely(struct self *me, struct event *e, uint32_t target) {
  if (!me->fiber) {
    while (!happened(e, target))
      sched_yield();
    return;
  }
  int shield = cfiber_shield(1);
  int64_t deadline = cfiber_deadline(0);
  CHECK(await(e, target) == 0);
  cfiber_deadline(deadline);
  cfiber_shield(shield);
}

/* ---- Channels -----------------------------------------------------------------------------------
 */

/* A number that no other descriptor of the program has had, nor will. */
static int once_used(struct program *p, int fd) {
  int number = fcntl(fd, F_DUPFD, atomic_fetch_add(&p->next_number, 1));
  CHECK(number >= FIRST_NUMBER);
  close(fd);
  return number;
}

static int make_tcp(int fds[2]) {
  struct sockaddr_in addr = {.sin_family = AF_INET};
  socklen_t len = sizeof addr;
  addr.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  int listener = socket(AF_INET, SOCK_STREAM, 0), e = -1;
  fds[WRITE_END] = socket(AF_INET, SOCK_STREAM, 0);
  if (bind(listener, (struct sockaddr *)&addr, len) == 0 && listen(listener, 1) == 0 &&
      getsockname(listener, (struct sockaddr *)&addr, &len) == 0 &&
      cfiber_connect(fds[WRITE_END], (struct sockaddr *)&addr, len) == 0 &&
      (fds[READ_END] = cfiber_accept(listener, NULL, NULL)) >= 0)
    e = 0;
  cfiber_close(listener);
  return e;
}

static void open_channel(struct program *p, struct channel *ch) {
  int e = ch->kind == PIPE         ? pipe(ch->fd)
          : ch->kind == SOCKETPAIR ? socketpair(AF_UNIX, SOCK_STREAM, 0, ch->fd)
                                   : make_tcp(ch->fd);
  CHECK(e == 0);
  for (int end = 0; ch->exposed && end < 2; end++)
    ch->fd[end] = once_used(p, ch->fd[end]);
  ch->opened = true;
}

/*
 * A close while another fiber is just trying, and does not wait yet, is what is tried here.
 * ThreadSanitizer takes it for a race: to it a close writes to the descriptor.
 */
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define TSAN 1
#endif
#endif
#if defined(TSAN) || defined(__SANITIZE_THREAD__)
void AnnotateIgnoreWritesBegin(const char *file, int line);
void AnnotateIgnoreWritesEnd(const char *file, int line);
#define IGNORE_WRITES(side) AnnotateIgnoreWrites##side(__FILE__, __LINE__)
#else
#define IGNORE_WRITES(side) (void)0
#endif

/* By its owner, by another, or when all is over: by whoever is first. */
static void close_end(struct channel *ch, int end) {
  if (!ch->opened || atomic_exchange(&ch->closed[end], true))
    return;
  if (ch->exposed)
    IGNORE_WRITES(Begin);
  CHECK(cfiber_close(ch->fd[end]) == 0);
  if (ch->exposed)
    IGNORE_WRITES(End);
}

static void close_own_end(struct self *me, int channel, int end) {
  struct channel *ch = &me->p->channels[channel];
  me->owns[end] &= ~(UINT32_C(1) << channel);
  /* Where nobody else waits, any close will do. */
  if (ch->exposed || pick(&me->random, 8))
    close_end(ch, end);
  else if (ch->opened && !atomic_exchange(&ch->closed[end], true))
    CHECK(close(ch->fd[end]) == 0);
}

static bool owns(const struct self *me, int channel, int end) {
  return me->owns[end] >> channel & 1;
}

/* EBADF, where somebody else may have closed the end. */
static int badly(const struct channel *ch, int end) {
  return ch->exposed && atomic_load(&ch->closed[end]) ? EBADF : 0;
}

static ssize_t read_some(struct self *me, const struct channel *ch, void *buf, size_t n) {
  struct iovec iov[2] = {{buf, n / 2}, {(char *)buf + n / 2, n - n / 2}};
  switch (pick(&me->random, ch->kind == PIPE ? 2 : 4)) {
  case 0:
    return cfiber_readv(ch->fd[READ_END], iov, 2);
  case 1:
    return cfiber_read(ch->fd[READ_END], buf, n);
  case 2:
    return cfiber_recv(ch->fd[READ_END], buf, n, 0);
  default: {
    struct msghdr msg = {.msg_iov = iov, .msg_iovlen = 2};
    return cfiber_recvmsg(ch->fd[READ_END], &msg, 0);
  }
  }
}

static ssize_t write_all(struct self *me, const struct channel *ch, void *buf, size_t n) {
  struct iovec iov[2] = {{buf, n / 2}, {(char *)buf + n / 2, n - n / 2}};
  switch (pick(&me->random, ch->kind == PIPE ? 2 : 4)) {
  case 0:
    return cfiber_writev(ch->fd[WRITE_END], iov, 2);
  case 1:
    return cfiber_write(ch->fd[WRITE_END], buf, n);
  case 2:
    return cfiber_send(ch->fd[WRITE_END], buf, n, 0);
  default: {
    struct msghdr msg = {.msg_iov = iov, .msg_iovlen = 2};
    return cfiber_sendmsg(ch->fd[WRITE_END], &msg, 0);
  }
  }
}

/* One read of up to n bytes; what it returned. */
static ssize_t read_checked(struct self *me, int channel, size_t n) {
  struct channel *ch = &me->p->channels[channel];
  unsigned char buf[4096];
  leave(me);
  ssize_t got = read_some(me, ch, buf, n < sizeof buf ? n : sizeof buf);
  back(me, got < 0 ? errno : 0, badly(ch, READ_END));
  if (got == 0) {
    CHECK(atomic_load(&ch->closed[WRITE_END]));
    atomic_store(&ch->at_end, true);
  }
  if (got <= 0)
    return got;
  uint64_t from = atomic_fetch_add(&ch->read, (uint64_t)got);
  for (ssize_t i = 0; !ch->shared && i < got; i++) /* of those that share it each has a part */
    CHECK(buf[i] == byte_at(me->p, channel, from + (uint64_t)i));
  return got;
}

/* n bytes, or up to the end. Who has to give up closes: so nobody waits for it in vain. */
static void do_read(struct self *me, int channel, uint32_t n) {
  while (n > 0 && owns(me, channel, READ_END)) {
    ssize_t got = read_checked(me, channel, pick(&me->random, 2) ? n : 1 + pick(&me->random, n));
    if (got <= 0)
      close_own_end(me, channel, READ_END);
    else
      n -= (uint32_t)got;
  }
}

static void do_drain(struct self *me, int channel) {
  while (read_checked(me, channel, 1 + pick(&me->random, 100)) > 0)
    continue;
}

/* A write that did not get all out: why? */
static bool cut_rightly(struct self *me, struct channel *ch) {
  return atomic_load(&ch->closed[READ_END]) || badly(ch, WRITE_END) ||
         given_up_rightly(me, ECANCELED) || given_up_rightly(me, ETIMEDOUT);
}

static void do_write(struct self *me, int channel, uint32_t n) {
  struct channel *ch = &me->p->channels[channel];
  if (!owns(me, channel, WRITE_END))
    return;
  unsigned char *buf = malloc(n);
  uint64_t from = atomic_load(&ch->written);
  for (uint32_t i = 0; i < n; i++)
    buf[i] = byte_at(me->p, channel, from + i);
  leave(me);
  ssize_t put = write_all(me, ch, buf, n);
  int e = put < 0 ? errno : 0;
  free(buf);
  bool unread = (e == EPIPE || e == ECONNRESET) && atomic_load(&ch->closed[READ_END]);
  back(me, e, unread ? e : badly(ch, WRITE_END));
  if (put > 0)
    atomic_fetch_add(&ch->written, (uint64_t)put);
  if (put == (ssize_t)n)
    return;
  CHECK(put < (ssize_t)n && (put < 0 || cut_rightly(me, ch)));
  close_own_end(me, channel, WRITE_END);
}

static void do_poll(struct self *me, int channel, int timeout) {
  struct channel *ch = &me->p->channels[channel];
  struct pollfd fds[2] = {{.fd = ch->fd[READ_END], .events = POLLIN}, {.fd = -1}};
  if (!owns(me, channel, READ_END))
    return;
  leave(me);
  int n = cfiber_poll(fds, 2, timeout);
  back(me, n < 0 ? errno : 0, 0);
  if (n > 0)
    CHECK(n == 1 && fds[0].revents && !fds[1].revents);
  if (n > 0 && fds[0].revents & POLLNVAL)
    CHECK(badly(ch, READ_END));
  if (n == 0)
    CHECK(timeout >= 0 && cfiber_now() - me->began >= timeout * 1000 * US);
}

static void do_wait_fd(struct self *me, int channel) {
  struct channel *ch = &me->p->channels[channel];
  if (!owns(me, channel, READ_END))
    return;
  leave(me);
  int events = cfiber_wait_fd(ch->fd[READ_END], POLLIN);
  back(me, events < 0 ? errno : 0, badly(ch, READ_END));
  CHECK(events != 0);
}

static void do_open(struct self *me, int channel) {
  bool tcp = me->p->channels[channel].kind == TCP;
  int shield = cfiber_shield(1);
  int64_t deadline = cfiber_deadline(0);
  CHECK(!tcp || atomic_exchange(&me->running, 0) == 1);
  open_channel(me->p, &me->p->channels[channel]);
  CHECK(!tcp || atomic_exchange(&me->running, 1) == 0);
  cfiber_deadline(deadline);
  cfiber_shield(shield);
  for (int end = 0; end < 2; end++)
    if (end == WRITE_END || !me->p->channels[channel].shared)
      me->owns[end] |= UINT32_C(1) << channel;
}

/*
 * By another than its owner. That the owner waits is likely if this waits for a while, not more:
 * it may have been cancelled, or have had to close it.
 */
static void do_close_under(struct self *me, const struct op *o) {
  const struct actor *owner = &me->p->actors[me->p->ops[o->n].actor];
  int shield = cfiber_shield(1);
  int64_t deadline = cfiber_deadline(0);
  for (int i = 0; i < 10 && atomic_load(&owner->at) < (int)o->n; i++)
    CHECK(cfiber_sleep(20 * US) == 0);
  for (int i = 0; i < 3; i++)
    cfiber_yield();
  cfiber_deadline(deadline);
  cfiber_shield(shield);
  close_end(&me->p->channels[o->a], o->b);
}

/* Numbers that come and go, and are registered for what others have had them for before. */
static void do_churn(struct self *me, uint32_t way) {
  int fds[2];
  char c = 0;
  CHECK((way ? pipe(fds) : socketpair(AF_UNIX, SOCK_STREAM, 0, fds)) == 0);
  struct pollfd p = {.fd = fds[0], .events = POLLIN};
  leave(me);
  int n = cfiber_poll(&p, 1, way == 1);
  back(me, n < 0 ? errno : 0, 0);
  CHECK(n <= 0);
  CHECK(write(fds[1], "x", 1) == 1);
  leave(me);
  ssize_t got = cfiber_read(fds[0], &c, 1);
  back(me, got < 0 ? errno : 0, 0);
  CHECK(got < 0 || (got == 1 && c == 'x'));
  for (int i = 0; i < 2; i++)
    CHECK((way == 2 ? close(fds[i]) : cfiber_close(fds[i])) == 0);
}

/* ---- Waits that nothing ends but a cancel or a deadline ------------------------------------- */

static int fails(intptr_t r) {
  return r < 0 ? errno : 0;
}

static int wait_for_ever(uint32_t way) {
  static struct event never;
  struct pollfd fds[2] = {{.fd = idle_pipe[0], .events = POLLIN},
                          {.fd = idle_listener, .events = POLLIN}};
  char c;
  switch (way) {
  case 0:
    return fails(cfiber_sleep(INT64_MAX));
  case 1:
    return fails(cfiber_read(idle_pipe[0], &c, 1));
  case 2:
    return fails(cfiber_poll(fds, 2, -1));
  case 3:
    return fails(cfiber_wait_fd(idle_pipe[0], POLLIN));
  case 4:
    return await(&never, 1);
  case 5:
    return fails(cfiber_accept(idle_listener, NULL, NULL));
  default:
    return fails(cfiber_write(full_pipe[1], "x", 1));
  }
}

static void do_forever(struct self *me, uint32_t way) {
  leave(me);
  int e = wait_for_ever(way);
  back(me, e, 0);
  CHECK(e);
}

static void do_timed(struct self *me, uint32_t way) {
  int64_t before = me->deadline;
  me->deadline = cfiber_now() + (int64_t)pick(&me->random, 300) * US;
  cfiber_deadline(me->deadline);
  do_forever(me, way);
  CHECK(cfiber_deadline(before) == me->deadline);
  me->deadline = before;
}

static void do_sleep(struct self *me, int64_t ns) {
  leave(me);
  int e = fails(cfiber_sleep(ns));
  back(me, e, 0);
  CHECK(e || cfiber_now() - me->began >= ns);
}

static void do_wait(struct self *me, int signal) {
  struct event *e = &me->p->signals[signal];
  if (!me->fiber) {
    await_surely(me, e, 1);
    return;
  }
  leave(me);
  int failed = await(e, 1);
  back(me, failed, 0);
  /* A wait that is over, for others to try to end it once more. */
  cfiber_lock(&me->p->stale_lock);
  me->p->stale = me->fiber;
  me->p->stale_epoch = atomic_load(&me->fiber->wait) >> WAIT_EPOCH_SHIFT;
  cfiber_unlock(&me->p->stale_lock);
}

static void do_stray_wake(struct self *me) {
  cfiber_lock(&me->p->stale_lock);
  struct cfiber *f = me->p->stale;
  uint64_t epoch = me->p->stale_epoch;
  cfiber_unlock(&me->p->stale_lock);
  if (f)
    CHECK(!cfiber_wake(cfiber_thread_self(), f, epoch, WAKE_EVENT));
}

static void do_self_wake(struct self *me) {
  if (!me->fiber)
    return;
  leave(me);
  uint64_t epoch = cfiber_arm(me->fiber);
  enum wake_reason reason = WAKE_CANCEL;
  if (epoch) {
    struct cfiber_thread *t = cfiber_thread_self();
    cfiber_wake(t, me->fiber, epoch, WAKE_EVENT);
    reason = cfiber_park(t, me->fiber);
  }
  back(me, reason == WAKE_CANCEL ? ECANCELED : 0, 0);
}

static void do_yield(struct self *me) {
  if (!me->fiber) {
    sched_yield();
    return;
  }
  errno = me->number;
  CHECK(atomic_exchange(&me->running, 0) == 1);
  cfiber_yield();
  CHECK(errno == me->number);
  CHECK(atomic_exchange(&me->running, 1) == 0);
}

static intptr_t on_native(void *p) {
  volatile char deep[32 * 1024];
  deep[0] = 1;
  return cfiber_sleep(US) + (intptr_t)p + deep[0];
}

/* ---- Fibers and what is done to them ----------------------------------------------------------
 */

static intptr_t fiber_main(void *p);

struct start {
  struct program *p;
  int actor;
};

static void abandon(struct program *p, int actor);

/* What others rely on, of an operation that its actor does not get to do. */
static void abandon_op(struct program *p, const struct op *o) {
  switch (o->kind) {
  case OP_SPAWN:
    count_up(&p->actors[o->a].spawned);
    abandon(p, o->a);
    break;
  case OP_CANCEL:
    count_up(&p->actors[o->a].released);
    break;
  case OP_SIGNAL:
    count_up(&p->signals[o->a]);
    break;
  case OP_CLOSE_UNDER:
    close_end(&p->channels[o->a], o->b);
    break;
  }
}

/* The actor could not be spawned, since the runtime is being closed. */
static void abandon(struct program *p, int actor) {
  const struct actor *a = &p->actors[actor];
  for (int i = a->first; i >= 0; i = p->ops[i].next)
    abandon_op(p, &p->ops[i]);
  for (int end = 0; end < 2; end++)
    for (int i = 0; i < p->nchannels; i++)
      if (a->given[end] >> i & 1)
        close_end(&p->channels[i], end);
}

static void do_spawn(struct self *me, int child) {
  struct actor *c = &me->p->actors[child];
  struct start *start = malloc(sizeof *start);
  *start = (struct start){me->p, child};
  struct cfiber_attr attr = {.name = "random", .stack_size = c->stack_size, .flags = c->flags};
  for (int end = 0; end < 2; end++)
    me->owns[end] &= ~c->given[end];
  c->fiber = cfiber_spawn(fiber_main, start, &attr);
  bool failed = !c->fiber;
  if (failed) {
    CHECK(errno == ECANCELED && atomic_load(&me->p->closing));
    free(start);
  }
  count_up(&c->spawned); /* a detached one may be gone by now */
  if (failed)
    abandon(me->p, child);
}

/* All that others do to the child with its handle is done. */
static bool await_handle(struct self *me, int child) {
  struct actor *c = &me->p->actors[child];
  await_surely(me, &c->spawned, 1);
  await_surely(me, &c->released, c->cancels);
  return c->fiber != NULL;
}

static int try_join(struct self *me, struct actor *c, int child) {
  intptr_t r = -1;
  leave(me);
  int e = fails(cfiber_join(c->fiber, &r));
  me->was_cancelled &= e != 0; /* it may have ended before */
  back(me, e, 0);
  if (!e) {
    CHECK(r == result_of(me->p, child));
    CHECK(atomic_load(&c->started) == 1 && atomic_load(&c->finished) == 1);
  }
  return e;
}

static void do_join(struct self *me, int child) {
  struct actor *c = &me->p->actors[child];
  if (!await_handle(me, child) || !try_join(me, c, child))
    return;
  int shield = cfiber_shield(1);
  int64_t deadline = cfiber_deadline(0);
  bool before = me->shield;
  me->shield = true;
  CHECK(try_join(me, c, child) == 0);
  me->shield = before;
  cfiber_deadline(deadline);
  cfiber_shield(shield);
}

/* Each runs once, wherever, and yields a few times. */
static intptr_t crowd_main(void *p) {
  _Atomic int *runs = p;
  CHECK(atomic_fetch_add(runs, 1) == 0);
  for (uintptr_t i = (uintptr_t)p / sizeof *runs % 4; i > 0; i--)
    cfiber_yield();
  return (intptr_t)p;
}

/* Rings are filled, and emptied by many at a time. */
static void do_crowd(struct self *me, uint32_t n) {
  static const struct cfiber_attr migratable = {.flags = CFIBER_MIGRATABLE};
  _Atomic int *runs = calloc(n, sizeof *runs);
  cfiber_t **fibers = calloc(n, sizeof *fibers);
  int shield = cfiber_shield(1);
  int64_t deadline = cfiber_deadline(0);
  for (uint32_t i = 0; i < n; i++) {
    fibers[i] = cfiber_spawn(crowd_main, &runs[i], i % 3 ? &migratable : NULL);
    CHECK(fibers[i] || (errno == ECANCELED && atomic_load(&me->p->closing)));
  }
  for (uint32_t i = 0; i < n; i++) {
    intptr_t r = 0;
    if (!fibers[i])
      continue;
    CHECK(cfiber_join(fibers[i], &r) == 0);
    CHECK(r == (intptr_t)&runs[i] && atomic_load(&runs[i]) == 1);
  }
  cfiber_deadline(deadline);
  cfiber_shield(shield);
  free(runs);
  free(fibers);
}

static void do_detach(struct self *me, int child) {
  if (await_handle(me, child))
    CHECK(cfiber_detach(me->p->actors[child].fiber) == 0);
}

static void do_cancel(struct self *me, int whom) {
  struct actor *c = &me->p->actors[whom];
  await_surely(me, &c->spawned, 1);
  if (c->fiber) {
    atomic_store(&c->may_be_cancelled, true);
    CHECK(cfiber_cancel(c->fiber) == 0);
  }
  count_up(&c->released);
}

static void do_cancel_self(struct self *me) {
  atomic_store(&me->actor->may_be_cancelled, true);
  CHECK(cfiber_cancel(me->fiber) == 0);
  CHECK(cfiber_canceled());
}

static void do_shield(struct self *me, bool on) {
  CHECK((cfiber_shield(on) != 0) == me->shield);
  me->shield = on;
}

static void do_deadline(struct self *me, uint32_t ns) {
  int64_t when = ns ? cfiber_now() + (int64_t)ns : 0;
  CHECK(cfiber_deadline(when) == me->deadline);
  me->deadline = when;
}

/* As the host does it; see Runtime.cancelAll. */
static void do_closing(struct self *me) {
  await_surely(me, &me->p->actors[0].spawned, 1);
  atomic_store(&me->p->closing, true);
  atomic_store(&me->p->rt->closing, 1);
  cfiber_runtime_cancel(me->p->rt);
}

static void collect_children(struct self *me) {
  for (int i = 1; i < me->p->nactors; i++) {
    const struct actor *a = &me->p->actors[i];
    if (a->parent == me->number && !a->detached && a->joiner == NOBODY)
      do_join(me, i);
  }
}

static void await_outside(struct self *me) {
  char c;
  cfiber_shield(1);
  cfiber_deadline(0);
  for (unsigned i = 0; i < me->p->outside; i++)
    CHECK(cfiber_read(me->p->outside_done[0], &c, 1) == 1);
  CHECK(atomic_load(&me->p->outside_ended) == me->p->outside);
}

static void do_end(struct self *me) {
  collect_children(me);
  for (int end = 0; end < 2; end++)
    for (int i = 0; i < me->p->nchannels; i++)
      if (owns(me, i, end))
        close_own_end(me, i, end);
  if (me->number == 0) {
    await_handle(me, 0);
    await_outside(me);
  }
}

static void do_op(struct self *me, const struct op *o) {
  switch (o->kind) {
  case OP_SPAWN:
    do_spawn(me, o->a);
    break;
  case OP_JOIN:
    do_join(me, o->a);
    break;
  case OP_DETACH:
    do_detach(me, o->a);
    break;
  case OP_CANCEL:
    do_cancel(me, o->a);
    break;
  case OP_CANCEL_SELF:
    do_cancel_self(me);
    break;
  case OP_SHIELD:
    do_shield(me, o->n);
    break;
  case OP_DEADLINE:
    do_deadline(me, o->n);
    break;
  case OP_YIELD:
    do_yield(me);
    break;
  case OP_SLEEP:
    do_sleep(me, o->n);
    break;
  case OP_FOREVER:
    do_forever(me, o->n);
    break;
  case OP_TIMED:
    do_timed(me, o->n);
    break;
  case OP_SIGNAL:
    count_up(&me->p->signals[o->a]);
    break;
  case OP_WAIT:
    do_wait(me, o->a);
    break;
  case OP_STRAY_WAKE:
    do_stray_wake(me);
    break;
  case OP_SELF_WAKE:
    do_self_wake(me);
    break;
  case OP_OPEN:
    do_open(me, o->a);
    break;
  case OP_WRITE:
    do_write(me, o->a, o->n);
    break;
  case OP_READ:
    do_read(me, o->a, o->n);
    break;
  case OP_POLL:
    do_poll(me, o->a, (int)o->n);
    break;
  case OP_WAIT_FD:
    do_wait_fd(me, o->a);
    break;
  case OP_CLOSE:
    if (owns(me, o->a, o->b))
      close_own_end(me, o->a, o->b);
    break;
  case OP_CLOSE_UNDER:
    do_close_under(me, o);
    break;
  case OP_DRAIN:
    do_drain(me, o->a);
    break;
  case OP_CHURN:
    do_churn(me, o->n);
    break;
  case OP_CROWD:
    do_crowd(me, o->n);
    break;
  case OP_NATIVE:
    CHECK(cfiber_on_native_stack(on_native, (void *)7) == 8);
    break;
  case OP_CLOSING:
    do_closing(me);
    break;
  case OP_END:
    do_end(me);
    break;
  }
}

/* Whoever gave an end away may have had to close it before. */
static uint32_t given_open(struct program *p, const struct actor *a, int end) {
  uint32_t open = a->given[end];
  for (int i = 0; i < p->nchannels; i++)
    if (!p->channels[i].exposed && atomic_load(&p->channels[i].closed[end]))
      open &= ~(UINT32_C(1) << i);
  return open;
}

static void work(struct self *me) {
  struct actor *a = me->actor;
  CHECK(atomic_fetch_add(&a->started, 1) == 0);
  me->random = mix(me->p->seed ^ (uint64_t)me->number);
  for (int end = 0; end < 2; end++)
    me->owns[end] = given_open(me->p, a, end);
  atomic_store(&me->running, 1);
  for (int i = a->first; i >= 0; i = me->p->ops[i].next) {
    atomic_store(&a->at, i);
    do_op(me, &me->p->ops[i]);
  }
  CHECK(atomic_fetch_add(&a->finished, 1) == 0);
}

static intptr_t fiber_main(void *p) {
  struct start start = *(struct start *)p;
  free(p);
  struct self me = {.p = start.p, .actor = &start.p->actors[start.actor], .number = start.actor};
  me.fiber = cfiber_self();
  me.home = cfiber_thread_self();
  if (start.actor == 0) {
    me.actor->fiber = me.fiber;
    me.p->rt = me.fiber->runtime;
    count_up(&me.actor->spawned);
  }
  work(&me);
  return result_of(start.p, start.actor);
}

static void *outside_main(void *p) {
  struct start start = *(struct start *)p;
  struct self me = {.p = start.p, .actor = &start.p->actors[start.actor], .number = start.actor};
  work(&me);
  /* The root may end from here on, and the runtime with it. ThreadSanitizer sees the count, but
   * not that a fiber reads what a thread has written. */
  atomic_fetch_add(&start.p->outside_ended, 1);
  CHECK(write(start.p->outside_done[1], "", 1) == 1);
  return NULL;
}

/* ---- A program
 * ------------------------------------------------------------------------------------- */

static void check_channels(struct program *p) {
  for (int i = 0; i < p->nchannels; i++) {
    struct channel *ch = &p->channels[i];
    if (!ch->opened)
      continue;
    if (ch->shared)
      close_end(ch, READ_END);
    CHECK(atomic_load(&ch->closed[READ_END]) && atomic_load(&ch->closed[WRITE_END]));
    uint64_t written = atomic_load(&ch->written), read = atomic_load(&ch->read);
    CHECK(read <= written);
    CHECK(read == written || !atomic_load(&ch->at_end));
  }
}

static void check_actors(struct program *p) {
  for (int i = 0; i < p->nactors; i++) {
    struct actor *a = &p->actors[i];
    CHECK(atomic_load(&a->started) == atomic_load(&a->finished));
    CHECK(atomic_load(&a->started) || (!a->fiber && atomic_load(&p->closing)));
  }
}

static void run_program(struct program *p) {
  struct start outside[MAX_OUTSIDE], *root = malloc(sizeof *root);
  pthread_t threads[MAX_OUTSIDE];
  int before = open_descriptors();
  atomic_store(&p->next_number, FIRST_NUMBER);
  CHECK(pipe(p->outside_done) == 0);
  for (int i = 0; i < p->initial_channels; i++)
    open_channel(p, &p->channels[i]);
  for (unsigned i = 0; i < p->outside; i++) {
    outside[i] = (struct start){p, (int)i + 1};
    CHECK(pthread_create(&threads[i], NULL, outside_main, &outside[i]) == 0);
  }
  struct cfiber_options options = {.threads = p->threads, .migrate = p->migrate};
  intptr_t r = -1;
  *root = (struct start){p, 0};
  CHECK(cfiber_run(fiber_main, root, &options, &r) == 0);
  CHECK(r == result_of(p, 0));
  for (unsigned i = 0; i < p->outside; i++)
    pthread_join(threads[i], NULL);
  check_channels(p);
  check_actors(p);
  close(p->outside_done[0]);
  close(p->outside_done[1]);
  CHECK(all_closed(before));
}

/* ---- The process that runs them
 * -------------------------------------------------------------------- */

/* What the two processes share. */
struct shared {
  _Atomic(uint64_t) seed; /* of the program that runs */
  _Atomic(uint32_t) done;
  int nwords; /* of a program that is not its seed's */
  uint64_t words[MAX_WORDS];
};

static struct shared *shared;
static struct program program;
static _Atomic(uint32_t) ran; /* programs, seen by the watchdog */
static int patience;          /* in seconds */
static pid_t supervisor;

static const char *wait_state(uint64_t word) {
  static const char *const names[] = {"running", "armed", "parked", "woken"};
  return names[word & WAIT_STATE];
}

/* Nothing moves any more, so that what it reads is not a race that matters. */
#if defined(__clang__) || __GNUC__ >= 8
__attribute__((no_sanitize("thread")))
#endif
static void
print_state(void) {
  struct program *p = &program;
  fprintf(stderr, "no end within %d s. Where they are:\n", patience);
  for (int i = 0; i < p->nactors; i++) {
    struct actor *a = &p->actors[i];
    if (atomic_load(&a->finished))
      continue;
    fprintf(stderr, "%s: ", atomic_load(&a->started) ? "at" : "not started, first");
    print_op(stderr, p, atomic_load(&a->started) ? atomic_load(&a->at) : a->first);
    if (!a->fiber)
      continue;
    uint64_t word = atomic_load(&a->fiber->wait);
    fprintf(stderr, "      %s, epoch %llu%s%s%s, flags %#x, thread %d\n", wait_state(word),
            (unsigned long long)(word >> WAIT_EPOCH_SHIFT), word & WAIT_CANCEL ? ", cancelled" : "",
            word & WAIT_SHIELDED ? ", shielded" : "", word & WAIT_LIVE ? "" : ", ended",
            a->fiber->flags, a->fiber->thread ? (int)a->fiber->thread->index : -1);
  }
  struct cfiber_runtime *rt = p->rt;
  if (!rt)
    return;
  fprintf(stderr, "idle %u, searching %u, injected %#lx, global %u, live %llu\n",
          atomic_load(&rt->idle), atomic_load(&rt->searching),
          (unsigned long)atomic_load(&rt->injected), atomic_load(&rt->global_size),
          (unsigned long long)cfiber_runtime_live(rt) + 1);
  for (uint32_t i = 0; i < atomic_load(&rt->active); i++) {
    struct cfiber_thread *t = &rt->threads[i];
    uintptr_t queue = atomic_load(&t->ready_queue);
    fprintf(stderr, "thread %u: %s, ring %u, local %s, runs %#lx, timer in %lld us\n", i,
            queue == READY_IDLE   ? "idle"
            : queue == READY_BUSY ? "busy"
                                  : "handed a list",
            atomic_load(&t->ring_tail) - atomic_load(&t->ring_head),
            t->local.head ? "some" : "none", (unsigned long)atomic_load(&t->running),
            (long long)(atomic_load(&t->timers.earliest) == INT64_MAX
                            ? -1
                            : (atomic_load(&t->timers.earliest) - cfiber_now()) / US));
  }
}

/* Ends the process if one program lasts too long. */
static void *watch(void *unused) {
  (void)unused;
  uint32_t last = 0;
  for (int same = 0; same < 10 * patience; same++) {
    struct timespec tenth = {.tv_nsec = 100000000};
    nanosleep(&tenth, NULL);
    uint32_t now = atomic_load(&ran);
    if (now != last)
      same = 0;
    last = now;
    if (getppid() != supervisor)
      _exit(4); /* nobody waits for the result */
  }
  print_state();
  fflush(NULL);
  _exit(3);
}

static void make_idle_descriptors(void) {
  char page[4096] = {0};
  CHECK(pipe(idle_pipe) == 0 && pipe(full_pipe) == 0);
  fcntl(full_pipe[1], F_SETFL, O_NONBLOCK);
  while (write(full_pipe[1], page, sizeof page) > 0 || write(full_pipe[1], page, 1) > 0)
    continue;
  fcntl(full_pipe[1], F_SETFL, 0);
  idle_listener = socket(AF_UNIX, SOCK_STREAM, 0);
  struct sockaddr_in addr = {.sin_family = AF_INET};
  close(idle_listener);
  idle_listener = socket(AF_INET, SOCK_STREAM, 0);
  addr.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  CHECK(bind(idle_listener, (struct sockaddr *)&addr, sizeof addr) == 0 &&
        listen(idle_listener, 1) == 0);
}

static void prepare_process(int seconds) {
  pthread_t watchdog;
  patience = seconds;
  signal(SIGPIPE, SIG_IGN);
  make_idle_descriptors();
  pthread_create(&watchdog, NULL, watch, NULL);
  pthread_detach(watchdog);
}

struct batch {
  uint64_t first; /* seed */
  uint32_t n;
  bool again;    /* the same one n times */
  int64_t until; /* the end of what is run without being asked for */
};

static void run_seeds(const struct batch *b) {
  uint64_t words[MAX_WORDS];
  for (uint32_t i = 0; i < b->n && cfiber_now() < b->until && !atomic_load(&failures); i++) {
    uint64_t seed = b->again ? b->first : b->first + i;
    atomic_store(&shared->seed, seed);
    program_build(&program, words, program_words(seed, words), seed);
    run_program(&program);
    atomic_fetch_add(&ran, 1);
    atomic_fetch_add(&shared->done, 1);
  }
}

/* In a process of its own; true if nothing was wrong. */
static bool in_child(void (*fn)(void *), void *arg) {
  fflush(NULL);
  supervisor = getpid();
  pid_t pid = fork();
  if (pid == 0) {
    fn(arg);
    exit(atomic_load(&failures) != 0);
  }
  int status = -1;
  while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
    continue;
  return pid > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static void run_batch(void *p) {
  prepare_process(HANG);
  run_seeds(p);
}

/* ---- Making a program smaller
 * ------------------------------------------------------------------------ */

static void run_words(void *aloud) {
  if (!aloud) {
    int nowhere = open("/dev/null", O_WRONLY);
    dup2(nowhere, STDERR_FILENO);
    close(nowhere);
  }
  prepare_process(SHRINK_HANG);
  for (int i = 0; i < REPLAYS && !atomic_load(&failures); i++) {
    program_build(&program, shared->words, shared->nwords, atomic_load(&shared->seed));
    run_program(&program);
    atomic_fetch_add(&ran, 1);
  }
}

static bool still_fails(const uint64_t *words, int n, bool aloud) {
  memcpy(shared->words, words, (size_t)n * sizeof *words);
  shared->nwords = n;
  return !in_child(run_words, aloud ? shared : NULL);
}

/* Leaves out pieces, ever smaller ones, while it still fails. Returns how many are left. */
static int shrink(uint64_t *words, int n, int64_t until) {
  uint64_t fewer[MAX_WORDS];
  for (int piece = n / 2; piece >= 1; piece /= 2) {
    for (int from = 1; from < n && cfiber_now() < until;) {
      int out = piece < n - from ? piece : n - from;
      memcpy(fewer, words, (size_t)from * sizeof *words);
      memcpy(fewer + from, words + from + out, (size_t)(n - from - out) * sizeof *words);
      if (still_fails(fewer, n - out, false)) {
        n -= out;
        memcpy(words, fewer, (size_t)n * sizeof *words);
      } else {
        from += out;
      }
    }
  }
  return n;
}

static void report(uint64_t seed) {
  uint64_t words[MAX_WORDS];
  int n = program_words(seed, words);
  fprintf(stderr, "CFIBER_SEED=%llu fails.\n", (unsigned long long)seed);
  if (still_fails(words, n, false)) {
    n = shrink(words, n, cfiber_now() + SHRINKING * NS_PER_S);
    fprintf(stderr, "It also fails as what is below, like this:\n");
    still_fails(words, n, true);
  } else {
    fprintf(stderr, "Not again in %d more runs. It is:\n", REPLAYS);
  }
  program_build(&program, words, n, seed);
  program_print(stderr, &program);
}

static bool run_batch_reported(struct batch b) {
  if (in_child(run_batch, &b))
    return true;
  report(atomic_load(&shared->seed));
  return false;
}

int main(int argc, char **argv) {
  const char *given = getenv("CFIBER_SEED");
  const char *many = argc > 1 ? argv[1] : getenv("CFIBER_PROGRAMS");
  uint32_t n = many ? (uint32_t)strtoul(many, NULL, 0) : PROGRAMS;
  shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANON, -1, 0);
  if (shared == MAP_FAILED)
    return 1;
  bool ok;
  if (given) {
    ok = run_batch_reported((struct batch){strtoull(given, NULL, 0), REPLAYS, true, INT64_MAX});
  } else {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    uint64_t later = mix((uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec) >> 16;
    printf("seeds 1 ... %u and %llu ... %llu\n", n / 2, (unsigned long long)later,
           (unsigned long long)(later + n - n / 2 - 1));
    int64_t until = many ? INT64_MAX : cfiber_now() + LONGEST * NS_PER_S;
    ok = run_batch_reported((struct batch){1, n / 2, false, until}) &&
         run_batch_reported(
             (struct batch){later, n - n / 2, false, many ? until : until + LONGEST * NS_PER_S});
  }
  printf("%u programs ran\n", atomic_load(&shared->done));
  return !ok;
}
