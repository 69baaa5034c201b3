/*
 * boost.c - Boost.Context's fcontext, the switch beneath Boost.Fiber, as its
 * users call it. Its functions have C linkage; the declarations are ours.
 */
#ifdef SWITCHBENCH_BOOST

#include "switchbench.h"

#include <stddef.h>

typedef void *fcontext;
struct transfer {
  fcontext from;
  void *data;
};

struct transfer jump_fcontext(fcontext to, void *data);
fcontext make_fcontext(void *top, size_t size, void (*fn)(struct transfer));

static char stack[64 * 1024] __attribute__((aligned(64)));

static void bounce(struct transfer t) {
  for (;;)
    t = jump_fcontext(t.from, NULL);
}

void sb_boost(long n) {
  fcontext c = make_fcontext(stack + sizeof stack, sizeof stack, bounce);
  for (long i = 0; i < n / 2; i++)
    c = jump_fcontext(c, NULL).from;
}

#endif
