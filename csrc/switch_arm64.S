/*
 * switch_arm64.S - the context switch for AArch64, AAPCS64 (ELF and Mach-O).
 *
 * What a callee saves in this ABI: x19-x28, the frame pointer x29, the link
 * register x30 (as its own return address), sp, and the low halves of v8-v15,
 * which are d8-d15. FPCR is left alone unless asked for (CFIBER_KEEP_FP). x18
 * belongs to the platform (Darwin, Windows, shadow call stacks) and is never
 * touched.
 *
 *      higher addresses
 *      |  caller's frame      |
 *      |  d14 d15             |  +144
 *      |  d12 d13             |  +128
 *      |  d10 d11             |  +112
 *      |  d8  d9              |  +96
 *      |  x27 x28             |  +80
 *      |  x25 x26             |  +64
 *      |  x23 x24             |  +48
 *      |  x21 x22             |  +32
 *      |  x19 x20             |  +16
 *      |  x29 x30             |  <- saved stack pointer
 *      lower addresses
 *
 * x29 and x30 lie lowest, so that they form a frame record. A fresh context,
 * made by cfiber_switch_init, has the same shape: x30 is cfiber_entry, x19 the
 * function to call, x29 is zero.
 *
 * cfiber_switch jumps to the other context's return address, the scheduler's
 * switches to a fixed one; why is told in switch_amd64.S. Where branch targets are
 * enforced (BTI) a jump may not land behind a call, so there cfiber_switch returns.
 */
#include "switch.h"

#ifdef CFIBER_SWITCH_ARM64

#ifdef __APPLE__
#define SYMBOL(name) _##name
#define END(name)
#else
#define SYMBOL(name) name
#define END(name) .size name, . - name
#endif

/* bti c, as a hint: it assembles everywhere, and is a no-op on older cores. */
#define LANDING hint #34

#if defined(__ARM_FEATURE_BTI_DEFAULT) && __ARM_FEATURE_BTI_DEFAULT
#define RESUME ret x30
#define RESUMES_BY_RET 1
#else
#define RESUME br x30
#endif

#ifndef __APPLE__
  .macro FUNCTION name
  .globl \name
  .type \name, %function
  .p2align 4
\name:
  .endm
#define BEGIN(name) FUNCTION name
#else
  .macro FUNCTION name
  .globl _\name
  .p2align 4
_\name:
  .endm
#define BEGIN(name) FUNCTION name
#endif

  .text

#ifdef __ELF__
  .hidden cfiber_resumed
  .hidden cfiber_first
#endif

/* Begins a function that leaves its caller's context, with *from in x0. */
  .macro SAVE_CONTEXT
  .cfi_startproc
  LANDING
  stp x29, x30, [sp, #-160]!
  .cfi_def_cfa_offset 160
  .cfi_offset x29, -160
  .cfi_offset x30, -152
  stp x19, x20, [sp, #16]
  .cfi_offset x19, -144
  .cfi_offset x20, -136
  stp x21, x22, [sp, #32]
  .cfi_offset x21, -128
  .cfi_offset x22, -120
  stp x23, x24, [sp, #48]
  .cfi_offset x23, -112
  .cfi_offset x24, -104
  stp x25, x26, [sp, #64]
  .cfi_offset x25, -96
  .cfi_offset x26, -88
  stp x27, x28, [sp, #80]
  .cfi_offset x27, -80
  .cfi_offset x28, -72
  stp d8, d9, [sp, #96]
  stp d10, d11, [sp, #112]
  stp d12, d13, [sp, #128]
  stp d14, d15, [sp, #144]
  mov x9, sp
  str x9, [x0]
  .endm

/* To the context in x1. Its stack has the same layout, so the unwind information
 * stays true across the first instruction. */
  .macro LOAD_CONTEXT
  mov sp, x1
  ldp d14, d15, [sp, #144]
  ldp d12, d13, [sp, #128]
  ldp d10, d11, [sp, #112]
  ldp d8, d9, [sp, #96]
  ldp x27, x28, [sp, #80]
  ldp x25, x26, [sp, #64]
  ldp x23, x24, [sp, #48]
  ldp x21, x22, [sp, #32]
  ldp x19, x20, [sp, #16]
  ldp x29, x30, [sp], #160
  .cfi_def_cfa_offset 0
  .cfi_same_value x29
  .cfi_same_value x30
  .cfi_same_value x19
  .cfi_same_value x20
  .cfi_same_value x21
  .cfi_same_value x22
  .cfi_same_value x23
  .cfi_same_value x24
  .cfi_same_value x25
  .cfi_same_value x26
  .cfi_same_value x27
  .cfi_same_value x28
  .endm

/* cfiber_switch(from: x0, to: x1, thread: x2) */
BEGIN(cfiber_switch)
  SAVE_CONTEXT
  mov x0, x2
  LOAD_CONTEXT
  RESUME
  .cfi_endproc
END(cfiber_switch)

/* cfiber_switch_resume(from: x0, to: x1, thread: x2) */
BEGIN(cfiber_switch_resume)
  SAVE_CONTEXT
  mov x0, x2
  LOAD_CONTEXT
  b SYMBOL(cfiber_resumed)
  .cfi_endproc
END(cfiber_switch_resume)

/* cfiber_switch_begin(from: x0, lo: x1, hi: x2, thread: x3) */
BEGIN(cfiber_switch_begin)
  SAVE_CONTEXT
  mov sp, x2
  mov x0, x3
  b SYMBOL(cfiber_begin)
  .cfi_endproc
END(cfiber_switch_begin)

/* As cfiber_entry, for the function that is known. */
BEGIN(cfiber_begin)
  .cfi_startproc
  .cfi_undefined x30
  mov x29, #0
  adr x30, 1f
  b SYMBOL(cfiber_first)
1:
  brk #1
  .cfi_endproc
END(cfiber_begin)

/*
 * The first instruction of a fresh context: x19 holds the function, x0 the
 * thread. The function is jumped to, with the return address set by hand, so
 * that the return predictor stays in step; see switch_amd64.S. The return
 * address here is declared undefined: backtraces end.
 */
BEGIN(cfiber_entry)
  .cfi_startproc
  .cfi_undefined x30
  hint #36 /* bti j: it is jumped to */
  mov x29, #0
  adr x30, 1f
  mov x16, x19
  br x16 /* x16 and x17 may jump to a call's landing pad */
1:
  brk #1
  .cfi_endproc
END(cfiber_entry)

/*
 * cfiber_call_on(sp: x0, fn: x1, arg: x2)
 * x29 holds the way back and tells the unwinder of it.
 */
BEGIN(cfiber_call_on)
  .cfi_startproc
  LANDING
  stp x29, x30, [sp, #-16]!
  .cfi_def_cfa_offset 16
  .cfi_offset x29, -16
  .cfi_offset x30, -8
  mov x29, sp
  .cfi_def_cfa_register x29
  and x0, x0, #-16
  mov sp, x0
  mov x0, x2
  blr x1
  mov sp, x29
  ldp x29, x30, [sp], #16
  .cfi_def_cfa sp, 0
  .cfi_same_value x29
  .cfi_same_value x30
  ret
  .cfi_endproc
END(cfiber_call_on)

#if defined(__ELF__) && defined(RESUMES_BY_RET)
  /* GNU_PROPERTY_AARCH64_FEATURE_1_AND: BTI (bit 0). Only where it is true: not with the jump. */
  .section .note.gnu.property, "a"
  .p2align 3
  .long 4, 16, 5
  .asciz "GNU"
  .long 0xc0000000, 4, 1, 0
#endif

#endif /* CFIBER_SWITCH_ARM64 */

#ifdef __ELF__
  .section .note.GNU-stack, "", %progbits
#endif
