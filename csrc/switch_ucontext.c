/*
 * switch_ucontext.c - the context switch by POSIX ucontext, for architectures
 * without an assembly file, and selectable everywhere with -DCFIBER_UCONTEXT.
 *
 * swapcontext saves the signal mask with a system call, so this is some
 * hundred times slower than the assembly. A context's handle is the address of
 * its struct saved, which lies in the frame of the cfiber_switch that left it.
 *
 * swapcontext also keeps the FP control word per context, unlike the assembly.
 * So that both do the same, it is carried over by hand.
 */
#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE 1
#endif
#if defined(__APPLE__) && !defined(_XOPEN_SOURCE)
#define _XOPEN_SOURCE 700
#define _DARWIN_C_SOURCE 1
#pragma clang diagnostic ignored "-Wdeprecated-declarations"
#endif

#include "switch.h"

#ifdef CFIBER_SWITCH_UCONTEXT

#include "sanitizer.h"

#include <stdlib.h>
#include <ucontext.h>

struct call;

struct saved {
  ucontext_t context;
  /* Written by the context that resumes this one. */
  struct cfiber_thread *thread;
  struct call *call; /* not resumed for good, but to make this call */
  uint32_t fp_control;
};

struct fresh {
  struct saved saved;
  void (*entry)(struct cfiber_thread *);
};

struct call {
  struct saved caller;
  intptr_t (*fn)(void *);
  void *arg;
  intptr_t result;
};

/* Leaves the context `from` for `to`; returns when somebody resumes `from`. */
SANITIZER_UNCOUNTED static void swap(struct saved *from, struct saved *to) {
  /* ASan takes a stack that is told here for unused and unpoisons it. */
  from->context.uc_stack.ss_sp = NULL;
  from->context.uc_stack.ss_size = 0;
#ifdef _UC_TLSBASE
  to->context.uc_flags &= ~(unsigned)_UC_TLSBASE; /* NetBSD: `to` may have been on another thread */
#endif
  to->fp_control = cfiber_fp_get();
  if (swapcontext(&from->context, &to->context))
    abort(); /* only fails for want of memory on systems that allocate here */
  cfiber_fp_set(from->fp_control);
}

SANITIZER_UNCOUNTED struct cfiber_thread *cfiber_switch(void **from, void *to,
                                                        struct cfiber_thread *thread) {
  struct saved self, *target = to;
  self.call = NULL;
  *from = &self;
  target->thread = thread;
  swap(&self, target);
  while (self.call) {
    struct call *c = self.call;
    c->result = c->fn(c->arg);
    self.call = NULL;
    swap(&self, &c->caller);
  }
  return self.thread;
}

/*
 * Only the context itself knows where the free part of its stack begins: the
 * frames of cfiber_switch and swapcontext lie below the handle. So it is resumed
 * and makes the call, in cfiber_switch, and then resumes the caller.
 */
SANITIZER_UNCOUNTED intptr_t cfiber_call_on(void *sp, intptr_t (*fn)(void *), void *arg) {
  struct saved *there = sp;
  struct call c;
  c.fn = fn;
  c.arg = arg;
  there->call = &c;
  swap(&c.caller, there);
  return c.result;
}

/* makecontext passes ints; two of them carry a pointer. */
static void start(unsigned high, unsigned low) {
  struct fresh *f = (struct fresh *)(uintptr_t)((uint64_t)high << 32 | low);
  cfiber_fp_set(f->saved.fp_control);
  f->entry(f->saved.thread);
  abort();
}

void *cfiber_switch_init(char *lo, char *hi, void (*entry)(struct cfiber_thread *)) {
  uintptr_t top = ((uintptr_t)hi - sizeof(struct fresh)) & ~(uintptr_t)63;
  struct fresh *f = (struct fresh *)top;
  memset(f, 0, sizeof *f);
  if (getcontext(&f->saved.context))
    abort();
  f->entry = entry;
  f->saved.context.uc_stack.ss_sp = lo;
  f->saved.context.uc_stack.ss_size = top - (uintptr_t)lo;
  f->saved.context.uc_link = NULL;
  uint64_t address = (uintptr_t)f;
  makecontext(&f->saved.context, (void (*)(void))start, 2, (unsigned)(address >> 32),
              (unsigned)address);
  return f;
}

#endif /* CFIBER_SWITCH_UCONTEXT */

#ifdef CFIBER_FP_ROUNDING

#include <fenv.h>

/* The rounding mode is what the C library offers on every architecture. */
uint32_t cfiber_fp_get(void) {
  return (uint32_t)fegetround();
}

void cfiber_fp_set(uint32_t control) {
  fesetround((int)control);
}

#endif /* CFIBER_FP_ROUNDING */
