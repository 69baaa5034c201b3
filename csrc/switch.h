/*
 * switch.h - the context switch: one contract, fulfilled once per architecture.
 *
 * A context that is not running is its stack pointer; its registers lie on its
 * stack. Building with -DCFIBER_UCONTEXT selects swapcontext everywhere.
 */
#ifndef CFIBER_SWITCH_H
#define CFIBER_SWITCH_H

#if defined(CFIBER_UCONTEXT)
#define CFIBER_SWITCH_UCONTEXT 1
#elif defined(__x86_64__) && !defined(_WIN32)
#define CFIBER_SWITCH_AMD64 1
#define CFIBER_SWITCH_DIRECT 1
#elif defined(__aarch64__) && !defined(_WIN32)
#define CFIBER_SWITCH_ARM64 1
#define CFIBER_SWITCH_DIRECT 1
#elif defined(__riscv) && __riscv_xlen == 64 && !defined(__riscv_32e) && !defined(__riscv_64e) &&  \
    (defined(__riscv_float_abi_double) || defined(__riscv_float_abi_soft))
#define CFIBER_SWITCH_RISCV64 1
#define CFIBER_SWITCH_DIRECT 1
#elif defined(__arm__) && defined(__ARM_EABI__) && defined(__ELF__) && __ARM_ARCH >= 5
#define CFIBER_SWITCH_ARM 1
#define CFIBER_SWITCH_DIRECT 1
#elif defined(__i386__) && defined(__ELF__)
#define CFIBER_SWITCH_386 1
#define CFIBER_SWITCH_DIRECT 1
#elif defined(__powerpc64__) && defined(_CALL_ELF) && _CALL_ELF == 2 && !defined(_SOFT_FLOAT)
#define CFIBER_SWITCH_PPC64 1
#define CFIBER_SWITCH_DIRECT 1
#elif defined(__s390x__) && defined(__ELF__)
#define CFIBER_SWITCH_S390X 1
#define CFIBER_SWITCH_DIRECT 1
#elif defined(__loongarch_lp64) && defined(__loongarch_double_float)
#define CFIBER_SWITCH_LOONG64 1
#define CFIBER_SWITCH_DIRECT 1
#else
#define CFIBER_SWITCH_UCONTEXT 1
#endif

/* Whose FP control word it is; see cfiber_fp_get. */
#if (defined(__x86_64__) && !defined(_WIN32)) || (defined(__i386__) && defined(__ELF__))
#define CFIBER_FP_X86 1
#elif defined(__aarch64__) && !defined(_WIN32)
#define CFIBER_FP_ARM64 1
#elif defined(__riscv) && __riscv_xlen == 64 && defined(__riscv_flen)
#define CFIBER_FP_RISCV64 1
#elif defined(__arm__) && defined(__ARM_FP)
#define CFIBER_FP_ARM 1
#elif defined(__powerpc64__) && !defined(_SOFT_FLOAT)
#define CFIBER_FP_PPC64 1
#elif defined(__s390x__)
#define CFIBER_FP_S390X 1
#elif defined(__loongarch_lp64) && defined(__loongarch_double_float)
#define CFIBER_FP_LOONG64 1
#else
#define CFIBER_FP_ROUNDING 1
#endif

#ifndef __ASSEMBLER__

#include <stddef.h>
#include <stdint.h>

struct cfiber_thread;

/*
 * Saves the caller's context, stores its stack pointer in *from, and resumes
 * the context `to`. Returns when somebody resumes the caller's context, with
 * the `thread` that they passed: the thread on which the caller now runs.
 */
struct cfiber_thread *cfiber_switch(void **from, void *to, struct cfiber_thread *thread);

/*
 * Makes a context on an unused stack [lo, hi), which when first resumed calls
 * entry(thread) with an aligned stack. entry must not return.
 * Returns its stack pointer.
 */
void *cfiber_switch_init(char *lo, char *hi, void (*entry)(struct cfiber_thread *));

/*
 * The scheduler's switches. They go on, on the other side, in
 * cfiber_resumed(thread), as if that had been called instead of them: all its
 * contexts continue at one address, which is known beforehand, where an indirect
 * jump or a return would have to be predicted.
 *
 * cfiber_switch_resume goes to a context that has been left by one of these.
 * cfiber_switch_begin goes to an unused stack [lo, hi), aligned, and calls
 * cfiber_first(thread) there, which must not return.
 */
struct cfiber_thread *cfiber_resumed(struct cfiber_thread *thread); /* sched.c */
void cfiber_first(struct cfiber_thread *thread);                    /* fiber.c */

#ifdef CFIBER_SWITCH_DIRECT
struct cfiber_thread *cfiber_switch_resume(void **from, void *to, struct cfiber_thread *thread);
struct cfiber_thread *cfiber_switch_begin(void **from, char *lo, char *hi,
                                          struct cfiber_thread *thread);
#else
static inline struct cfiber_thread *cfiber_switch_resume(void **from, void *to,
                                                         struct cfiber_thread *thread) {
  return cfiber_resumed(cfiber_switch(from, to, thread));
}

static inline struct cfiber_thread *cfiber_switch_begin(void **from, char *lo, char *hi,
                                                        struct cfiber_thread *thread) {
  return cfiber_switch_resume(from, cfiber_switch_init(lo, hi, cfiber_first), thread);
}
#endif

/*
 * Calls fn(arg) on the stack of `sp`, a suspended context that is not fresh,
 * below its frames, and returns what fn returns.
 */
intptr_t cfiber_call_on(void *sp, intptr_t (*fn)(void *), void *arg);

/*
 * The calling thread's FP control word: MXCSR | x87 << 16 (amd64, 386), the control
 * bits of the register for it (arm64, arm, ppc64, s390x, loong64), elsewhere the
 * rounding mode. No switch changes it by itself.
 */
uint32_t cfiber_fp_get(void);
void cfiber_fp_set(uint32_t control);

#endif
#endif /* CFIBER_SWITCH_H */
