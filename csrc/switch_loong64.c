/*
 * switch_loong64.c - the part of the LoongArch switch that C can say.
 */
#include "switch.h"

#ifdef CFIBER_SWITCH_LOONG64

extern void cfiber_entry(void);

void *cfiber_switch_init(char *lo, char *hi, void (*entry)(struct cfiber_thread *)) {
  (void)lo;
  uintptr_t top = (uintptr_t)hi & ~(uintptr_t)15;
  uintptr_t *sp = (uintptr_t *)top - 20;
  for (int i = 0; i < 20; i++) /* not memset, so as to need no header of a C library */
    sp[i] = 0;
  sp[17] = (uintptr_t)entry;        /* s0 */
  sp[19] = (uintptr_t)cfiber_entry; /* ra */
  return sp;
}

#endif /* CFIBER_SWITCH_LOONG64 */

/* Not a matter of the switch: with ucontext too. */
#ifdef CFIBER_FP_LOONG64

/* The trap enables and the rounding mode; not the flags and causes. */
#define FCSR_CONTROL UINT32_C(0x31f)

static uint32_t get_fcsr(void) {
  unsigned long fcsr;
  __asm__ volatile("movfcsr2gr %0, $fcsr0" : "=r"(fcsr));
  return (uint32_t)fcsr;
}

uint32_t cfiber_fp_get(void) {
  return get_fcsr() & FCSR_CONTROL;
}

void cfiber_fp_set(uint32_t control) {
  unsigned long fcsr = (get_fcsr() & ~FCSR_CONTROL) | control;
  __asm__ volatile("movgr2fcsr $fcsr0, %0" ::"r"(fcsr));
}

#endif /* CFIBER_FP_LOONG64 */
