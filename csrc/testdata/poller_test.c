/*
 * poller_test.c - the contract of poller.h, for the backend that is built.
 *
 * The backend's source is included under other names, so that events come to
 * this file instead of to the table of descriptors.
 */
#define cfiber_poller_open tested_open
#define cfiber_poller_close tested_close
#define cfiber_poller_add tested_add
#define cfiber_poller_add_urgent tested_add_urgent
#define cfiber_poller_confirm tested_confirm
#define cfiber_poller_wait tested_wait
#define cfiber_poller_wake tested_wake
#define cfiber_fd_event tested_event
#include "check.h"

#include "poller_epoll.c"
#include "poller_kqueue.c"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#if defined(__linux__) && defined(CFIBER_POLLER_KQUEUE)
#define LIBKQUEUE_HERE 1
#else
#define LIBKQUEUE_HERE 0
#endif

/* How long a wait may take that must end by itself, and one that must time out. */
#define LONG_TIME (20 * NS_PER_S)
#define SHORT_TIME (50 * NS_PER_MS)

static int64_t now(void) {
  struct timespec ts;
  clock_gettime(CLOCK_MONOTONIC, &ts);
  return ts.tv_sec * NS_PER_S + ts.tv_nsec;
}

/* ---- The thread under test, and what is delivered to it -------------------------------- */

static struct event {
  int fd;
  uint32_t generation;
  bool readable, writable;
} seen[2048];
static int nseen;
static int64_t waited; /* how long the last wait took */

void tested_event(struct cfiber_thread *t, int fd, uint32_t generation, enum readiness readable,
                  enum readiness writable) {
  (void)t;
  if (nseen < (int)(sizeof seen / sizeof *seen))
    seen[nseen++] = (struct event){fd, generation, readable, writable};
}

static struct cfiber_thread *make(void) {
  /* The structure wants its alignment, and with it size. */
  void *memory = NULL;
  size_t size = (sizeof(struct cfiber_thread) + 63) & ~(size_t)63;
  if (posix_memalign(&memory, 64, size))
    abort();
  memset(memory, 0, size);
  struct cfiber_thread *t = memory;
  t->poller = (struct poller){-1, -1, -1};
  int e = tested_open(&t->poller);
  if (e) {
    fprintf(stderr, "cannot open a poller: %s\n", strerror(e));
    exit(1);
  }
  return t;
}

static void drop(struct cfiber_thread *t) {
  tested_close(&t->poller);
  free(t);
}

static int wait_for(struct cfiber_thread *t, int64_t timeout) {
  int64_t start = now();
  nseen = 0;
  int e = tested_wait(t, timeout);
  waited = now() - start;
  return e;
}

/* True if nothing comes within SHORT_TIME: neither an event nor a reason to return. */
static bool quiet(struct cfiber_thread *t) {
  return wait_for(t, SHORT_TIME) == 0 && nseen == 0 && waited >= SHORT_TIME - NS_PER_MS;
}

/* Waits until fd is reported; returns what for (bit 0: reading, bit 1: writing), or 0. */
static int ready_for(struct cfiber_thread *t, int fd, uint32_t generation) {
  int directions = 0;
  if (wait_for(t, LONG_TIME))
    return 0;
  for (int i = 0; i < nseen; i++)
    if (seen[i].fd == fd && seen[i].generation == generation)
      directions |= seen[i].readable | seen[i].writable << 1;
  return directions;
}

enum { READING = 1, WRITING = 2, BOTH = 3 };

static void pair(int fds[2]) {
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, fds))
    abort();
}

static void put(int fd) {
  CHECK(write(fd, "x", 1) == 1);
}

/* ---- Waking ---------------------------------------------------------------------------- */

static void test_wake_before_wait(void) {
  struct cfiber_thread *t = make();
  CHECK(quiet(t)); /* a fresh poller is not ready */
  for (int i = 0; i < 1000; i++) {
    tested_wake(&t->poller);
    CHECK(wait_for(t, LONG_TIME) == 0);
    CHECK(nseen == 0);
    if (waited > LONG_TIME / 2) {
      CHECK(!"a wake-up was lost");
      break;
    }
  }
  CHECK(quiet(t)); /* the event does not stay ready */
  drop(t);
}

static void test_wakes_coalesce(void) {
  struct cfiber_thread *t = make();
  for (int round = 0; round < 3; round++) {
    for (int i = 0; i < 100000; i++) /* more than any pipe holds */
      tested_wake(&t->poller);
    int returns = 0;
    while (returns < 100 && !quiet(t))
      returns++;
    CHECK(returns >= 1);
    CHECK(returns <= 3);
  }
  CHECK(quiet(t));
  drop(t);
}

#define WAKERS 2
#define WAKES 20000

struct shared {
  struct cfiber_thread *thread;
  _Atomic(int) published;
  _Atomic(int) taken;
};

/* Publishes, wakes, and goes on when the waiter has seen it: so each wake is needed. */
static void *waker(void *p) {
  struct shared *s = p;
  for (int i = 0; i < WAKES / WAKERS; i++) {
    int mine = atomic_fetch_add(&s->published, 1) + 1;
    tested_wake(&s->thread->poller);
    while (atomic_load(&s->taken) < mine)
      sched_yield();
  }
  return NULL;
}

static void test_wakes_across_threads(void) {
  struct shared s = {.thread = make()};
  pthread_t threads[WAKERS];
  for (int i = 0; i < WAKERS; i++)
    pthread_create(&threads[i], NULL, waker, &s);
  int returns = 0;
  while (atomic_load(&s.taken) < WAKES) {
    CHECK(wait_for(s.thread, LONG_TIME) == 0);
    returns++;
    int published = atomic_load(&s.published);
    if (waited > LONG_TIME / 2 && published > atomic_load(&s.taken)) {
      CHECK(!"a wake-up was lost");
      _exit(1);
    }
    atomic_store(&s.taken, published);
  }
  CHECK(returns <= WAKES + 1); /* no more returns than wakes */
  for (int i = 0; i < WAKERS; i++)
    pthread_join(threads[i], NULL);
  /* One wake may be left, whose news an earlier return has brought. */
  if (!quiet(s.thread))
    CHECK(quiet(s.thread));
  drop(s.thread);
}

/* ---- Time ------------------------------------------------------------------------------ */

static void test_timeouts(void) {
  struct cfiber_thread *t = make();
  CHECK(wait_for(t, 0) == 0 && waited < LONG_TIME);
  CHECK(wait_for(t, 1) == 0 && waited < LONG_TIME);
  CHECK(wait_for(t, NS_PER_US) == 0 && waited >= NS_PER_US);
  CHECK(wait_for(t, 20 * NS_PER_MS + 1) == 0 && waited >= 20 * NS_PER_MS);
  static const int64_t longer[] = {-1, LONG_TIME, INT64_C(3600) * NS_PER_S, INT64_MAX};
  for (size_t i = 0; i < sizeof longer / sizeof *longer; i++) {
    tested_wake(&t->poller);
    CHECK(wait_for(t, longer[i]) == 0 && nseen == 0);
  }
  drop(t);
}

static void on_signal(int sig) {
  (void)sig;
}

static void test_signal(void) {
  struct cfiber_thread *t = make();
  struct sigaction action = {.sa_handler = on_signal}, before;
  struct itimerval often = {.it_interval = {.tv_usec = 2000}, .it_value = {.tv_usec = 2000}};
  struct itimerval never = {.it_value = {.tv_usec = 0}};
  sigaction(SIGALRM, &action, &before);
  setitimer(ITIMER_REAL, &often, NULL);
  for (int i = 0; i < 10; i++)
    CHECK(wait_for(t, LONG_TIME) == 0 && nseen == 0 && waited < LONG_TIME / 2);
  setitimer(ITIMER_REAL, &never, NULL);
  sigaction(SIGALRM, &before, NULL);
  drop(t);
}

/* ---- Descriptors ----------------------------------------------------------------------- */

static void test_edges(void) {
  struct cfiber_thread *t = make();
  int fds[2];
  pair(fds);
  CHECK(tested_add(&t->poller, fds[0], 7) == 0);
  CHECK(ready_for(t, fds[0], 7) == WRITING); /* as it was when registered */
  CHECK(quiet(t));
  put(fds[1]);
  CHECK(ready_for(t, fds[0], 7) & READING);
  CHECK(quiet(t)); /* unread, but reported */
  put(fds[1]);
  CHECK(ready_for(t, fds[0], 7) & READING); /* a new edge */
  CHECK(quiet(t));
  close(fds[0]);
  close(fds[1]);
  drop(t);
}

static void test_writable_again(void) {
  struct cfiber_thread *t = make();
  int fds[2];
  static char block[4096];
  pair(fds);
  fcntl(fds[0], F_SETFL, O_NONBLOCK);
  while (write(fds[0], block, sizeof block) > 0)
    continue;
  CHECK(tested_add(&t->poller, fds[0], 1) == 0);
  CHECK(quiet(t)); /* full */
  fcntl(fds[1], F_SETFL, O_NONBLOCK);
  while (read(fds[1], block, sizeof block) > 0)
    continue;
  CHECK(ready_for(t, fds[0], 1) == WRITING);
  close(fds[0]);
  close(fds[1]);
  drop(t);
}

static void test_generations(void) {
  static const uint32_t generations[] = {0, 1, 0x7fffffff, 0x80000000, 0xfffffffe, 0xffffffff};
  struct cfiber_thread *t = make();
  int fds[2];
  pair(fds);
  put(fds[1]);
  for (size_t i = 0; i < sizeof generations / sizeof *generations; i++) {
    /* Registered already, from the second on: the new generation takes its place. */
    CHECK(tested_add(&t->poller, fds[0], generations[i]) == 0);
    CHECK(ready_for(t, fds[0], generations[i]) == BOTH);
    for (int k = 0; k < nseen; k++)
      CHECK(seen[k].generation == generations[i]);
    CHECK(quiet(t));
  }
  close(fds[0]);
  close(fds[1]);
  drop(t);
}

static void test_pipe(void) {
  struct cfiber_thread *t = make();
  int fds[2];
  if (pipe(fds))
    abort();
  /* Each end has one direction only, whatever the system says to the other. */
  CHECK(tested_add(&t->poller, fds[0], 1) == 0);
  CHECK(tested_add(&t->poller, fds[1], 2) == 0);
  CHECK(ready_for(t, fds[1], 2) & WRITING);
  put(fds[1]);
  CHECK(ready_for(t, fds[0], 1) & READING);
  close(fds[1]);
  CHECK(ready_for(t, fds[0], 1) & READING); /* the end of the file */
  CHECK(quiet(t));
  close(fds[0]);

  if (pipe(fds))
    abort();
  CHECK(tested_add(&t->poller, fds[1], 3) == 0);
  CHECK(ready_for(t, fds[1], 3) & WRITING);
  close(fds[0]);
  CHECK(ready_for(t, fds[1], 3) & WRITING); /* EPIPE */
  close(fds[1]);
  drop(t);
}

static void test_end_of_file(void) {
  struct cfiber_thread *t = make();
  int fds[2];
  pair(fds);
  CHECK(tested_add(&t->poller, fds[0], 1) == 0);
  CHECK(ready_for(t, fds[0], 1) == WRITING);
  shutdown(fds[1], SHUT_WR);
  CHECK(ready_for(t, fds[0], 1) & READING);
  CHECK(quiet(t));
  close(fds[1]);
  CHECK(ready_for(t, fds[0], 1) == BOTH);
  CHECK(quiet(t));
  close(fds[0]);
  drop(t);
}

static void test_what_cannot_be_waited_for(void) {
  struct cfiber_thread *t = make();
  char name[] = "/tmp/cfiber-poller-XXXXXX";
  int file = mkstemp(name), directory = open("/", O_RDONLY), fds[2];
  unlink(name);
  CHECK(tested_add(&t->poller, file, 1) == EPERM);
  CHECK(tested_add(&t->poller, directory, 1) == EPERM);
  CHECK(!tested_confirm(&t->poller, file, 1));
  CHECK(tested_add(&t->poller, -1, 1) == EBADF);
  pair(fds);
  close(fds[0]);
  CHECK(tested_add(&t->poller, fds[0], 1) == EBADF);
  CHECK(!tested_confirm(&t->poller, fds[0], 1));
  /* None of which has done harm to others. */
  CHECK(quiet(t));
  CHECK(tested_add(&t->poller, fds[1], 5) == 0);
  CHECK(ready_for(t, fds[1], 5) == BOTH);
  close(fds[1]);
  close(file);
  close(directory);
  drop(t);
}

static void test_confirm(void) {
  struct cfiber_thread *t = make();
  int fds[2];
  pair(fds);
  CHECK(!tested_confirm(&t->poller, fds[0], 1)); /* never registered */
  CHECK(quiet(t));
  CHECK(tested_add(&t->poller, fds[0], 1) == 0);
  CHECK(ready_for(t, fds[0], 1) == WRITING);
  put(fds[1]);
  CHECK(ready_for(t, fds[0], 1) & READING);
  for (int i = 0; i < 3; i++) {
    CHECK(tested_confirm(&t->poller, fds[0], 1));
    CHECK(ready_for(t, fds[0], 1) == BOTH); /* once more */
    CHECK(quiet(t));
  }
  close(fds[0]);
  close(fds[1]);
  drop(t);
}

/* The number of a closed descriptor belongs to another one. */
static void test_number_reused(void) {
  struct cfiber_thread *t = make();
  int old[2], fresh[2];
  pair(old);
  pair(fresh);
  CHECK(tested_add(&t->poller, old[0], 1) == 0);
  CHECK(ready_for(t, old[0], 1) == WRITING);
  close(old[0]);
  CHECK(dup2(fresh[0], old[0]) == old[0]);
  close(fresh[0]);
  put(fresh[1]);
  CHECK(quiet(t));
  /* libkqueue cannot know, and registers it anew. */
  bool confirmed = tested_confirm(&t->poller, old[0], 1);
  CHECK(confirmed == LIBKQUEUE_HERE);
  CHECK(tested_add(&t->poller, old[0], 2) == 0);
  CHECK(ready_for(t, old[0], 2) == BOTH);
  CHECK(quiet(t));
  close(old[0]);
  close(old[1]);
  close(fresh[1]);
  drop(t);
}

/* ---- Many ------------------------------------------------------------------------------ */

#define MANY 200

static void test_many(bool sockets) {
  struct cfiber_thread *t = make();
  static int ends[MANY][2];
  int expected = sockets ? BOTH : READING;
  for (int i = 0; i < MANY; i++) {
    if (sockets)
      pair(ends[i]);
    else if (pipe(ends[i]))
      abort();
    CHECK(tested_add(&t->poller, ends[i][0], (uint32_t)i + 1000) == 0);
    put(ends[i][1]);
  }
  int got[MANY] = {0}, waits = 0, complete = 0;
  while (complete < MANY && waits < 100) {
    CHECK(wait_for(t, LONG_TIME) == 0);
    waits++;
    CHECK(nseen > 0);
    CHECK(nseen <= POLLER_EVENTS || LIBKQUEUE_HERE);
    for (int k = 0; k < nseen; k++) {
      uint32_t i = seen[k].generation - 1000;
      CHECK(i < MANY && seen[k].fd == ends[i][0]);
      if (i >= MANY)
        continue;
      int before = got[i];
      got[i] |= seen[k].readable | seen[k].writable << 1;
      complete += (before & expected) != expected && (got[i] & expected) == expected;
    }
  }
  CHECK(complete == MANY);
  CHECK(waits > 1 || LIBKQUEUE_HERE);
  CHECK(quiet(t));
  for (int i = 0; i < MANY; i++) {
    close(ends[i][0]);
    close(ends[i][1]);
  }
  drop(t);
}

/* ---- Errors ---------------------------------------------------------------------------- */

static void test_faults(void) {
  struct cfiber_thread *t = make();
  int fds[2];
  pair(fds);
  cfiber_fault_set(FAULT_POLLER_ADD, ENOMEM, 1, 1);
  CHECK(tested_add(&t->poller, fds[0], 1) == ENOMEM);
  CHECK(tested_add(&t->poller, fds[1], 2) == 0); /* the next is not affected */
  CHECK(ready_for(t, fds[1], 2) == WRITING);
  CHECK(tested_add(&t->poller, fds[0], 3) == 0); /* nor is the same, once more */
  CHECK(ready_for(t, fds[0], 3) == WRITING);
  cfiber_fault_set(FAULT_POLLER_ADD, ENOMEM, 1, 1);
  CHECK(!tested_confirm(&t->poller, fds[0], 3));
  cfiber_fault_set(FAULT_POLLER_ADD, 0, 0, 0);
  CHECK(tested_confirm(&t->poller, fds[0], 3));

  cfiber_fault_set(FAULT_POLLER_WAIT, EINTR, 1, 2);
  CHECK(tested_wait(t, LONG_TIME) == 0);
  CHECK(tested_wait(t, LONG_TIME) == 0);
  cfiber_fault_set(FAULT_POLLER_WAIT, EIO, 1, 1);
  CHECK(tested_wait(t, LONG_TIME) == EIO);
  cfiber_fault_set(FAULT_POLLER_WAIT, 0, 0, 0);
  CHECK(ready_for(t, fds[0], 3) == WRITING); /* what came meanwhile is not lost */
  close(fds[0]);
  close(fds[1]);
  drop(t);

  struct cfiber_thread none = {.poller = {-1, -1, -1}};
  CHECK(tested_wait(&none, 0) != 0);
}

static bool closes_on_exec(int fd) {
  return fd < 0 || (fcntl(fd, F_GETFD) & FD_CLOEXEC);
}

static void test_open_and_close(void) {
  int first = dup(0);
  close(first);
  for (int i = 0; i < 100; i++) {
    struct cfiber_thread *t = make();
    CHECK(t->poller.fd >= 0);
    CHECK(closes_on_exec(t->poller.fd));
    CHECK(closes_on_exec(t->poller.wake_fd));
    CHECK(closes_on_exec(t->poller.wake_read_fd));
    drop(t);
  }
  int last = dup(0);
  close(last);
  CHECK(last == first || LIBKQUEUE_HERE); /* which closes some later, on a thread */
}

int main(void) {
  struct rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < 1024) {
    limit.rlim_cur = 1024;
    setrlimit(RLIMIT_NOFILE, &limit);
  }
  signal(SIGPIPE, SIG_IGN);
  test_open_and_close();
  test_wake_before_wait();
  test_wakes_coalesce();
  test_wakes_across_threads();
  test_timeouts();
  test_signal();
  test_edges();
  test_writable_again();
  test_generations();
  test_pipe();
  test_end_of_file();
  test_what_cannot_be_waited_for();
  test_confirm();
  test_number_reused();
  test_many(false);
  test_many(true);
  test_faults();
  return failures != 0;
}
