/*
 * switch_arm.c - the part of the 32-bit ARM switch that C can say.
 */
#include "switch.h"

#ifdef CFIBER_SWITCH_ARM

#include <string.h>

extern void cfiber_entry(void);

void *cfiber_switch_init(char *lo, char *hi, void (*entry)(struct cfiber_thread *)) {
  (void)lo;
  uintptr_t top = (uintptr_t)hi & ~(uintptr_t)7;
  uintptr_t *sp = (uintptr_t *)top - 26;
  memset(sp, 0, 26 * sizeof *sp);
  sp[17] = (uintptr_t)entry;        /* r4 */
  sp[25] = (uintptr_t)cfiber_entry; /* lr */
  return sp;
}

#endif /* CFIBER_SWITCH_ARM */

/* Not a matter of the switch: with ucontext too. */
#ifdef CFIBER_FP_ARM

/* AHP, DN, FZ, the rounding mode and the trap enables; not the flags, nor the vectors'
 * length and stride, which are always zero between functions. */
#define FPSCR_CONTROL UINT32_C(0x07c09f00)

static uint32_t get_fpscr(void) {
  uint32_t fpscr;
  __asm__ volatile("vmrs %0, fpscr" : "=r"(fpscr));
  return fpscr;
}

uint32_t cfiber_fp_get(void) {
  return get_fpscr() & FPSCR_CONTROL;
}

void cfiber_fp_set(uint32_t control) {
  uint32_t fpscr = (get_fpscr() & ~FPSCR_CONTROL) | control;
  __asm__ volatile("vmsr fpscr, %0" ::"r"(fpscr) : "memory");
}

#endif /* CFIBER_FP_ARM */
