/*
 * switch_riscv64.c - the part of the RISC-V switch that C can say.
 */
#include "switch.h"

#ifdef CFIBER_SWITCH_RISCV64

#include <string.h>

extern void cfiber_entry(void);

void *cfiber_switch_init(char *lo, char *hi, void (*entry)(struct cfiber_thread *)) {
  (void)lo;
  uintptr_t top = (uintptr_t)hi & ~(uintptr_t)15;
  uintptr_t *sp = (uintptr_t *)top - 26;
  memset(sp, 0, 26 * sizeof *sp);
  sp[23] = (uintptr_t)entry;        /* s1 */
  sp[25] = (uintptr_t)cfiber_entry; /* ra */
  return sp;
}

#endif /* CFIBER_SWITCH_RISCV64 */

/* Not a matter of the switch: with ucontext too. */
#ifdef CFIBER_FP_RISCV64

/* The rounding mode is all the control that there is. */
uint32_t cfiber_fp_get(void) {
  unsigned long frm;
  __asm__ volatile("frrm %0" : "=r"(frm));
  return (uint32_t)frm;
}

void cfiber_fp_set(uint32_t control) {
  unsigned long frm = control;
  __asm__ volatile("fsrm %0" ::"r"(frm));
}

#endif /* CFIBER_FP_RISCV64 */
