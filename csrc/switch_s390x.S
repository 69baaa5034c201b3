/*
 * switch_s390x.S - the context switch for IBM Z, 64 bits (ELF).
 *
 * What a callee saves in this ABI: r6-r13, r14 (as its own return address), r15 (the
 * stack pointer), and f8-f15. The access registers a0 and a1 hold the thread pointer,
 * and a context may go on on another thread. FPC is left alone unless asked for
 * (CFIBER_KEEP_FP). Every frame ends with 160 bytes for its callee's use, in which r6
 * has its place at 48, r14 at 112.
 *
 *      higher addresses
 *      |  caller's frame         |  <- CFA
 *      |  (for f0 ... f6)        |  +192  the save area of the caller's frame
 *      |  r15                    |  +184
 *      |  r14                    |  +176
 *      |  r6 ... r13             |  +112
 *      |  (for r2 ... r5)        |  +80
 *      |  the caller's back chain|  +64
 *      |  f8 ... f15             |  <- saved stack pointer
 *      lower addresses
 *
 * A fresh context, made by cfiber_switch_init, has the same shape: r14 is cfiber_entry,
 * r6 the function to call, the back chain is zero.
 *
 * cfiber_switch jumps to the other context's return address, the scheduler's switches
 * to a fixed one; why is told in switch_amd64.S. A branch by r14 may be taken for a
 * return, so r1 is used.
 */
#include "switch.h"

#ifdef CFIBER_SWITCH_S390X

#define END(name) .size name, . - name

  .macro BEGIN name
  .globl \name
  .type \name, @function
  .p2align 4
\name:
  .cfi_startproc
  .endm

/* Begins a function that leaves its caller's context, with *from in r2. */
  .macro SAVE_CONTEXT
  stmg %r6, %r15, 48(%r15)
  .cfi_offset %r6, -112
  .cfi_offset %r7, -104
  .cfi_offset %r8, -96
  .cfi_offset %r9, -88
  .cfi_offset %r10, -80
  .cfi_offset %r11, -72
  .cfi_offset %r12, -64
  .cfi_offset %r13, -56
  .cfi_offset %r14, -48
  .cfi_offset %r15, -40
  aghi %r15, -64
  .cfi_def_cfa_offset 224
  std %f8, 0(%r15)
  std %f9, 8(%r15)
  std %f10, 16(%r15)
  std %f11, 24(%r15)
  std %f12, 32(%r15)
  std %f13, 40(%r15)
  std %f14, 48(%r15)
  std %f15, 56(%r15)
  stg %r15, 0(%r2)
  .endm

/* To the context in r3. Its stack has the same layout, so the unwind information
 * stays true across the first instruction. */
  .macro LOAD_CONTEXT
  lgr %r15, %r3
  ld %f8, 0(%r15)
  ld %f9, 8(%r15)
  ld %f10, 16(%r15)
  ld %f11, 24(%r15)
  ld %f12, 32(%r15)
  ld %f13, 40(%r15)
  ld %f14, 48(%r15)
  ld %f15, 56(%r15)
  lmg %r6, %r14, 112(%r15)
  .cfi_same_value %r6
  .cfi_same_value %r7
  .cfi_same_value %r8
  .cfi_same_value %r9
  .cfi_same_value %r10
  .cfi_same_value %r11
  .cfi_same_value %r12
  .cfi_same_value %r13
  .cfi_same_value %r14
  aghi %r15, 64
  .cfi_def_cfa_offset 160
  .cfi_same_value %r15
  .endm

  .text
  .hidden cfiber_resumed
  .hidden cfiber_first

/* cfiber_switch(from: r2, to: r3, thread: r4) */
BEGIN cfiber_switch
  SAVE_CONTEXT
  lgr %r2, %r4
  LOAD_CONTEXT
  lgr %r1, %r14
  br %r1
  .cfi_endproc
END(cfiber_switch)

/* cfiber_switch_resume(from: r2, to: r3, thread: r4) */
BEGIN cfiber_switch_resume
  SAVE_CONTEXT
  lgr %r2, %r4
  LOAD_CONTEXT
  jg cfiber_resumed
  .cfi_endproc
END(cfiber_switch_resume)

/* cfiber_switch_begin(from: r2, lo: r3, hi: r4, thread: r5) */
BEGIN cfiber_switch_begin
  SAVE_CONTEXT
  lgr %r15, %r4
  aghi %r15, -160
  xc 0(8, %r15), 0(%r15) /* the end of the back chain */
  lgr %r2, %r5
  larl %r6, cfiber_first
  jg cfiber_entry
  .cfi_endproc
END(cfiber_switch_begin)

/*
 * The first instruction of a fresh context: r6 holds the function, r2 the thread. The
 * function is jumped to, with the return address set by hand, so that the return
 * predictor stays in step; see switch_amd64.S. The return address here is declared
 * undefined: backtraces end.
 */
BEGIN cfiber_entry
  .cfi_undefined %r14
  lghi %r11, 0
  larl %r14, 1f
  br %r6
1:
  .short 0 /* an invalid instruction */
  .cfi_endproc
END(cfiber_entry)

/*
 * cfiber_call_on(sp: r2, fn: r3, arg: r4)
 * r11 holds the way back and tells the unwinder of it.
 */
BEGIN cfiber_call_on
  stmg %r11, %r15, 88(%r15)
  .cfi_offset %r11, -72
  .cfi_offset %r12, -64
  .cfi_offset %r13, -56
  .cfi_offset %r14, -48
  .cfi_offset %r15, -40
  lgr %r11, %r15
  .cfi_def_cfa_register %r11
  nill %r2, 0xfff8
  lgr %r15, %r2
  aghi %r15, -160 /* for fn's use */
  stg %r11, 0(%r15)
  lgr %r2, %r4
  basr %r14, %r3
  lmg %r11, %r15, 88(%r11)
  .cfi_def_cfa %r15, 160
  .cfi_same_value %r11
  .cfi_same_value %r12
  .cfi_same_value %r13
  .cfi_same_value %r14
  .cfi_same_value %r15
  br %r14
  .cfi_endproc
END(cfiber_call_on)

#endif /* CFIBER_SWITCH_S390X */

#ifdef __ELF__
  .section .note.GNU-stack, "", %progbits
#endif
