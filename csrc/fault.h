/*
 * fault.h - a named site at every system call and allocation of the core.
 *
 * Tests arm a site, and the calls that pass it fail (cfiber_fault_set). This is always
 * compiled in: one predicted branch before something that costs a microsecond. With
 * CFIBER_CHAOS any site may fail by chance, see chaos.h.
 *
 * scripts/sites.sh, a part of lint, sees to it that no call goes without a site.
 */
#ifndef CFIBER_FAULT_H
#define CFIBER_FAULT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/*
 * The sites: name, an error that nobody is told of, because the core tries again or can
 * do without, and one that is told to whoever wanted the call. 0: there is none. A new
 * one goes to the end, since the host's tests know the first ones by number.
 */
#define FAULT_SITE_LIST(SITE)                                                                      \
  SITE(MMAP, 0, ENOMEM)                                                                            \
  SITE(GUARD, 0, ENOMEM)                                                                           \
  SITE(MALLOC, 0, ENOMEM)                                                                          \
  SITE(POLLER_ADD, 0, ENOMEM)                                                                      \
  SITE(POLLER_WAIT, EINTR, 0)                                                                      \
  SITE(READ, EINTR, EIO)                                                                           \
  SITE(WRITE, EINTR, EIO)                                                                          \
  SITE(ACCEPT, EINTR, EMFILE)                                                                      \
  SITE(CONNECT, 0, ECONNREFUSED)                                                                   \
  SITE(POLL, EINTR, ENOMEM)                                                                        \
  SITE(POLLER_OPEN, 0, EMFILE)                                                                     \
  SITE(POLLER_CHANGE, EINTR, ENOMEM)                                                               \
  SITE(POLLER_WAKE, EINTR, 0)                                                                      \
  SITE(NOTIFY, EINTR, 0)  /* telling the host */                                                   \
  SITE(AWAIT, EINTR, 0)   /* the host's wait for that */                                           \
  SITE(PIPE, 0, EMFILE)   /* through which it is told */                                           \
  SITE(INHERIT, EBADF, 0) /* that a descriptor is not to be */                                     \
  SITE(THREAD, 0, EAGAIN) /* starting one */                                                       \
  SITE(ALT_STACK, ENOMEM, 0)                                                                       \
  SITE(ADVISE, ENOMEM, 0) /* of memory that is to be given back, or not to be huge */              \
  SITE(RESIDENT, EAGAIN, 0)                                                                        \
  SITE(FILE_KIND, ENOMEM, 0)                                                                       \
  SITE(FILE_MODE, 0, EBADF)                                                                        \
  SITE(MODE_BACK, 0, 0) /* a mode changed for a moment: it would stay so */                        \
  SITE(PROTOCOL, ENOBUFS, 0)                                                                       \
  SITE(SOCKET_TYPE, 0, ENOBUFS) /* a call that wants all may then return a part */                 \
  SITE(SOCKET_ERROR, 0, ENOBUFS)                                                                   \
  SITE(CLOSE, EINTR, EIO) /* done all the same */                                                  \
  SITE(SLEEP, EINTR, 0)   /* of a thread */                                                        \
  SITE(STACK_BOUNDS, ENOMEM, 0)                                                                    \
  SITE(PROCESSORS, EINVAL, 0) /* how many there are */                                             \
  SITE(CPU_TIME, ESRCH, 0)                                                                         \
  SITE(HANDLER, 0, 0)  /* of signals and forks: asked for once in a process */                     \
  SITE(REPORT, 0, EIO) /* of an overflow */                                                        \
  SITE(SYMBOL, 0, EMFILE)                                                                          \
  SITE(GUARD_PROBE, EINVAL, 0)

enum fault_site {
#define FAULT_SITE_NAME(name, hidden, told) FAULT_##name,
  FAULT_SITE_LIST(FAULT_SITE_NAME)
#undef FAULT_SITE_NAME
      FAULT_SITES
};

extern _Atomic(bool) cfiber_faults_armed[FAULT_SITES];

/* Slow path of cfiber_fault: whether the call is to fail, with errno set. */
bool cfiber_fault_take(enum fault_site site);

/*
 * Lets the calls number first, first+1, ... first+count-1 (from 1, counted
 * from now) at the site fail with `error`. count 0 disarms the site.
 */
void cfiber_fault_set(enum fault_site site, int error, uint32_t first, uint32_t count);

/* How often an armed site has been passed since cfiber_fault_set. */
uint32_t cfiber_fault_calls(enum fault_site site);

#ifdef CFIBER_CHAOS
bool cfiber_chaos_fault(enum fault_site site); /* chaos.c */
#endif

static inline bool cfiber_fault(enum fault_site site) {
#ifdef CFIBER_CHAOS
  if (cfiber_chaos_fault(site))
    return true;
#endif
  bool armed = atomic_load_explicit(&cfiber_faults_armed[site], memory_order_relaxed);
  return __builtin_expect(armed, 0) && cfiber_fault_take(site);
}

/* `call`, a system call or an allocation; or, where the site is to fail, `failure`, with errno set.
 */
#define TRY(site, failure, call)                                                                   \
  __extension__({                                                                                  \
    __typeof__(call) result_of_try;                                                                \
    if (cfiber_fault(FAULT_##site))                                                                \
      result_of_try = (failure);                                                                   \
    else                                                                                           \
      result_of_try = (call);                                                                      \
    result_of_try;                                                                                 \
  })

/* The same for a call that has done its work even where it fails, as close has. */
#define TRY_DONE(site, failure, call)                                                              \
  __extension__({                                                                                  \
    __typeof__(call) result_of_try = (call);                                                       \
    if (result_of_try != (failure) && cfiber_fault(FAULT_##site))                                  \
      result_of_try = (failure);                                                                   \
    result_of_try;                                                                                 \
  })

#endif /* CFIBER_FAULT_H */
