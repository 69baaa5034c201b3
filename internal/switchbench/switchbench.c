/*
 * switchbench.c - two contexts that switch to each other, by several means.
 */
#ifdef __APPLE__ /* whose ucontext.h wants to be asked so */
#define _XOPEN_SOURCE 700
#define _DARWIN_C_SOURCE
#endif
#include "switchbench.h"
#include "switch.h"

#include <stdlib.h>

static char stack[64 * 1024] __attribute__((aligned(64)));

/* ---- cfiber ---------------------------------------------------------------- */

static void *here, *there;

static void bounce(struct cfiber_thread *t) {
  for (;;)
    cfiber_switch(&there, here, t);
}

void sb_cfiber(long n) {
  there = cfiber_switch_init(stack, stack + sizeof stack, bounce);
  for (long i = 0; i < n / 2; i++)
    cfiber_switch(&here, there, NULL);
}

/* ---- Inline: the limits ------------------------------------------------------- */

#if defined(__x86_64__)

/*
 * Saves six registers like a function that obeys the ABI would, but inline, so
 * that there is no call and no return. The red zone is stepped over.
 */
#define SWITCH_SIX(from, to)                                                                       \
  __asm__ volatile("leaq -128(%%rsp), %%rsp\n\tpushq %%rbp\n\tpushq %%rbx\n\tpushq %%r12\n\t"      \
                   "pushq %%r13\n\tpushq %%r14\n\tpushq %%r15\n\t"                                 \
                   "leaq 1f(%%rip), %%rcx\n\tpushq %%rcx\n\t"                                      \
                   "movq %%rsp, (%0)\n\tmovq %1, %%rsp\n\tpopq %%rcx\n\tjmpq *%%rcx\n"             \
                   "1:\tpopq %%r15\n\tpopq %%r14\n\tpopq %%r13\n\tpopq %%r12\n\t"                  \
                   "popq %%rbx\n\tpopq %%rbp\n\tleaq 128(%%rsp), %%rsp"                            \
                   :                                                                               \
                   : "D"(from), "S"(to)                                                            \
                   : "rax", "rcx", "rdx", "r8", "r9", "r10", "r11", "memory", "cc")

/* Saves rsp, rbp and the address to go on at; the compiler saves what it uses. */
#define SWITCH_THREE(from, to)                                                                     \
  __asm__ volatile("leaq -128(%%rsp), %%rsp\n\tpushq %%rbp\n\t"                                    \
                   "leaq 1f(%%rip), %%rcx\n\tpushq %%rcx\n\t"                                      \
                   "movq %%rsp, (%0)\n\tmovq %1, %%rsp\n\tpopq %%rcx\n\tjmpq *%%rcx\n"             \
                   "1:\tpopq %%rbp\n\tleaq 128(%%rsp), %%rsp"                                      \
                   : "+D"(from), "+S"(to)                                                          \
                   :                                                                               \
                   : "rax", "rbx", "rcx", "rdx", "r8", "r9", "r10", "r11", "r12", "r13", "r14",    \
                     "r15", "memory", "cc")

/* A context whose first resumption jumps to fn. Nothing is popped but its address. */
static void *fresh(void (*fn)(void)) {
  void **sp = (void **)(stack + sizeof stack) - 9;
  sp[0] = (void *)fn;
  return sp;
}

static void bounce_six(void) {
  for (;;) {
    void **from = &there, *to = here;
    SWITCH_SIX(from, to);
  }
}

void sb_six(long n) {
  there = fresh(bounce_six);
  for (long i = 0; i < n / 2; i++) {
    void **from = &here, *to = there;
    SWITCH_SIX(from, to);
  }
}

static void bounce_three(void) {
  for (;;) {
    void **from = &there, *to = here;
    SWITCH_THREE(from, to);
  }
}

void sb_three(long n) {
  there = fresh(bounce_three);
  for (long i = 0; i < n / 2; i++) {
    void **from = &here, *to = there;
    SWITCH_THREE(from, to);
  }
}

#else

/* No reference has been written for this architecture: the same as cfiber's. */
void sb_six(long n) {
  sb_cfiber(n);
}

void sb_three(long n) {
  sb_cfiber(n);
}

#endif

/* ---- swapcontext ---------------------------------------------------------------- */

/* Not every C library has it: musl and OpenBSD's do not. */
#if defined(__GLIBC__) || defined(__APPLE__) || defined(__FreeBSD__) || defined(__NetBSD__) ||     \
    defined(__DragonFly__)
const int sb_has_swapcontext = 1;

#include <ucontext.h>

static ucontext_t uhere, uthere;

static void bounce_ucontext(void) {
  for (;;)
    swapcontext(&uthere, &uhere);
}

void sb_swapcontext(long n) {
  if (getcontext(&uthere))
    abort();
  uthere.uc_stack.ss_sp = stack;
  uthere.uc_stack.ss_size = sizeof stack;
  makecontext(&uthere, bounce_ucontext, 0);
  for (long i = 0; i < n / 2; i++)
    swapcontext(&uhere, &uthere);
}

#else
const int sb_has_swapcontext = 0;

void sb_swapcontext(long n) {
  (void)n;
}
#endif
