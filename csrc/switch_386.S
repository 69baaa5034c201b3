/*
 * switch_386.S - the context switch for 32-bit x86, System V ABI (ELF).
 *
 * What a callee saves in this ABI: ebx, esi, edi, ebp, esp, and the control bits of
 * MXCSR and of the x87 control word. The control words are left alone unless asked for
 * (CFIBER_KEEP_FP). The x87 stack is empty at a call. Arguments lie on the stack, in
 * words that belong to the callee.
 *
 *      higher addresses
 *      |  thread              |
 *      |  to                  |
 *      |  from                |
 *      |  return address      |  pushed by the call
 *      |  ebp                 |
 *      |  ebx                 |
 *      |  esi                 |
 *      |  edi                 |  <- saved stack pointer
 *      lower addresses
 *
 * A fresh context, made by cfiber_switch_init, has the same shape: the return address
 * is cfiber_entry, ebx is the function to call, ebp is zero, so that frame-pointer
 * walkers stop.
 *
 * cfiber_switch jumps to the other context's return address, the scheduler's switches
 * to a fixed one; why is told in switch_amd64.S. There are no ENDBR32: Linux does not
 * enforce branch targets in 32-bit processes.
 */
#include "switch.h"

#ifdef CFIBER_SWITCH_386

#define END(name) .size name, . - name

  .macro BEGIN name
  .globl \name
  .type \name, @function
  .p2align 4
\name:
  .cfi_startproc
  .endm

  .macro PUSH reg
  pushl \reg
  .cfi_adjust_cfa_offset 4
  .cfi_rel_offset \reg, 0
  .endm

  .macro POP reg
  popl \reg
  .cfi_adjust_cfa_offset -4
  .cfi_same_value \reg
  .endm

/* Leaves the caller's context, with *from in ecx. */
  .macro SAVE_CONTEXT
  PUSH %ebp
  PUSH %ebx
  PUSH %esi
  PUSH %edi
  movl %esp, (%ecx)
  .endm

/* To the context in edx. Its stack has the same layout, so the unwind information
 * stays true across the first instruction. */
  .macro LOAD_CONTEXT
  movl %edx, %esp
  POP %edi
  POP %esi
  POP %ebx
  POP %ebp
  .endm

  .text
  .hidden cfiber_resumed
  .hidden cfiber_first

/* cfiber_switch(from, to, thread) */
BEGIN cfiber_switch
  movl 4(%esp), %ecx
  movl 8(%esp), %edx
  movl 12(%esp), %eax
  SAVE_CONTEXT
  LOAD_CONTEXT
  popl %ecx
  .cfi_adjust_cfa_offset -4
  .cfi_register %eip, %ecx
  jmp *%ecx
  .cfi_endproc
END(cfiber_switch)

/* cfiber_switch_resume(from, to, thread)
 * The argument of cfiber_resumed takes the place of the other context's `from`. */
BEGIN cfiber_switch_resume
  movl 4(%esp), %ecx
  movl 8(%esp), %edx
  movl 12(%esp), %eax
  SAVE_CONTEXT
  LOAD_CONTEXT
  movl %eax, 4(%esp)
  jmp cfiber_resumed
  .cfi_endproc
END(cfiber_switch_resume)

/* cfiber_switch_begin(from, lo, hi, thread) */
BEGIN cfiber_switch_begin
  movl 4(%esp), %ecx
  movl 12(%esp), %edx
  movl 16(%esp), %eax
  SAVE_CONTEXT
  leal -16(%edx), %esp
  jmp cfiber_begin
  .cfi_endproc
END(cfiber_switch_begin)

/* As cfiber_entry, for the function that is known. */
BEGIN cfiber_begin
  .cfi_undefined %eip
  xorl %ebp, %ebp
  movl %eax, (%esp)
  call cfiber_first
  ud2
  .cfi_endproc
END(cfiber_begin)

/*
 * Where a fresh context begins: ebx holds the function, eax the thread, and the stack
 * is aligned to 16. Unlike on the other architectures the function is called: to put a
 * return address in place by hand, position-independent code would need a call as
 * well. The return address here is declared undefined: backtraces end.
 */
BEGIN cfiber_entry
  .cfi_undefined %eip
  xorl %ebp, %ebp
  movl %eax, (%esp)
  call *%ebx
  ud2
  .cfi_endproc
END(cfiber_entry)

/*
 * cfiber_call_on(sp, fn, arg)
 * ebp holds the way back and tells the unwinder of it.
 */
BEGIN cfiber_call_on
  PUSH %ebp
  movl %esp, %ebp
  .cfi_def_cfa_register %ebp
  movl 8(%ebp), %eax
  movl 16(%ebp), %edx
  andl $-16, %eax
  leal -16(%eax), %esp
  movl %edx, (%esp)
  call *12(%ebp)
  movl %ebp, %esp
  .cfi_def_cfa_register %esp
  POP %ebp
  ret
  .cfi_endproc
END(cfiber_call_on)

#endif /* CFIBER_SWITCH_386 */

#ifdef __ELF__
  .section .note.GNU-stack, "", %progbits
#endif
