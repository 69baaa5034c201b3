/*
 * switch_ppc64le.c - the part of the 64-bit POWER switch that C can say.
 */
#include "switch.h"

#ifdef CFIBER_SWITCH_PPC64

#include <string.h>

extern void cfiber_entry(void);

void *cfiber_switch_init(char *lo, char *hi, void (*entry)(struct cfiber_thread *)) {
  (void)lo;
  uintptr_t top = (uintptr_t)hi & ~(uintptr_t)15;
  /* Above the frame of the switch a frame's head: back chain, cr, lr, r2. */
  uintptr_t *sp = (uintptr_t *)top - 4 - 64;
  memset(sp, 0, 68 * sizeof *sp);
  sp[0] = (uintptr_t)(sp + 64); /* back chain */
  __asm__("mr %0, 2" : "=r"(sp[3]));
  sp[4] = (uintptr_t)entry;         /* r14 */
  sp[66] = (uintptr_t)cfiber_entry; /* lr */
  return sp;
}

#endif /* CFIBER_SWITCH_PPC64 */

/* Not a matter of the switch: with ucontext too. */
#ifdef CFIBER_FP_PPC64

/* Of the 64 bits of FPSCR the last eight: trap enables, non-IEEE mode, rounding mode. */
union fpscr {
  double as_double;
  uint64_t bits;
};

uint32_t cfiber_fp_get(void) {
  union fpscr fpscr;
  __asm__ volatile("mffs %0" : "=d"(fpscr.as_double));
  return (uint32_t)fpscr.bits & 0xff;
}

void cfiber_fp_set(uint32_t control) {
  union fpscr fpscr = {.bits = control};
  __asm__ volatile("mtfsf 3, %0" ::"d"(fpscr.as_double));
}

#endif /* CFIBER_FP_PPC64 */
