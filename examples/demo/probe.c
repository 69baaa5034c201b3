#include <pthread.h>
#include <stdlib.h>

#include "call.h"

struct gate {
  pthread_mutex_t lock;
  pthread_cond_t opened;
  int open;
};

static void *wait_at(void *arg) {
  struct gate *gate = arg;
  pthread_mutex_lock(&gate->lock);
  while (!gate->open)
    pthread_cond_wait(&gate->opened, &gate->lock);
  pthread_mutex_unlock(&gate->lock);
  return NULL;
}

int threads_possible(int n) {
  struct gate gate = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0};
  pthread_t *threads = calloc((size_t)n, sizeof *threads);
  int started = 0;
  while (threads && started < n && pthread_create(&threads[started], NULL, wait_at, &gate) == 0)
    started++;

  pthread_mutex_lock(&gate.lock);
  gate.open = 1;
  pthread_cond_broadcast(&gate.opened);
  pthread_mutex_unlock(&gate.lock);
  for (int i = 0; i < started; i++)
    pthread_join(threads[i], NULL);
  free(threads);
  return started;
}
