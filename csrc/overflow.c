/*
 * overflow.c - reports a fiber that ran over the end of its stack.
 *
 * A touch of a guard raises SIGSEGV (SIGBUS on some systems). The handler runs
 * on the alternate stack, which every thread of Go has, says what happened, and
 * hands on to the handler that was there before, for its own report. It only
 * uses what is async-signal-safe.
 */
#include "core.h"
#include "fault.h"
#include "symbol.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

/* ---- Text without stdio ------------------------------------------------------ */

struct text {
  char buf[1024];
  size_t n;
};

static void put(struct text *t, const char *s) {
  while (*s && t->n < sizeof t->buf)
    t->buf[t->n++] = *s++;
}

static void put_number(struct text *t, uint64_t v, unsigned base) {
  char digits[24];
  size_t n = sizeof digits;
  digits[--n] = 0;
  do
    digits[--n] = "0123456789abcdef"[v % base];
  while ((v /= base) != 0);
  if (base == 16)
    put(t, "0x");
  put(t, digits + n);
}

static void put_address(struct text *t, const void *p) {
  put_number(t, (uintptr_t)p, 16);
}

/* ---- The report ---------------------------------------------------------------- */

static void report(const struct stack *s, const void *address) {
  struct cfiber *f = atomic_load_explicit(&s->owner, memory_order_relaxed);
  struct text t = {.n = 0};
  put(&t, "\ncfiber: stack overflow");
  if (f) {
    char symbol[128];
    put(&t, " in fiber ");
    put_number(&t, f->id, 10);
    if (f->name[0]) {
      put(&t, " \"");
      put(&t, f->name);
      put(&t, "\"");
    }
    put(&t, ", entry function ");
    if (cfiber_symbol((uintptr_t)f->fn, symbol, sizeof symbol)) {
      put(&t, symbol);
      put(&t, " ");
    }
    put(&t, "at ");
    put_address(&t, (const void *)(uintptr_t)f->fn);
  }
  put(&t, "\ncfiber: its stack is ");
  put_address(&t, s->lo);
  put(&t, " to ");
  put_address(&t, s->hi);
  put(&t, " (");
  put_number(&t, (uint64_t)(s->hi - s->lo), 10);
  put(&t, " bytes), the access was to ");
  put_address(&t, address);
  put(&t, "\ncfiber: raise Options.StackSize for all fibers, Attr.StackSize (in C, "
          "cfiber_attr.stack_size) for this one\n\n");
  ssize_t ignored = TRY_DONE(REPORT, -1, write(STDERR_FILENO, t.buf, t.n));
  (void)ignored;
}

/* ---- The handler ----------------------------------------------------------------- */

static struct sigaction before[2]; /* SIGSEGV, SIGBUS */

static void chain(int sig, siginfo_t *info, void *context) {
  const struct sigaction *old = &before[sig == SIGBUS];
  if (old->sa_flags & SA_SIGINFO) {
    old->sa_sigaction(sig, info, context);
  } else if (old->sa_handler != SIG_DFL && old->sa_handler != SIG_IGN) {
    old->sa_handler(sig);
  } else {
    /* Nobody else: the instruction faults again, and the default applies. */
    signal(sig, SIG_DFL);
  }
}

static void handler(int sig, siginfo_t *info, void *context) {
  int saved = errno;
  const struct stack *s =
      info->si_code > 0 ? cfiber_stack_guarding((uintptr_t)info->si_addr) : NULL;
  if (s)
    report(s, info->si_addr);
  errno = saved;
  chain(sig, info, context);
}

static void install(void) {
  static const int signals[2] = {SIGSEGV, SIGBUS};
  for (int i = 0; i < 2; i++) {
    struct sigaction action = {.sa_sigaction = handler};
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART;
    sigfillset(&action.sa_mask); /* as Go's: its handler expects no other signal */
    TRY(HANDLER, -1, sigaction(signals[i], &action, &before[i]));
  }
}

void cfiber_overflow_init(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, install);
}
