/*
 * switch_ppc64le.S - the context switch for 64-bit POWER, ELFv2 ABI. (Without Go also for
 * the big-endian systems that have taken to that ABI; Go does without C there.)
 *
 * What a callee saves in this ABI: r1 (the stack pointer), r14-r31, f14-f31, v20-v31,
 * the fields cr2-cr4 of the condition register, and lr as its own return address. r13
 * is the thread's, and a context may go on on another thread. r2, the TOC pointer, is
 * the same again after a call within a module, so it is kept as well. FPSCR is left
 * alone unless asked for (CFIBER_KEEP_FP).
 *
 *      higher addresses
 *      |  r2 of the caller       |  +536  in the caller's frame, not touched
 *      |  lr                     |  +528  in the caller's frame
 *      |  cr                     |  +520  in the caller's frame
 *      |  the caller's back chain|  +512  <- CFA
 *      |  v20 ... v31            |  +320
 *      |  f14 ... f31            |  +176
 *      |  r14 ... r31            |  +32
 *      |  r2                     |  +24
 *      |  (lr, cr of a callee)   |  +8
 *      |  back chain: CFA        |  <- saved stack pointer
 *      lower addresses
 *
 * A fresh context, made by cfiber_switch_init, has the same shape: lr is cfiber_entry,
 * r14 the function to call, the outer back chain is zero, so that walkers of it stop.
 *
 * cfiber_switch jumps to the other context's return address, the scheduler's switches
 * to a fixed one; why is told in switch_amd64.S. blr is a return for the predictor, so
 * the count register is used.
 *
 * What needs the TOC has two entries, as the ABI wants it: the global one makes r2 of
 * its own address, which is in r12; calls within the module go to the local one.
 */
#include "switch.h"

#ifdef CFIBER_SWITCH_PPC64

#define END(name) .size name, . - name

  .machine push
  .machine "power8"

  .macro BEGIN name
  .globl \name
  .type \name, @function
  .p2align 4
\name:
  .cfi_startproc
  .endm

/* A function that relies on r2. */
  .macro BEGIN_WITH_TOC name
  BEGIN \name
  addis %r2, %r12, .TOC. - \name@ha
  addi %r2, %r2, .TOC. - \name@l
  .localentry \name, . - \name
  .endm

/* The unwinder's numbers: lr is 65, cr2 (for all of cr) 70. */

/* Begins a function that leaves its caller's context, with *from in r3. */
  .macro SAVE_CONTEXT
  mflr %r0
  std %r0, 16(%r1)
  .cfi_offset 65, 16
  mfcr %r0
  stw %r0, 8(%r1)
  .cfi_offset 70, 8
  stdu %r1, -512(%r1)
  .cfi_def_cfa_offset 512
  std %r2, 24(%r1)
  .irp n, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31
  std \n, (32 + 8 * (\n - 14))(%r1)
  .cfi_offset \n, -480 + 8 * (\n - 14)
  .endr
  .irp n, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31
  stfd \n, (176 + 8 * (\n - 14))(%r1)
  .endr
#ifdef __ALTIVEC__
  .irp n, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31
  li %r0, 320 + 16 * (\n - 20)
  stvx \n, %r1, %r0
  .endr
#endif
  std %r1, 0(%r3)
  .endm

/* To the context in r4. Its stack has the same layout, so the unwind information
 * stays true across the first instruction. Leaves the return address in lr and r0. */
  .macro LOAD_CONTEXT
  mr %r1, %r4
#ifdef __ALTIVEC__
  .irp n, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31
  li %r0, 320 + 16 * (\n - 20)
  lvx \n, %r1, %r0
  .endr
#endif
  .irp n, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31
  lfd \n, (176 + 8 * (\n - 14))(%r1)
  .endr
  .irp n, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31
  ld \n, (32 + 8 * (\n - 14))(%r1)
  .cfi_same_value \n
  .endr
  ld %r2, 24(%r1)
  addi %r1, %r1, 512
  .cfi_def_cfa_offset 0
  lwz %r0, 8(%r1)
  mtcrf 0x38, %r0
  .cfi_same_value 70
  ld %r0, 16(%r1)
  mtlr %r0
  .cfi_same_value 65
  .endm

  .text
  .abiversion 2
  .hidden cfiber_resumed
  .hidden cfiber_first

/* cfiber_switch(from: r3, to: r4, thread: r5) */
BEGIN cfiber_switch
  SAVE_CONTEXT
  mr %r3, %r5
  LOAD_CONTEXT
  mtctr %r0
  bctr
  .cfi_endproc
END(cfiber_switch)

/* cfiber_switch_resume(from: r3, to: r4, thread: r5) */
BEGIN_WITH_TOC cfiber_switch_resume
  SAVE_CONTEXT
  mr %r3, %r5
  LOAD_CONTEXT
  b cfiber_resumed
  .cfi_endproc
END(cfiber_switch_resume)

/* cfiber_switch_begin(from: r3, lo: r4, hi: r5, thread: r6) */
BEGIN_WITH_TOC cfiber_switch_begin
  SAVE_CONTEXT
  addi %r1, %r5, -32
  li %r0, 0
  std %r0, 0(%r1) /* the end of the back chain */
  mr %r3, %r6
  b cfiber_begin
  .cfi_endproc
END(cfiber_switch_begin)

/* As cfiber_entry, for the function that is known. */
BEGIN cfiber_begin
  .cfi_undefined 65
  bcl 20, 31, 0f
0:
  mflr %r12
  addi %r12, %r12, 1f - 0b
  mtlr %r12
  b cfiber_first
1:
  trap
  .cfi_endproc
END(cfiber_begin)

/*
 * The first instruction of a fresh context: r14 holds the function, r3 the thread. The
 * function is jumped to, with the return address set by hand, so that the return
 * predictor stays in step; see switch_amd64.S. (It knows this form of bcl for one that
 * only asks where it is.) The return address here is declared undefined: backtraces
 * end.
 */
BEGIN cfiber_entry
  .cfi_undefined 65
  bcl 20, 31, 0f
0:
  mflr %r12
  addi %r12, %r12, 1f - 0b
  mtlr %r12
  mr %r12, %r14
  mtctr %r12
  bctr
1:
  trap
  .cfi_endproc
END(cfiber_entry)

/*
 * cfiber_call_on(sp: r3, fn: r4, arg: r5)
 * r31 holds the way back and tells the unwinder of it, and so does the back chain of
 * the frame made for fn's use below sp.
 */
BEGIN cfiber_call_on
  mflr %r0
  std %r0, 16(%r1)
  .cfi_offset 65, 16
  std %r31, -8(%r1)
  .cfi_offset 31, -8
  stdu %r1, -48(%r1)
  .cfi_def_cfa_offset 48
  mr %r31, %r1
  .cfi_def_cfa_register 31
  rldicr %r3, %r3, 0, 59 /* aligned to 16 */
  addi %r1, %r3, -32
  std %r31, 0(%r1)
  std %r2, 24(%r1)
  mr %r12, %r4
  mtctr %r12
  mr %r3, %r5
  bctrl
  ld %r2, 24(%r1)
  addi %r1, %r31, 48
  .cfi_def_cfa 1, 0
  ld %r31, -8(%r1)
  .cfi_same_value 31
  ld %r0, 16(%r1)
  mtlr %r0
  .cfi_same_value 65
  blr
  .cfi_endproc
END(cfiber_call_on)

  .machine pop

#endif /* CFIBER_SWITCH_PPC64 */

#ifdef __ELF__
  .section .note.GNU-stack, "", %progbits
#endif
