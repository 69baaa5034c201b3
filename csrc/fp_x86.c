/*
 * fp_x86.c - the FP control word of x86, of 32 and of 64 bits. Not a matter of the
 * switch: with ucontext too.
 */
#include "switch.h"

#ifdef CFIBER_FP_X86

#define MXCSR_STATUS UINT32_C(0x3f) /* the sticky exception flags */

/* The C code may be compiled for processors without SSE, while other code of the
 * program, such as Go's, calculates with it. */
static int has_sse(void) {
#ifdef __SSE__
  return 1;
#else
  return __builtin_cpu_supports("sse");
#endif
}

static uint32_t get_mxcsr(void) {
  uint32_t mxcsr;
  __asm__ volatile("stmxcsr %0" : "=m"(mxcsr));
  return mxcsr;
}

uint32_t cfiber_fp_get(void) {
  uint16_t x87;
  __asm__ volatile("fnstcw %0" : "=m"(x87));
  uint32_t control = (uint32_t)x87 << 16;
  if (has_sse())
    control |= get_mxcsr() & 0xffff & ~MXCSR_STATUS;
  return control;
}

void cfiber_fp_set(uint32_t control) {
  uint16_t x87 = (uint16_t)(control >> 16);
  __asm__ volatile("fldcw %0" ::"m"(x87));
  if (has_sse()) {
    uint32_t mxcsr = (control & 0xffff) | (get_mxcsr() & MXCSR_STATUS);
    __asm__ volatile("ldmxcsr %0" ::"m"(mxcsr));
  }
}

#endif /* CFIBER_FP_X86 */
