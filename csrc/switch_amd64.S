/*
 * switch_amd64.S - the context switch for x86-64, System V ABI (ELF and Mach-O).
 *
 * What a callee saves in this ABI: rbx, rbp, r12-r15, rsp, and the control
 * bits of MXCSR and of the x87 control word. The control words are left alone
 * here: saving them doubles the cost, and a fiber that wants its own says so
 * (CFIBER_KEEP_FP; see cfiber_switch_away). All other registers belong to the
 * caller, who has saved what it needs, since it made a call.
 *
 * A suspended context is one pointer, into its own stack:
 *
 *      higher addresses
 *      |  caller's frame      |
 *      |  return address      |  pushed by the call of cfiber_switch
 *      |  rbp                 |
 *      |  rbx                 |
 *      |  r12                 |
 *      |  r13                 |
 *      |  r14                 |
 *      |  r15                 |  <- saved stack pointer
 *      lower addresses
 *
 * A fresh one, made by cfiber_switch_init, has the same shape: the return
 * address is cfiber_entry, rbx is the function to call, rbp is zero, so that
 * frame-pointer walkers stop.
 *
 * How to go on at the other context's return address? The return predictor
 * holds the addresses that were called from, in the context that is left; so
 * cfiber_switch jumps: ret would be mispredicted wherever the two contexts switch
 * at different places, while the indirect predictor learns two that alternate.
 * (Measured, one way: 3.6 ns; with ret 10.)
 *
 * The scheduler's switches jump to a fixed address and leave the return to the C
 * function there. Two fibers that wait at one place of the code return to one
 * address, and the predictor is right. One that begins is jumped to, without a
 * call, so that the predictor stays in step for the returns of all others.
 *
 * The jump lands behind a call, where no ENDBR64 stands, hence notrack. Shadow
 * stacks are a matter of the linker: this object does not claim to support them,
 * so no process that contains it has them, see the note at the end.
 */
#include "switch.h"

#ifdef CFIBER_SWITCH_AMD64

#ifdef __APPLE__
#define SYMBOL(name) _##name
#define FUNCTION(name) .globl SYMBOL(name); .p2align 4; SYMBOL(name):
#define END(name)
#else
#define SYMBOL(name) name
#define FUNCTION(name) \
  .globl SYMBOL(name); .type SYMBOL(name), @function; .p2align 4; SYMBOL(name):
#define END(name) .size SYMBOL(name), . - SYMBOL(name)
#endif

  .text

#ifdef __ELF__
  .hidden cfiber_resumed
  .hidden cfiber_first
#endif

/* Begins a function that leaves its caller's context, with *from in rdi. */
  .macro SAVE_CONTEXT
  .cfi_startproc
  endbr64
  pushq %rbp
  .cfi_adjust_cfa_offset 8
  .cfi_rel_offset %rbp, 0
  pushq %rbx
  .cfi_adjust_cfa_offset 8
  .cfi_rel_offset %rbx, 0
  pushq %r12
  .cfi_adjust_cfa_offset 8
  .cfi_rel_offset %r12, 0
  pushq %r13
  .cfi_adjust_cfa_offset 8
  .cfi_rel_offset %r13, 0
  pushq %r14
  .cfi_adjust_cfa_offset 8
  .cfi_rel_offset %r14, 0
  pushq %r15
  .cfi_adjust_cfa_offset 8
  .cfi_rel_offset %r15, 0
  movq %rsp, (%rdi)
  .endm

/* To the context in rsi. Its stack has the same layout, so the unwind information
 * stays true across the first instruction. */
  .macro LOAD_CONTEXT
  movq %rsi, %rsp
  popq %r15
  .cfi_adjust_cfa_offset -8
  .cfi_same_value %r15
  popq %r14
  .cfi_adjust_cfa_offset -8
  .cfi_same_value %r14
  popq %r13
  .cfi_adjust_cfa_offset -8
  .cfi_same_value %r13
  popq %r12
  .cfi_adjust_cfa_offset -8
  .cfi_same_value %r12
  popq %rbx
  .cfi_adjust_cfa_offset -8
  .cfi_same_value %rbx
  popq %rbp
  .cfi_adjust_cfa_offset -8
  .cfi_same_value %rbp
  .endm

/* cfiber_switch(from: rdi, to: rsi, thread: rdx) */
FUNCTION(cfiber_switch)
  SAVE_CONTEXT
  movq %rdx, %rax
  LOAD_CONTEXT
  popq %rcx
  .cfi_adjust_cfa_offset -8
  .cfi_register %rip, %rcx
  notrack jmpq *%rcx
  .cfi_endproc
END(cfiber_switch)

/* cfiber_switch_resume(from: rdi, to: rsi, thread: rdx) */
FUNCTION(cfiber_switch_resume)
  SAVE_CONTEXT
  movq %rdx, %rdi
  LOAD_CONTEXT
  jmp SYMBOL(cfiber_resumed)
  .cfi_endproc
END(cfiber_switch_resume)

/* cfiber_switch_begin(from: rdi, lo: rsi, hi: rdx, thread: rcx) */
FUNCTION(cfiber_switch_begin)
  SAVE_CONTEXT
  movq %rcx, %rax
  leaq -16(%rdx), %rsp
  leaq SYMBOL(cfiber_first)(%rip), %rbx
  jmp SYMBOL(cfiber_entry)
  .cfi_endproc
END(cfiber_switch_begin)

/*
 * Where a fresh context begins: rbx holds the function, rax the thread, and the
 * stack is aligned to 16. The function is jumped to, with a return address put in
 * place by hand: a call would push an entry on the return predictor that nothing
 * ever pops, and put all later returns out of step. For the unwinder the function
 * has been called from here, and here the return address is declared undefined:
 * backtraces end.
 */
FUNCTION(cfiber_entry)
  .cfi_startproc
  .cfi_undefined %rip
  endbr64
  xorl %ebp, %ebp
  movq %rax, %rdi
  movq $0, (%rsp) /* where a walker of frame pointers would read a return address */
  leaq 0f(%rip), %rax
  pushq %rax
  .cfi_adjust_cfa_offset 8
  jmpq *%rbx
0:
  ud2
  .cfi_endproc
END(cfiber_entry)

/*
 * cfiber_call_on(sp: rdi, fn: rsi, arg: rdx)
 * rbp holds the way back, and tells the unwinder of it: a backtrace taken in
 * fn leads over to the stack of the caller.
 */
FUNCTION(cfiber_call_on)
  .cfi_startproc
  endbr64
  pushq %rbp
  .cfi_def_cfa_offset 16
  .cfi_offset %rbp, -16
  movq %rsp, %rbp
  .cfi_def_cfa_register %rbp
  andq $-16, %rdi
  movq %rdi, %rsp
  movq %rdx, %rdi
  callq *%rsi
  movq %rbp, %rsp
  popq %rbp
  .cfi_def_cfa %rsp, 8
  retq
  .cfi_endproc
END(cfiber_call_on)

#ifdef __ELF__
  /* This object has its ENDBR64 landing pads (feature bit 0, IBT) and does not
   * switch shadow stacks (bit 1 is absent). The linker takes the intersection. */
  .section .note.gnu.property, "a"
  .p2align 3
  .long 4, 16, 5
  .asciz "GNU"
  .long 0xc0000002, 4, 1, 0
#endif

#endif /* CFIBER_SWITCH_AMD64 */

#ifdef __ELF__
  .section .note.GNU-stack, "", %progbits
#endif
