/*
 * testing.h - what the C tests of fibers share.
 */
#ifndef TESTING_H
#define TESTING_H

#include "check.h"
#include "patience.h"

#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>

#define FAILS(call, e) CHECK((call) == -1 && errno == (e))

/*
 * How often to try. The sanitizers see a race without its being lost, and
 * ThreadSanitizer clears most of a megabyte for each new fiber.
 */
#ifdef CFIBER_SANITIZE
#define ROUNDS(n) ((n) / 50)
#elif defined(CFIBER_CHAOS) || defined(CFIBER_MIGRATE_ALWAYS) /* in many runs, and each is slow */
#define ROUNDS(n) ((n) / 10)
#else
#define ROUNDS(n) (n)
#endif

/* Whether the program runs under an emulator, whose memory and forks are something else. */
static inline bool emulated(void) {
  return getenv("CFIBER_EMULATED") != NULL;
}

static inline cfiber_t *go(cfiber_func fn, void *arg) {
  cfiber_t *f = cfiber_spawn(fn, arg, NULL);
  CHECK(f);
  return f;
}

static inline intptr_t joined(cfiber_t *f) {
  intptr_t r;
  return cfiber_join(f, &r) ? -errno : r;
}

static inline intptr_t identity(void *p) {
  return (intptr_t)p;
}

/* Lets others run until somebody has set the flag. */
static inline void until(_Atomic int *flag) {
  while (!atomic_load(flag))
    cfiber_yield();
}

static inline int open_descriptors(void) {
  int n = 0;
  for (int fd = 0; fd < 1024; fd++)
    n += fcntl(fd, F_GETFD) != -1;
  return n;
}

/* Whether no more are open than there were before. */
static inline bool all_closed(int before) {
#if defined(CFIBER_KQUEUE) && defined(__linux__)
  /* libkqueue closes what belongs to a kqueue on a thread of its own, when that has noticed
   * that the kqueue was closed. The thread keeps two descriptors. The caller's alarm ends this. */
  while (open_descriptors() > before + 2)
    sched_yield();
  return true;
#else
  return open_descriptors() == before;
#endif
}

/* Lets others run until f waits for something. */
static inline void until_waits(const cfiber_t *f) {
  uint64_t state;
  do {
    cfiber_yield();
    state = atomic_load(&f->wait) & WAIT_STATE;
  } while (state != WAIT_ARMED && state != WAIT_PARKED);
}

#define run(fn, threads, migrate) run_named(#fn, fn, threads, migrate)

static const char *only; /* the one function to run, from the command line */

static inline void run_named(const char *name, cfiber_func fn, unsigned threads, unsigned migrate) {
  if (only && strcmp(only, name) != 0)
    return;
  struct cfiber_options options = {.threads = threads, .migrate = migrate};
  CHAOS_TEST(name);
  printf("%s, %u threads, migrate %u\n", name, threads, migrate);
  fflush(stdout);
  CHECK(cfiber_run(fn, NULL, &options, NULL) == 0);
}

#endif /* TESTING_H */
