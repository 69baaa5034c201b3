/*
 * switch_riscv64.S - the context switch for RISC-V, LP64D ABI (and LP64).
 *
 * What a callee saves in this ABI: ra (as its own return address), sp, s0-s11, and
 * fs0-fs11 where floating-point arguments go in registers (LP64D). In LP64, and for
 * all vector registers, nothing is kept. gp and tp belong to the program and to the
 * thread, and a context may go on on another thread. frm is left alone unless asked
 * for (CFIBER_KEEP_FP).
 *
 *      higher addresses
 *      |  caller's frame      |  <- CFA
 *      |  ra                  |  +200
 *      |  s0                  |  +192
 *      |  s1 ... s11          |  +104 (s11) ... +184 (s1)
 *      |  (empty)             |  +96
 *      |  fs0 ... fs11        |  +0 (fs0) ... +88 (fs11)  <- saved stack pointer
 *      lower addresses
 *
 * ra and s0 lie where a function with a frame pointer puts them. A fresh context, made
 * by cfiber_switch_init, has the same shape: ra is cfiber_entry, s1 the function to
 * call, s0 is zero, so that frame-pointer walkers stop.
 *
 * cfiber_switch jumps to the other context's return address, the scheduler's switches
 * to a fixed one; why is told in switch_amd64.S. A jump by ra or t0 is by convention a
 * return, for the predictor, so t1 is used.
 */
#include "switch.h"

#ifdef CFIBER_SWITCH_RISCV64

#define END(name) .size name, . - name

  .macro BEGIN name
  .globl \name
  .type \name, @function
  .p2align 2
\name:
  .cfi_startproc
  .endm

  .macro SAVE reg, offset
  sd \reg, \offset(sp)
  .cfi_offset \reg, \offset - 208
  .endm

  .macro LOAD reg, offset
  ld \reg, \offset(sp)
  .cfi_same_value \reg
  .endm

/* Begins a function that leaves its caller's context, with *from in a0. */
  .macro SAVE_CONTEXT
  addi sp, sp, -208
  .cfi_def_cfa_offset 208
  SAVE ra, 200
  SAVE s0, 192
  SAVE s1, 184
  SAVE s2, 176
  SAVE s3, 168
  SAVE s4, 160
  SAVE s5, 152
  SAVE s6, 144
  SAVE s7, 136
  SAVE s8, 128
  SAVE s9, 120
  SAVE s10, 112
  SAVE s11, 104
#ifdef __riscv_float_abi_double
  fsd fs0, 0(sp)
  fsd fs1, 8(sp)
  fsd fs2, 16(sp)
  fsd fs3, 24(sp)
  fsd fs4, 32(sp)
  fsd fs5, 40(sp)
  fsd fs6, 48(sp)
  fsd fs7, 56(sp)
  fsd fs8, 64(sp)
  fsd fs9, 72(sp)
  fsd fs10, 80(sp)
  fsd fs11, 88(sp)
#endif
  sd sp, 0(a0)
  .endm

/* To the context in a1. Its stack has the same layout, so the unwind information
 * stays true across the first instruction. */
  .macro LOAD_CONTEXT
  mv sp, a1
#ifdef __riscv_float_abi_double
  fld fs0, 0(sp)
  fld fs1, 8(sp)
  fld fs2, 16(sp)
  fld fs3, 24(sp)
  fld fs4, 32(sp)
  fld fs5, 40(sp)
  fld fs6, 48(sp)
  fld fs7, 56(sp)
  fld fs8, 64(sp)
  fld fs9, 72(sp)
  fld fs10, 80(sp)
  fld fs11, 88(sp)
#endif
  LOAD s11, 104
  LOAD s10, 112
  LOAD s9, 120
  LOAD s8, 128
  LOAD s7, 136
  LOAD s6, 144
  LOAD s5, 152
  LOAD s4, 160
  LOAD s3, 168
  LOAD s2, 176
  LOAD s1, 184
  LOAD s0, 192
  LOAD ra, 200
  addi sp, sp, 208
  .cfi_def_cfa_offset 0
  .endm

  .text
  .hidden cfiber_resumed
  .hidden cfiber_first

/* cfiber_switch(from: a0, to: a1, thread: a2) */
BEGIN cfiber_switch
  SAVE_CONTEXT
  mv a0, a2
  LOAD_CONTEXT
  mv t1, ra
  jr t1
  .cfi_endproc
END(cfiber_switch)

/* cfiber_switch_resume(from: a0, to: a1, thread: a2) */
BEGIN cfiber_switch_resume
  SAVE_CONTEXT
  mv a0, a2
  LOAD_CONTEXT
  tail cfiber_resumed
  .cfi_endproc
END(cfiber_switch_resume)

/* cfiber_switch_begin(from: a0, lo: a1, hi: a2, thread: a3) */
BEGIN cfiber_switch_begin
  SAVE_CONTEXT
  mv sp, a2
  mv a0, a3
  lla s1, cfiber_first
  j cfiber_entry
  .cfi_endproc
END(cfiber_switch_begin)

/*
 * The first instruction of a fresh context: s1 holds the function, a0 the thread. The
 * function is jumped to, with the return address set by hand, so that the return
 * predictor stays in step; see switch_amd64.S. The return address here is declared
 * undefined: backtraces end.
 */
BEGIN cfiber_entry
  .cfi_undefined ra
  li s0, 0
  lla ra, 1f
  jr s1
1:
  unimp
  .cfi_endproc
END(cfiber_entry)

/*
 * cfiber_call_on(sp: a0, fn: a1, arg: a2)
 * s0 holds the way back and tells the unwinder of it.
 */
BEGIN cfiber_call_on
  addi sp, sp, -16
  .cfi_def_cfa_offset 16
  sd ra, 8(sp)
  .cfi_offset ra, -8
  sd s0, 0(sp)
  .cfi_offset s0, -16
  addi s0, sp, 16
  .cfi_def_cfa s0, 0
  andi sp, a0, -16
  mv a0, a2
  jalr a1
  addi sp, s0, -16
  .cfi_def_cfa sp, 16
  LOAD s0, 0
  LOAD ra, 8
  addi sp, sp, 16
  .cfi_def_cfa_offset 0
  ret
  .cfi_endproc
END(cfiber_call_on)

#endif /* CFIBER_SWITCH_RISCV64 */

#ifdef __ELF__
  .section .note.GNU-stack, "", %progbits
#endif
