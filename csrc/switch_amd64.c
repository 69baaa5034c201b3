/*
 * switch_amd64.c - the part of the x86-64 switch that C can say.
 */
#include "switch.h"

#ifdef CFIBER_SWITCH_AMD64

#include <string.h>

extern void cfiber_entry(void);

void *cfiber_switch_init(char *lo, char *hi, void (*entry)(struct cfiber_thread *)) {
  (void)lo;
  uintptr_t top = (uintptr_t)hi & ~(uintptr_t)15;
  /* A zero word above the frame is where a frame-pointer walker would read a
   * return address; the slots below are popped in order r15 ... rbp, rip. */
  uintptr_t *sp = (uintptr_t *)top - 2 - 7;
  memset(sp, 0, 9 * sizeof *sp);
  sp[4] = (uintptr_t)entry;        /* rbx */
  sp[6] = (uintptr_t)cfiber_entry; /* return address */
  return sp;
}

#endif /* CFIBER_SWITCH_AMD64 */

/* Not a matter of the switch: with ucontext too. */
#ifdef CFIBER_FP_AMD64

#define MXCSR_STATUS UINT32_C(0x3f) /* the sticky exception flags */

static uint32_t get_mxcsr(void) {
  uint32_t mxcsr;
  __asm__ volatile("stmxcsr %0" : "=m"(mxcsr));
  return mxcsr;
}

uint32_t cfiber_fp_get(void) {
  uint16_t x87;
  __asm__ volatile("fnstcw %0" : "=m"(x87));
  return (get_mxcsr() & 0xffff & ~MXCSR_STATUS) | (uint32_t)x87 << 16;
}

void cfiber_fp_set(uint32_t control) {
  uint32_t mxcsr = (control & 0xffff) | (get_mxcsr() & MXCSR_STATUS);
  uint16_t x87 = (uint16_t)(control >> 16);
  __asm__ volatile("ldmxcsr %0\n\tfldcw %1" ::"m"(mxcsr), "m"(x87));
}

#endif /* CFIBER_FP_AMD64 */
