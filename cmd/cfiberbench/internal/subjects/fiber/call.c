#include "call.h"
#include "cfiber.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

extern void benchCalled(void);

static _Atomic(int) waiting;

intptr_t bench_wait(void *ns) {
  if (!ns)
    return 0;
  atomic_fetch_add_explicit(&waiting, 1, memory_order_relaxed);
  intptr_t result = cfiber_sleep((intptr_t)ns);
  atomic_fetch_sub_explicit(&waiting, 1, memory_order_relaxed);
  return result;
}

int bench_waiting(void) {
  return atomic_load_explicit(&waiting, memory_order_relaxed);
}

intptr_t bench_call_go(void *n) {
  for (intptr_t i = (intptr_t)n; i > 0; i--)
    benchCalled();
  return 0;
}

struct answerer {
  int ask, answer;
};

static void *answer_all(void *arg) {
  struct answerer a = *(struct answerer *)arg;
  free(arg);
  uint64_t count;
  for (;;) {
    ssize_t n = read(a.ask, &count, sizeof count);
    if (n < 0 && errno == EINTR)
      continue;
    if (n != sizeof count || write(a.answer, &count, sizeof count) != sizeof count)
      return NULL;
  }
}

int bench_answerer(int ask, int answer) {
  struct answerer *a = malloc(sizeof *a);
  if (!a)
    return ENOMEM;
  *a = (struct answerer){ask, answer};
  pthread_t thread;
  int e = pthread_create(&thread, NULL, answer_all, a);
  if (e)
    free(a);
  else
    pthread_detach(thread);
  return e;
}
