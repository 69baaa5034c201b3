/*
 * switch_loong64.S - the context switch for 64-bit LoongArch, LP64D ABI.
 *
 * What a callee saves in this ABI: ra (as its own return address), sp, fp, s0-s8, and
 * fs0-fs7. tp and r21 belong to the thread and to the platform, and a context may go on
 * on another thread. FCSR is left alone unless asked for (CFIBER_KEEP_FP).
 *
 *      higher addresses
 *      |  caller's frame      |  <- CFA
 *      |  ra                  |  +152
 *      |  fp                  |  +144
 *      |  s0 ... s8           |  +72 (s8) ... +136 (s0)
 *      |  (empty)             |  +64
 *      |  fs0 ... fs7         |  +0 (fs0) ... +56 (fs7)  <- saved stack pointer
 *      lower addresses
 *
 * ra and fp lie where a function with a frame pointer puts them. A fresh context, made
 * by cfiber_switch_init, has the same shape: ra is cfiber_entry, s0 the function to
 * call, fp is zero, so that frame-pointer walkers stop.
 *
 * cfiber_switch jumps to the other context's return address, the scheduler's switches
 * to a fixed one; why is told in switch_amd64.S. A jump by ra is a return, for the
 * predictor, so t0 is used.
 */
#include "switch.h"

#ifdef CFIBER_SWITCH_LOONG64

#define END(name) .size name, . - name

  .macro BEGIN name
  .globl \name
  .type \name, @function
  .p2align 4
\name:
  .cfi_startproc
  .endm

/* By number, as not all assemblers know the names in CFI: 1 is ra, 3 sp, 22 fp, and
 * 23-31 are s0-s8. */
  .macro SAVE number, offset
  st.d $r\number, $sp, \offset
  .cfi_offset \number, \offset - 160
  .endm

  .macro LOAD number, offset
  ld.d $r\number, $sp, \offset
  .cfi_same_value \number
  .endm

/* Begins a function that leaves its caller's context, with *from in a0. */
  .macro SAVE_CONTEXT
  addi.d $sp, $sp, -160
  .cfi_def_cfa_offset 160
  SAVE 1, 152
  SAVE 22, 144
  SAVE 23, 136
  SAVE 24, 128
  SAVE 25, 120
  SAVE 26, 112
  SAVE 27, 104
  SAVE 28, 96
  SAVE 29, 88
  SAVE 30, 80
  SAVE 31, 72
  fst.d $fs0, $sp, 0
  fst.d $fs1, $sp, 8
  fst.d $fs2, $sp, 16
  fst.d $fs3, $sp, 24
  fst.d $fs4, $sp, 32
  fst.d $fs5, $sp, 40
  fst.d $fs6, $sp, 48
  fst.d $fs7, $sp, 56
  st.d $sp, $a0, 0
  .endm

/* To the context in a1. Its stack has the same layout, so the unwind information
 * stays true across the first instruction. */
  .macro LOAD_CONTEXT
  move $sp, $a1
  fld.d $fs0, $sp, 0
  fld.d $fs1, $sp, 8
  fld.d $fs2, $sp, 16
  fld.d $fs3, $sp, 24
  fld.d $fs4, $sp, 32
  fld.d $fs5, $sp, 40
  fld.d $fs6, $sp, 48
  fld.d $fs7, $sp, 56
  LOAD 31, 72
  LOAD 30, 80
  LOAD 29, 88
  LOAD 28, 96
  LOAD 27, 104
  LOAD 26, 112
  LOAD 25, 120
  LOAD 24, 128
  LOAD 23, 136
  LOAD 22, 144
  LOAD 1, 152
  addi.d $sp, $sp, 160
  .cfi_def_cfa_offset 0
  .endm

  .text
  .hidden cfiber_resumed
  .hidden cfiber_first

/* cfiber_switch(from: a0, to: a1, thread: a2) */
BEGIN cfiber_switch
  SAVE_CONTEXT
  move $a0, $a2
  LOAD_CONTEXT
  move $t0, $ra
  jr $t0
  .cfi_endproc
END(cfiber_switch)

/* cfiber_switch_resume(from: a0, to: a1, thread: a2) */
BEGIN cfiber_switch_resume
  SAVE_CONTEXT
  move $a0, $a2
  LOAD_CONTEXT
  b cfiber_resumed
  .cfi_endproc
END(cfiber_switch_resume)

/* cfiber_switch_begin(from: a0, lo: a1, hi: a2, thread: a3) */
BEGIN cfiber_switch_begin
  SAVE_CONTEXT
  move $sp, $a2
  move $a0, $a3
  la.local $s0, cfiber_first
  b cfiber_entry
  .cfi_endproc
END(cfiber_switch_begin)

/*
 * The first instruction of a fresh context: s0 holds the function, a0 the thread. The
 * function is jumped to, with the return address set by hand, so that the return
 * predictor stays in step; see switch_amd64.S. The return address here is declared
 * undefined: backtraces end.
 */
BEGIN cfiber_entry
  .cfi_undefined 1
  move $fp, $zero
  la.local $ra, .Lreturned
  jr $s0
.Lreturned:
  break 0
  .cfi_endproc
END(cfiber_entry)

/*
 * cfiber_call_on(sp: a0, fn: a1, arg: a2)
 * fp holds the way back and tells the unwinder of it.
 */
BEGIN cfiber_call_on
  addi.d $sp, $sp, -16
  .cfi_def_cfa_offset 16
  st.d $ra, $sp, 8
  .cfi_offset 1, -8
  st.d $fp, $sp, 0
  .cfi_offset 22, -16
  addi.d $fp, $sp, 16
  .cfi_def_cfa 22, 0
  move $sp, $a0
  bstrins.d $sp, $zero, 3, 0 /* aligned to 16 */
  move $a0, $a2
  jirl $ra, $a1, 0
  addi.d $sp, $fp, -16
  .cfi_def_cfa 3, 16
  LOAD 22, 0
  LOAD 1, 8
  addi.d $sp, $sp, 16
  .cfi_def_cfa_offset 0
  jr $ra
  .cfi_endproc
END(cfiber_call_on)

#endif /* CFIBER_SWITCH_LOONG64 */

#ifdef __ELF__
  .section .note.GNU-stack, "", %progbits
#endif
