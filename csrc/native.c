/*
 * native.c - calls that must not run on a fiber's stack.
 *
 * Go keeps the bounds of the stack of each thread it made, and a call from C
 * into Go on any other stack dies ("morestack on g0"), or works by luck. So a
 * fiber that calls Go hops to its thread's native stack, below the frames of
 * the scheduler that resumed it, and back. The thread runs no other fiber
 * meanwhile (`native` is set).
 *
 * Every call of an exported Go function goes through the runtime's crosscall2.
 * On ELF, linking with --wrap=crosscall2 sends all of them here, those of any
 * package of the program, with nothing to write. Mach-O linkers cannot do that;
 * there a package that exports Go functions compiles with
 * -Dcrosscall2=cfiber_crosscall2, or calls cfiber_on_native_stack itself. The functions
 * of callback.c do the latter, everywhere; in a program without cgo there is no other way.
 */
#include "sanitizer.h"
#include "switch.h"

struct native_call {
  struct cfiber_thread *thread;
  cfiber_func fn;
  void *arg;
  intptr_t result;
};

/* The other side of the hop. */
SANITIZER_UNCOUNTED static intptr_t call_there(void *p) {
  struct native_call *c = p;
  sanitizer_after(c->thread, NULL);
  c->result = c->fn(c->arg);
  sanitizer_before(c->thread, NULL, c->thread->current, false);
  return 0;
}

intptr_t cfiber_on_native_stack(cfiber_func fn, void *arg) {
  struct cfiber_thread *t = cfiber_thread_on_fiber();
  if (!t)
    return fn(arg);
  struct native_call c = {.thread = t, .fn = fn, .arg = arg};
  t->native = 1;
  __asm__ volatile("" ::"r"(&c) : "memory"); /* c is complete before the switch, for TSan */
  sanitizer_before(t, t->current, NULL, false);
  cfiber_call_on(t->native_sp, call_there, &c);
  sanitizer_after(t, t->current);
  t->native = 0;
  return c.result;
}

#ifdef CFIBER_CGO

/* The signature is the runtime's; see runtime/cgo/asm_*.s. */
struct crosscall {
  void (*fn)(void *);
  void *arg;
  int size;
  size_t context;
};

#ifdef __ELF__
void __real_crosscall2(void (*fn)(void *), void *arg, int size, size_t context);
#define REAL_CROSSCALL2 __real_crosscall2
#else
void crosscall2(void (*fn)(void *), void *arg, int size, size_t context);
#define REAL_CROSSCALL2 crosscall2
#endif

static intptr_t crosscall_there(void *p) {
  struct crosscall *c = p;
  REAL_CROSSCALL2(c->fn, c->arg, c->size, c->context);
  return 0;
}

void cfiber_crosscall2(void (*fn)(void *), void *arg, int size, size_t context);

void cfiber_crosscall2(void (*fn)(void *), void *arg, int size, size_t context) {
  struct cfiber_thread *t = cfiber_thread_on_fiber();
  if (!t) {
    REAL_CROSSCALL2(fn, arg, size, context);
    return;
  }
  int saved = *t->errno_address;
  struct crosscall c = {fn, arg, size, context};
  cfiber_on_native_stack(crosscall_there, &c);
  *t->errno_address = saved;
}

#ifdef __ELF__
void __wrap_crosscall2(void (*fn)(void *), void *arg, int size, size_t context);

void __wrap_crosscall2(void (*fn)(void *), void *arg, int size, size_t context) {
  cfiber_crosscall2(fn, arg, size, context);
}
#endif

#endif /* CFIBER_CGO */
