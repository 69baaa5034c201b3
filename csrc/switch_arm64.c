/*
 * switch_arm64.c - the part of the AArch64 switch that C can say.
 */
#include "switch.h"

#ifdef CFIBER_SWITCH_ARM64

#include <string.h>

extern void cfiber_entry(void);

void *cfiber_switch_init(char *lo, char *hi, void (*entry)(struct cfiber_thread *)) {
  (void)lo;
  uintptr_t top = (uintptr_t)hi & ~(uintptr_t)15;
  uintptr_t *sp = (uintptr_t *)top - 2 - 20;
  memset(sp, 0, 22 * sizeof *sp);
  sp[1] = (uintptr_t)cfiber_entry; /* x30 */
  sp[2] = (uintptr_t)entry;        /* x19 */
  return sp;
}

#endif /* CFIBER_SWITCH_ARM64 */

/* Not a matter of the switch: with ucontext too. */
#ifdef CFIBER_FP_ARM64

uint32_t cfiber_fp_get(void) {
  uint64_t fpcr;
  __asm__ volatile("mrs %0, fpcr" : "=r"(fpcr));
  return (uint32_t)fpcr;
}

void cfiber_fp_set(uint32_t control) {
  uint64_t fpcr = control;
  __asm__ volatile("msr fpcr, %0" ::"r"(fpcr));
}

#endif /* CFIBER_FP_ARM64 */
