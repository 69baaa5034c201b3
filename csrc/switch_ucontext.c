/*
 * switch_ucontext.c - the context switch by POSIX ucontext, for architectures
 * without an assembly file, and selectable everywhere with -DCFIBER_UCONTEXT.
 *
 * swapcontext saves the signal mask with a system call, so this is some
 * hundred times slower than the assembly. A context's handle is the address of
 * its ucontext_t, which lies on its own stack.
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

#include <fenv.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

/* Written by the context that resumes, read by the one that is resumed. */
struct saved {
  ucontext_t context;
  struct cfiber_thread *thread;
};

struct fresh {
  struct saved saved;
  void (*entry)(struct cfiber_thread *);
};

struct cfiber_thread *cfiber_switch(void **from, void *to, struct cfiber_thread *thread) {
  struct saved self;
  struct saved *target = to;
  *from = &self;
  target->thread = thread;
  if (swapcontext(&self.context, &target->context))
    abort(); /* only fails for want of memory on systems that allocate here */
  return self.thread;
}

struct cfiber_thread *cfiber_switch_paired(void **from, void *to, struct cfiber_thread *thread) {
  return cfiber_switch(from, to, thread);
}

/* makecontext passes ints; two of them carry a pointer. */
static void start(unsigned high, unsigned low) {
  struct fresh *f = (struct fresh *)(uintptr_t)((uint64_t)high << 32 | low);
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

/* A call on another stack is a context of one use. */
struct call {
  ucontext_t back, there;
  intptr_t (*fn)(void *);
  void *arg;
  intptr_t result;
};

static void call(unsigned high, unsigned low) {
  struct call *c = (struct call *)(uintptr_t)((uint64_t)high << 32 | low);
  c->result = c->fn(c->arg);
}

intptr_t cfiber_call_on(void *sp, intptr_t (*fn)(void *), void *arg) {
  struct call c = {.fn = fn, .arg = arg};
  if (getcontext(&c.there))
    abort();
  /* The handle is the address of a struct saved, with live frames above and
   * free stack below. How much is not known; makecontext only wants the top. */
  size_t size = 64 * 1024;
  uintptr_t top = (uintptr_t)sp & ~(uintptr_t)63;
  c.there.uc_stack.ss_sp = (void *)(top - size);
  c.there.uc_stack.ss_size = size;
  c.there.uc_link = &c.back;
  uint64_t address = (uintptr_t)&c;
  makecontext(&c.there, (void (*)(void))call, 2, (unsigned)(address >> 32), (unsigned)address);
  if (swapcontext(&c.back, &c.there))
    abort();
  return c.result;
}

/* The rounding mode is what the C library offers on every architecture. */
uint32_t cfiber_fp_get(void) {
  return (uint32_t)fegetround();
}

void cfiber_fp_set(uint32_t control) {
  fesetround((int)control);
}

#endif /* CFIBER_SWITCH_UCONTEXT */
