/*
 * thread.c - what a thread of the runtime is: its identity, and its life.
 */
#include "core.h"
#include "fault.h"
#include "poller.h"
#include "sanitizer.h"
#include "switch.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <time.h>
#ifdef __linux__
#include <sys/syscall.h>
#include <unistd.h>
#endif
#if defined(__APPLE__)
#include <mach/mach.h>
#endif
#if defined(__FreeBSD__) || defined(__DragonFly__)
#include <pthread_np.h>
#endif

/*
 * The one thread-local variable. Initial-exec: one load, also from a shared
 * library (eight bytes of the static TLS reserve).
 */
_Thread_local struct cfiber_thread *cfiber_this_thread THREAD_LOCAL_ATTRIBUTES;

#ifndef THREAD_SELF_INLINE
OPAQUE struct cfiber_thread *cfiber_thread_self(void) {
  struct cfiber_thread *t = cfiber_this_thread;
  __asm__ volatile("" : "+r"(t)::"memory");
  return t;
}
#endif

OPAQUE int cfiber_fail(int e) {
  errno = e;
  __asm__ volatile("" ::: "memory");
  return -1;
}

OPAQUE int cfiber_errno(void) {
  int e = errno;
  __asm__ volatile("" : "+r"(e)::"memory");
  return e;
}

OPAQUE int *cfiber_errno_address(void) {
  int *p = &errno;
  __asm__ volatile("" : "+r"(p)::"memory");
  return p;
}

void cfiber_lock_slow(_Atomic(uint32_t) *lock) {
  unsigned spins = 0;
  do {
    while (atomic_load_explicit(lock, memory_order_relaxed)) {
      /* The holder may be descheduled; let it run. */
      if (++spins < 64)
        cfiber_relax();
      else
        sched_yield();
    }
  } while (atomic_exchange_explicit(lock, 1, memory_order_acquire));
}

/*
 * A forked child has this thread alone, and pollers that it shares with its
 * parent. It must not use them: there, a fiber is a plain thread of control,
 * its calls block, and cfiber_spawn fails with EPERM.
 */
static void in_forked_child(void) {
  cfiber_this_thread = NULL;
  cfiber_fds_forget();
}

static void register_fork_handler(void) {
  TRY(HANDLER, cfiber_errno(), pthread_atfork(NULL, NULL, in_forked_child));
}

void cfiber_thread_init(struct cfiber_runtime *rt, uint32_t index) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, register_fork_handler);

  struct cfiber_thread *t = &rt->threads[index];
  t->index = index;
  t->runtime = rt;
  t->poller.fd = t->poller.wake_fd = t->poller.wake_read_fd = -1;
  t->tick = t->tick_span = 1;
  t->steal_index = index + 1;
  atomic_store(&t->ready_queue, READY_BUSY);
  atomic_store(&t->timers.earliest, INT64_MAX);
}

#ifdef __ELF__
/* Of the C++ runtime, where the program has one. */
extern struct exception_state *__cxa_get_globals(void) __attribute__((weak));
#endif

/* The same, of a C++ runtime that was loaded later than this code. */
static _Atomic(cfiber_exceptions_func *) late_globals;

void cfiber_thread_exceptions(cfiber_exceptions_func *globals) {
  atomic_store_explicit(&late_globals, globals, memory_order_relaxed);
}

static struct exception_state *exceptions(void) {
#ifdef __ELF__
  if (__cxa_get_globals)
    return __cxa_get_globals();
#endif
  cfiber_exceptions_func *globals = atomic_load_explicit(&late_globals, memory_order_relaxed);
  return globals ? globals() : NULL;
}

static void find_native_stack(struct cfiber_thread *t) {
#if defined(__linux__) || defined(__FreeBSD__) || defined(__NetBSD__) || defined(__DragonFly__)
  pthread_attr_t attr;
#if defined(__linux__)
  if (TRY(STACK_BOUNDS, cfiber_errno(), pthread_getattr_np(pthread_self(), &attr)))
    return;
#else
  if (TRY(STACK_BOUNDS, cfiber_errno(), pthread_attr_init(&attr)) ||
      TRY(STACK_BOUNDS, cfiber_errno(), pthread_attr_get_np(pthread_self(), &attr)))
    return;
#endif
  pthread_attr_getstack(&attr, &t->native_lo, &t->native_size);
  pthread_attr_destroy(&attr);
#elif defined(__APPLE__)
  t->native_size = pthread_get_stacksize_np(pthread_self());
  t->native_lo = (char *)pthread_get_stackaddr_np(pthread_self()) - t->native_size;
#else
  (void)t;
#endif
}

int cfiber_thread_run(struct cfiber_thread *t) {
  if (cfiber_this_thread)
    return EDEADLK; /* a runtime inside a fiber of another */
  cfiber_this_thread = t;
  t->errno_address = &errno;
  t->exceptions = exceptions();
  t->os_thread = (uint64_t)(uintptr_t)pthread_self();
#ifdef __linux__
  t->os_thread_id = (uint32_t)syscall(SYS_gettid);
#endif
  t->fp_control = t->fp_shared = cfiber_fp_get();
  t->now = t->last_poll = cfiber_now();
  find_native_stack(t);
  sanitizer_thread_start(t);
  CHAOS_THREAD(t->index);

  struct cfiber *f;
  while ((f = cfiber_find_ready_fiber(t)) != NULL)
    cfiber_switch_away(t, NULL, f, POST_NONE);

  cfiber_stacks_flush(t);
  cfiber_this_thread = NULL;
  return 0;
}

int64_t cfiber_thread_cpu_time(struct cfiber_thread *t) {
#if defined(__APPLE__)
  thread_basic_info_data_t info;
  mach_msg_type_number_t n = THREAD_BASIC_INFO_COUNT;
  mach_port_t port = pthread_mach_thread_np((pthread_t)(uintptr_t)t->os_thread);
  if (thread_info(port, THREAD_BASIC_INFO, (thread_info_t)&info, &n) != KERN_SUCCESS)
    return -1;
  return (info.user_time.seconds + (int64_t)info.system_time.seconds) * NS_PER_S +
         (info.user_time.microseconds + (int64_t)info.system_time.microseconds) * NS_PER_US;
#else
  clockid_t clock;
  struct timespec ts;
  if (TRY(CPU_TIME, cfiber_errno(),
          pthread_getcpuclockid((pthread_t)(uintptr_t)t->os_thread, &clock)) ||
      TRY(CPU_TIME, -1, clock_gettime(clock, &ts)))
    return -1;
  return ts.tv_sec * NS_PER_S + ts.tv_nsec;
#endif
}
