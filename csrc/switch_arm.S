/*
 * switch_arm.S - the context switch for 32-bit ARM, AAPCS (ELF), hard and soft float.
 *
 * What a callee saves in this ABI: r4-r11, sp, lr (as its own return address), and
 * d8-d15 where there is a floating-point unit. FPSCR is left alone unless asked for
 * (CFIBER_KEEP_FP). r9 may be the platform's; on the systems here it is one of the
 * callee's.
 *
 *      higher addresses
 *      |  caller's frame      |
 *      |  lr                  |  +100
 *      |  r4 ... r11          |  +68 (r4) ... +96 (r11)
 *      |  (empty)             |  +64
 *      |  d8 ... d15          |  <- saved stack pointer
 *      lower addresses
 *
 * A fresh context, made by cfiber_switch_init, has the same shape: lr is cfiber_entry,
 * r4 the function to call.
 *
 * The code is in ARM state, and goes over to Thumb by bx, or by the linker's veneers.
 * Stacks are unwound by tables of ARM's own, .ARM.exidx (.fnstart ... .fnend); the CFI
 * beside them is for debuggers.
 *
 * cfiber_switch jumps to the other context's return address, the scheduler's switches
 * to a fixed one; why is told in switch_amd64.S. bx lr is a return for the predictor,
 * so ip is used.
 */
#include "switch.h"

#ifdef CFIBER_SWITCH_ARM

#define END(name) .size name, . - name

  .syntax unified
  .arm
  .cfi_sections .debug_frame

  .macro BEGIN name
  .globl \name
  .type \name, %function
  .p2align 2
\name:
  .fnstart
  .cfi_startproc
  .endm

/* Begins a function that leaves its caller's context, with *from in r0. The word of r3
 * keeps the stack aligned to 8. */
  .macro SAVE_CONTEXT
  push {r3-r11, lr}
  .save {r3-r11, lr}
  .cfi_def_cfa_offset 40
  .cfi_offset r4, -36
  .cfi_offset r5, -32
  .cfi_offset r6, -28
  .cfi_offset r7, -24
  .cfi_offset r8, -20
  .cfi_offset r9, -16
  .cfi_offset r10, -12
  .cfi_offset r11, -8
  .cfi_offset lr, -4
#ifdef __SOFTFP__
  sub sp, sp, #64
  .pad #64
#else
  vpush {d8-d15}
  .vsave {d8-d15}
#endif
  .cfi_def_cfa_offset 104
  str sp, [r0]
  .endm

/* To the context in r1. Its stack has the same layout, so the unwind information
 * stays true across the first instruction. */
  .macro LOAD_CONTEXT
  mov sp, r1
#ifdef __SOFTFP__
  add sp, sp, #64
#else
  vpop {d8-d15}
#endif
  .cfi_def_cfa_offset 40
  pop {r3-r11, lr}
  .cfi_def_cfa_offset 0
  .cfi_same_value r4
  .cfi_same_value r5
  .cfi_same_value r6
  .cfi_same_value r7
  .cfi_same_value r8
  .cfi_same_value r9
  .cfi_same_value r10
  .cfi_same_value r11
  .cfi_same_value lr
  .endm

  .text
  .hidden cfiber_resumed
  .hidden cfiber_first

/* cfiber_switch(from: r0, to: r1, thread: r2) */
BEGIN cfiber_switch
  SAVE_CONTEXT
  mov r0, r2
  LOAD_CONTEXT
  mov ip, lr
  bx ip
  .cfi_endproc
  .fnend
END(cfiber_switch)

/* cfiber_switch_resume(from: r0, to: r1, thread: r2) */
BEGIN cfiber_switch_resume
  SAVE_CONTEXT
  mov r0, r2
  LOAD_CONTEXT
  b cfiber_resumed
  .cfi_endproc
  .fnend
END(cfiber_switch_resume)

/* cfiber_switch_begin(from: r0, lo: r1, hi: r2, thread: r3) */
BEGIN cfiber_switch_begin
  SAVE_CONTEXT
  mov sp, r2
  mov r0, r3
  b cfiber_begin
  .cfi_endproc
  .fnend
END(cfiber_switch_begin)

/* As cfiber_entry, for the function that is known. */
BEGIN cfiber_begin
  .cantunwind
  .cfi_undefined lr
  mov r7, #0
  mov r11, #0
  adr lr, 1f
  b cfiber_first
1:
  udf #0
  .cfi_endproc
  .fnend
END(cfiber_begin)

/*
 * The first instruction of a fresh context: r4 holds the function, r0 the thread. The
 * function is jumped to, with the return address set by hand, so that the return
 * predictor stays in step; see switch_amd64.S. This function is declared the last one
 * (.cantunwind, and the return address undefined): backtraces end. r7 and r11 are the
 * frame pointers of Thumb and of ARM state, for those who walk them.
 */
BEGIN cfiber_entry
  .cantunwind
  .cfi_undefined lr
  mov r7, #0
  mov r11, #0
  adr lr, 1f
  bx r4
1:
  udf #0
  .cfi_endproc
  .fnend
END(cfiber_entry)

/*
 * cfiber_call_on(sp: r0, fn: r1, arg: r2)
 * r11 holds the way back and tells the unwinder of it.
 */
BEGIN cfiber_call_on
  push {r11, lr}
  .save {r11, lr}
  .cfi_def_cfa_offset 8
  .cfi_offset r11, -8
  .cfi_offset lr, -4
  mov r11, sp
  .setfp r11, sp
  .cfi_def_cfa_register r11
  bic sp, r0, #7
  mov r0, r2
  blx r1
  mov sp, r11
  .cfi_def_cfa_register sp
  pop {r11, lr}
  .cfi_def_cfa_offset 0
  .cfi_same_value r11
  .cfi_same_value lr
  bx lr
  .cfi_endproc
  .fnend
END(cfiber_call_on)

#endif /* CFIBER_SWITCH_ARM */

#ifdef __ELF__
  .section .note.GNU-stack, "", %progbits
#endif
