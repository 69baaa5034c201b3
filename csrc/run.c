/*
 * run.c - a host in C: what sched.go and kqueue.go do for a Go program, in its
 * simplest form. All threads are made at once, and there is no watchdog.
 */
#include "fault.h"
#include "poller.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

struct host {
  struct cfiber_runtime *rt;
  pthread_t *threads;
  uint32_t nthreads; /* started */
  int pipe[2];
};

/* The overflow report needs a stack of its own. Go's threads have one. */
#define ALT_STACK ((size_t)64 * 1024)

static void *thread_main(void *p) {
  struct cfiber_thread *t = p;
  stack_t alt = {.ss_size = ALT_STACK};
  void *memory = TRY(ALT_STACK, MAP_FAILED,
                     mmap(NULL, ALT_STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANON, -1, 0));
  if (memory != MAP_FAILED) {
    alt.ss_sp = memory;
    TRY(ALT_STACK, -1, sigaltstack(&alt, NULL));
  }
  cfiber_thread_run(t);
  if (memory != MAP_FAILED) {
    alt.ss_flags = SS_DISABLE;
    TRY_DONE(ALT_STACK, -1, sigaltstack(&alt, NULL));
    munmap(memory, ALT_STACK);
  }
  return NULL;
}

/* Steps 2 of `schedule`, for the thread number n: reserve, make, publish. */
static int start_thread(struct host *h) {
  struct cfiber_runtime *rt = h->rt;
  uint32_t i = atomic_fetch_add(&rt->reserved, 1);
  struct cfiber_thread *t = &rt->threads[i];
  cfiber_thread_init(rt, i);
  int e = cfiber_poller_open(&t->poller);
  if (!e &&
      (e = TRY(THREAD, cfiber_errno(), pthread_create(&h->threads[i], NULL, thread_main, t))) != 0)
    cfiber_poller_close(&t->poller);
  if (e) {
    atomic_fetch_sub(&rt->reserved, 1);
    return e;
  }
  h->nthreads++;
  CHAOS_DELAY(RESERVED);
  atomic_store(&rt->active, i + 1);
  return 0;
}

/* Waits for the runtime to tell something. */
static void await_notice(struct host *h) {
  char buf[64];
  while (TRY(AWAIT, -1, read(h->pipe[0], buf, sizeof buf)) < 0 && errno == EINTR)
    continue;
  atomic_store(&h->rt->notified, 0);
}

/* Waits for the first fiber, then for all. */
static int await_end(struct host *h, intptr_t *result) {
  struct cfiber_runtime *rt = h->rt;
  uintptr_t first;
  while (!(first = atomic_exchange(&rt->completions, 0)))
    await_notice(h);
  struct cfiber *f = (struct cfiber *)first;
  int e = f->error;
  if (!e && result)
    *result = f->result;
  /* One fiber was spawned by no thread. */
  atomic_store(&rt->draining, 1);
  for (uint32_t i = 0; i < h->nthreads; i++)
    cfiber_poller_wake(&rt->threads[i].poller);
  while (cfiber_runtime_live(rt) + 1 != 0)
    await_notice(h);
  return e;
}

static void stop_threads(struct host *h) {
  struct cfiber_runtime *rt = h->rt;
  atomic_store(&rt->stop, 1);
  CHAOS_DELAY(STOP);
  for (uint32_t i = 0; i < h->nthreads; i++)
    cfiber_poller_wake(&rt->threads[i].poller);
  for (uint32_t i = 0; i < h->nthreads; i++)
    pthread_join(h->threads[i], NULL);
}

static uint32_t cpus(void) {
  long n = sysconf(_SC_NPROCESSORS_ONLN);
  return n < 1 ? 1 : n > (long)MAX_THREADS ? MAX_THREADS : (uint32_t)n;
}

static int open_pipe(int fds[2]) {
  if (TRY(PIPE, -1, pipe(fds)))
    return errno;
  TRY(INHERIT, -1, fcntl(fds[0], F_SETFD, FD_CLOEXEC));
  TRY(INHERIT, -1, fcntl(fds[1], F_SETFD, FD_CLOEXEC));
  TRY(INHERIT, -1,
      fcntl(fds[1], F_SETFL, O_NONBLOCK)); /* full means that the host has enough to read */
  return 0;
}

static int run(struct host *h, cfiber_func fn, void *arg, intptr_t *result) {
  int e = 0;
  h->threads = TRY(MALLOC, NULL, calloc(h->rt->allocated, sizeof *h->threads));
  if (!h->threads)
    return ENOMEM;
  while (!e && h->nthreads < h->rt->allocated)
    e = start_thread(h);
  h->rt->lone = h->nthreads == 1; /* nobody starts more later */
  /* With at least one thread the work gets done. */
  if (h->nthreads > 0 && (e = cfiber_spawn_outside(h->rt, fn, arg)) == 0)
    e = await_end(h, result);
  stop_threads(h);
  free(h->threads);
  return e;
}

int cfiber_run(cfiber_func fn, void *arg, const struct cfiber_options *options, intptr_t *result) {
  static const struct cfiber_options defaults;
  if (!options)
    options = &defaults;
  if (!fn)
    return cfiber_fail(EINVAL);
  if (cfiber_thread_self())
    return cfiber_fail(EDEADLK);
  uint32_t n = options->threads ? options->threads : cpus();
  struct cfiber_config config = {.allocated = n,
                                 .limit = n,
                                 .max_fibers = options->max_fibers,
                                 .migrate = options->migrate,
                                 .stack_size = options->stack_size};
  struct host h = {0};
  int e = open_pipe(h.pipe);
  if (e)
    return cfiber_fail(e);
  config.notify_fd = h.pipe[1];
  e = cfiber_runtime_open(&config, &h.rt);
  if (!e) {
    e = run(&h, fn, arg, result);
    cfiber_runtime_close(h.rt);
  }
  TRY_DONE(CLOSE, -1, close(h.pipe[0]));
  TRY_DONE(CLOSE, -1, close(h.pipe[1]));
  return e ? cfiber_fail(e) : 0;
}
