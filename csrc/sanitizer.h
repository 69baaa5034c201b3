/*
 * sanitizer.h - tells AddressSanitizer, ThreadSanitizer and Valgrind which
 * stack is in use. Without them every function here is empty.
 *
 * ASan keeps a shadow of the current stack and, on request, fake frames; both
 * must change hands with the stack. TSan models each fiber as a thread of its
 * own, and a switch as an ordering between the two. Valgrind only wants to
 * know where stacks lie.
 */
#ifndef CFIBER_SANITIZER_H
#define CFIBER_SANITIZER_H

#include "core.h"

/* For a function that is called in one context and returns in another. See sanitizer_before. */
#if defined(__has_attribute)
#if __has_attribute(disable_sanitizer_instrumentation)
#define SANITIZER_UNCOUNTED __attribute__((disable_sanitizer_instrumentation))
#endif
#endif
#if !defined(SANITIZER_UNCOUNTED) && defined(__SANITIZE_THREAD__)
#define SANITIZER_UNCOUNTED __attribute__((no_sanitize("thread")))
#endif
#ifndef SANITIZER_UNCOUNTED
#define SANITIZER_UNCOUNTED
#endif

/* A call of a function that switches, as the last one of a function: TSan counts the return of a
 * caller before a tail call, and would count it for the wrong fiber. */
#ifdef CFIBER_SANITIZE
#define SANITIZER_NO_TAIL(call)                                                                    \
  __extension__({                                                                                  \
    __auto_type returned = call;                                                                   \
    __asm__ volatile("" ::: "memory");                                                             \
    returned;                                                                                      \
  })
#else
#define SANITIZER_NO_TAIL(call) call
#endif

#ifdef CFIBER_SANITIZE

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SANITIZER_ADDRESS 1
#endif
#if __has_feature(thread_sanitizer)
#define SANITIZER_THREAD 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#define SANITIZER_ADDRESS 1
#endif
#if defined(__SANITIZE_THREAD__)
#define SANITIZER_THREAD 1
#endif

#ifdef SANITIZER_ADDRESS
#include <sanitizer/common_interface_defs.h>
#endif
#ifdef SANITIZER_THREAD
#include <sanitizer/tsan_interface.h>
#endif
#ifdef CFIBER_VALGRIND
#include <valgrind/valgrind.h>
#endif

static inline void sanitizer_thread_start(struct cfiber_thread *t) {
#ifdef SANITIZER_THREAD
  t->tsan_fiber = __tsan_get_current_fiber();
#endif
  (void)t;
}

/* A fiber gets its stack. */
static inline void sanitizer_fiber_start(struct cfiber *f) {
  f->asan_fake_stack = NULL;
#ifdef SANITIZER_THREAD
  f->tsan_fiber = __tsan_create_fiber(0);
#endif
#ifdef CFIBER_VALGRIND
  f->valgrind_id = VALGRIND_STACK_REGISTER(f->stack->lo, f->stack->hi);
#endif
}

/* A fiber has ended and its stack has been left. */
static inline void sanitizer_fiber_end(struct cfiber *f) {
#ifdef SANITIZER_THREAD
  __tsan_destroy_fiber(f->tsan_fiber);
#endif
#ifdef CFIBER_VALGRIND
  VALGRIND_STACK_DEREGISTER(f->valgrind_id);
#endif
  (void)f;
}

/*
 * Before a switch from `from` to `to`; NULL is the thread's own context. TSan
 * counts calls and returns per fiber, so this must not be a call of its own,
 * which would begin on the one and end on the other.
 */
__attribute__((always_inline)) static inline void
sanitizer_before(struct cfiber_thread *t, struct cfiber *from, struct cfiber *to, bool last) {
#ifdef SANITIZER_ADDRESS
  void **save = from ? &from->asan_fake_stack : &t->asan_fake_stack;
  const void *lo = to ? to->stack->lo : t->native_lo;
  size_t size = to ? (size_t)(to->stack->hi - to->stack->lo) : t->native_size;
  __sanitizer_start_switch_fiber(last ? NULL : save, lo, size);
#endif
#ifdef SANITIZER_THREAD
  __tsan_switch_to_fiber(to ? to->tsan_fiber : t->tsan_fiber, 0);
#endif
  (void)t, (void)from, (void)to, (void)last;
}

/* After a switch, on the side of `f` (NULL: the thread's own context). */
static inline void sanitizer_after(struct cfiber_thread *t, struct cfiber *f) {
#ifdef SANITIZER_ADDRESS
  __sanitizer_finish_switch_fiber(f ? f->asan_fake_stack : t->asan_fake_stack, NULL, NULL);
#endif
  (void)t, (void)f;
}

#else

static inline void sanitizer_thread_start(struct cfiber_thread *t) {
  (void)t;
}
static inline void sanitizer_fiber_start(struct cfiber *f) {
  (void)f;
}
static inline void sanitizer_fiber_end(struct cfiber *f) {
  (void)f;
}
static inline void sanitizer_before(struct cfiber_thread *t, struct cfiber *from, struct cfiber *to,
                                    bool last) {
  (void)t, (void)from, (void)to, (void)last;
}
static inline void sanitizer_after(struct cfiber_thread *t, struct cfiber *f) {
  (void)t, (void)f;
}

#endif
#endif /* CFIBER_SANITIZER_H */
