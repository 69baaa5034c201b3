// cfiberbench: name=ucontext pkg= flags= workloads=switch,yield
//
// The C library's makecontext and swapcontext. Each swap asks the kernel for
// the signal mask and sets it, which no setting turns off.
//
// switch  Two contexts that switch to each other; time of one way.
// yield   `fibers` contexts in a ring, each of which swaps to the next: the
//         shortest scheduler that one can write on it.
#include "bench.h"
#include <ucontext.h>

enum { STACK = 64 * 1024 };

static ucontext_t main_context, partner_context;
static uint64_t partner_runs;

static void partner(void) {
  for (;;) {
    partner_runs++;
    swapcontext(&partner_context, &main_context);
  }
}

static void prepare(ucontext_t *context, void (*entry)(void)) {
  BENCH_CHECK(getcontext(context) == 0);
  context->uc_stack.ss_sp = malloc(STACK);
  context->uc_stack.ss_size = STACK;
  context->uc_link = &main_context;
  BENCH_CHECK(context->uc_stack.ss_sp);
  makecontext(context, entry, 0);
}

static void run_switch(void) {
  uint64_t rounds = bench_number("n", 2000000) / 2;
  bench_arguments_done();
  prepare(&partner_context, partner);
  uint64_t start = bench_now();
  for (uint64_t i = 0; i < rounds; i++)
    swapcontext(&main_context, &partner_context);
  bench_time(start, 2 * rounds);
  BENCH_CHECK(partner_runs == rounds);
}

static struct {
  ucontext_t *contexts;
  uint64_t count, current, yields, goal;
} ring;

// Whoever does the last one goes back to main; the others stay where they are.
static void member(void) {
  for (;;) {
    ucontext_t *self = &ring.contexts[ring.current];
    if (++ring.current == ring.count)
      ring.current = 0;
    int last = ++ring.yields == ring.goal;
    swapcontext(self, last ? &main_context : &ring.contexts[ring.current]);
  }
}

static void run_ring(uint64_t goal) {
  ring.yields = 0;
  ring.goal = goal;
  swapcontext(&main_context, &ring.contexts[ring.current]);
}

static void run_yield(void) {
  ring.count = bench_number("fibers", 2);
  uint64_t n = bench_number("n", 2000000);
  bench_arguments_done();
  BENCH_CHECK(ring.count >= 2);
  ring.contexts = (ucontext_t *)calloc(ring.count, sizeof *ring.contexts);
  BENCH_CHECK(ring.contexts);
  for (uint64_t i = 0; i < ring.count; i++)
    prepare(&ring.contexts[i], member);
  run_ring(ring.count); // each begins and touches its stack
  uint64_t start = bench_now();
  run_ring(n);
  bench_time(start, n);
  BENCH_CHECK(ring.yields == n);
}

int main(int argc, char **argv) {
  static const struct bench_workload table[] = {
      {"switch", run_switch}, {"yield", run_yield}, {NULL, NULL}};
  bench_main(argc, argv, table);
}
