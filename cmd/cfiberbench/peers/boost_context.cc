// cfiberbench: name=boost.context pkg=libboost-context-dev flags=-std=c++17 -Wl,-Bstatic -lboost_context -Wl,-Bdynamic workloads=switch
//
// Boost.Context: two contexts that switch to each other; time of one way.
//
// api=fcontext (default) is the assembly itself, jump_fcontext, which Boost
// calls a detail but others build on. api=fiber is what its manual shows,
// boost::context::fiber, which adds moving a handle and a jump through a
// function. Linked statically: through the shared library each switch would
// also pay for a jump through the procedure linkage table.
#include "bench.h"
#include <boost/context/detail/fcontext.hpp>
#include <boost/context/fiber.hpp>
#include <boost/context/fixedsize_stack.hpp>

namespace ctx = boost::context;

static uint64_t partner_runs;

static void partner(ctx::detail::transfer_t from) {
  for (;;) {
    partner_runs++;
    from = ctx::detail::jump_fcontext(from.fctx, nullptr);
  }
}

static void switch_fcontext(uint64_t rounds) {
  ctx::fixedsize_stack stacks;
  ctx::stack_context stack = stacks.allocate();
  ctx::detail::fcontext_t other = ctx::detail::make_fcontext(stack.sp, stack.size, partner);
  uint64_t start = bench_now();
  for (uint64_t i = 0; i < rounds; i++)
    other = ctx::detail::jump_fcontext(other, nullptr).fctx;
  bench_time(start, 2 * rounds);
  stacks.deallocate(stack);
}

static void switch_fiber(uint64_t rounds) {
  ctx::fiber other{[](ctx::fiber &&from) {
    for (;;) {
      partner_runs++;
      from = std::move(from).resume();
    }
    return std::move(from);
  }};
  uint64_t start = bench_now();
  for (uint64_t i = 0; i < rounds; i++)
    other = std::move(other).resume();
  bench_time(start, 2 * rounds);
}

static void run_switch() {
  int api = bench_choice("api", "fcontext|fiber");
  uint64_t rounds = bench_number("n", 100000000) / 2;
  bench_arguments_done();
  if (api == 0)
    switch_fcontext(rounds);
  else
    switch_fiber(rounds);
  BENCH_CHECK(partner_runs == rounds);
}

int main(int argc, char **argv) {
  static const bench_workload table[] = {{"switch", run_switch}, {nullptr, nullptr}};
  bench_main(argc, argv, table);
}
