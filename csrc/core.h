/*
 * core.h - the structures of the core and what its files offer each other.
 *
 * Three structures, largest first: a runtime has threads, a thread runs
 * fibers. The first part of each is shared with Go, which reads and writes the
 * same bytes through sync/atomic; layout.c lists what must agree, and a test
 * compares both sides. No Go pointer is ever stored here.
 *
 * Conventions inside the core: a function that can fail returns 0 or an errno
 * value and leaves errno alone. Only the outermost public function sets errno,
 * through cfiber_fail. The address of errno, like every thread-local address,
 * must not be kept over a switch, and compilers do keep it.
 */
#ifndef CFIBER_CORE_H
#define CFIBER_CORE_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1
#endif

#include "chaos.h"
#include "include/cfiber.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

/* Any of the tools that must be told of stacks; see sanitizer.h. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || defined(CFIBER_VALGRIND)
#define CFIBER_SANITIZE 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define CFIBER_SANITIZE 1
#endif
#endif

#define CACHE_LINE 64
#define CACHE_ALIGNED __attribute__((aligned(CACHE_LINE)))
#define LIKELY(x) __builtin_expect(!!(x), 1)
#define UNLIKELY(x) __builtin_expect(!!(x), 0)

/* noipa also stops the interprocedural passes of a link-time optimiser. */
#if defined(__has_attribute)
#if __has_attribute(noipa)
#define OPAQUE __attribute__((noinline, noipa))
#endif
#endif
#ifndef OPAQUE
#define OPAQUE __attribute__((noinline))
#endif

#define NS_PER_US INT64_C(1000)
#define NS_PER_MS INT64_C(1000000)
#define NS_PER_S INT64_C(1000000000)

struct cfiber_runtime;
struct cfiber_thread;
struct stack;

/* ---- Fiber ------------------------------------------------------------- */

/*
 * The wait word: the one primitive under everything that waits. It identifies
 * a wait by the fiber and the word's epoch, so that of all those who may end
 * the wait (event, timer, cancel, close) one compare-and-swap picks the first
 * and tells the others that they are late. See docs/design.md, "Park and wake".
 *
 *   bits 0-1   state
 *   bit  2     WAIT_CANCEL    cancel has been requested; never cleared
 *   bit  3     WAIT_SHIELDED  this wait is not ended by cancel
 *   bits 4-6   why the last wait ended (enum wake_reason)
 *   bit  7     WAIT_LIVE      spawned and not ended
 *   bit  8     WAIT_MIGRATABLE  the fiber is; stands here for those who end the wait: once they
 * have, it may run, end, and its record be another's bits 9-63  epoch, one up for each wait
 */
#define WAIT_STATE UINT64_C(0x3)
#define WAIT_RUNNING UINT64_C(0) /* not waiting */
#define WAIT_ARMED UINT64_C(1)   /* a wake may come; the fiber may still be running */
#define WAIT_PARKED UINT64_C(2)  /* migratable fibers: armed, and the registers are saved */
#define WAIT_WOKEN UINT64_C(3)   /* the wait has ended; not waiting */
#define WAIT_CANCEL UINT64_C(0x4)
#define WAIT_SHIELDED UINT64_C(0x8)
#define WAIT_REASON_SHIFT 4
#define WAIT_REASON UINT64_C(0x70)
#define WAIT_LIVE UINT64_C(0x80)
#define WAIT_MIGRATABLE UINT64_C(0x100)
#define WAIT_EPOCH_SHIFT 9

enum wake_reason {
  WAKE_EVENT = 1,   /* what was waited for has happened */
  WAKE_TIMEOUT = 2, /* the timer fired */
  WAKE_CANCEL = 3,  /* cfiber_cancel */
  WAKE_CLOSED = 4,  /* the descriptor has been closed: do not touch it again */
  WAKE_RECHECK = 5, /* look again: the descriptor may have been closed */
};

/* Flags of a fiber, beside the public CFIBER_ ones in the low byte. */
#define FIBER_GO 0x100u      /* spawned by Go: its completion goes to Go */
#define FIBER_STARTED 0x200u /* has run: a fiber that is not migratable stays on its thread */

#define FIBER_EXCEPTIONS 0x400u /* switched away from inside a C++ handler */
#define FIBER_CALLED 0x800u     /* started by the fiber that joins it, see join.c */

/* Values of struct cfiber.queued: of the entry of a fiber that has not started, see join.c. */
#define QUEUE_NONE 0      /* an entry like others, or none */
#define QUEUE_CLAIMABLE 1 /* on a ring, and its joiner may start it all the same */
#define QUEUE_CLAIMED 2   /* that has happened: the entry is void */
#define QUEUE_ENDED 3     /* and the fiber is no longer in use */

/* Values of struct cfiber.joiner that are no fiber. */
#define JOINER_NONE ((uintptr_t)0)
#define JOINER_FINISHED ((uintptr_t)1) /* ended; nobody has come to join it */
#define JOINER_DETACHED ((uintptr_t)2)
#define JOINER_THREAD ((uintptr_t)3)    /* a thread without fiber waits */
#define JOINER_FINISHING ((uintptr_t)4) /* ended; for an instant the handle is still in use */
#define JOINER_JOINED ((uintptr_t)5)    /* ended; the handle is its joiner's to free */
#define JOINER_LAST_VALUE JOINER_JOINED

/*
 * Fibers live in slabs that are only unmapped with the runtime, so a stale
 * pointer to one is always readable, and its epoch tells that it is stale.
 */
struct cfiber {
  _Atomic(uint64_t) wait;       /* shared: the wait word */
  struct cfiber *next;          /* shared: link of the one queue the fiber is on */
  struct cfiber_thread *thread; /* shared: where it first ran; NULL before that */
  uint32_t flags;               /* shared */
  uint32_t index;               /* shared: its place in the runtime's slabs */
  union {
    intptr_t result;       /* shared: once it has ended */
    struct cfiber *caller; /* before that, with FIBER_CALLED */
  };
  int32_t error; /* shared: errno of a fiber that could not start */
  int32_t saved_errno;
  void *sp; /* saved stack pointer while not running */
  struct stack *stack;

  cfiber_func fn;    /* shared */
  void *arg;         /* shared */
  uint64_t id;       /* shared */
  size_t stack_size; /* shared: 0 is the runtime's default */
  int64_t deadline;
  _Atomic(uintptr_t) joiner;
  _Atomic(uint64_t) join_epoch;       /* of its wait in cfiber_join; 0: it does not wait yet */
  struct cfiber_thread *timer_thread; /* in whose heap its last timer was */

  uint32_t timer_slot; /* of the timer set last */
  uint32_t fp_control;
  uint8_t shield;          /* shared */
  _Atomic(uint8_t) queued; /* shared */
  uint16_t spawner;        /* index of the thread that spawned it, with QUEUE_CLAIMABLE */
  uint32_t uncaught_exceptions;
  struct cfiber_runtime *runtime; /* shared */
  void *caught_exceptions;
  char name[CFIBER_NAME_MAX]; /* shared */
#ifdef CFIBER_SANITIZE
  void *asan_fake_stack;
  void *tsan_fiber;
  unsigned valgrind_id;
#endif
} CACHE_ALIGNED;

struct fiber_list {
  struct cfiber *head, *tail;
};

/* ---- Thread ------------------------------------------------------------ */

/*
 * Values of struct cfiber_thread.ready_queue that are no list. A list never
 * contains either: pushes replace them, and take-all puts READY_BUSY back.
 */
#define READY_IDLE ((uintptr_t)0) /* about to wait, or waiting, in the poller */
#define READY_BUSY ((uintptr_t)1) /* awake, nothing handed over */

#define RING_SIZE 256u

/*
 * Values of struct cfiber_runtime.searching: nobody, index + 1 of the thread
 * that was woken to look for work and has not ended its search, or somebody
 * is just choosing one.
 */
#define SEARCHING_NOBODY 0u
#define SEARCHING_CHOOSING UINT32_MAX

/* What a thread's poller needs; see poller.h. */
struct poller {
  int32_t fd;           /* shared: epoll or kqueue */
  int32_t wake_fd;      /* shared: what wakes it: eventfd or a pipe's write end; -1: EVFILT_USER */
  int32_t wake_read_fd; /* shared: the pipe's read end; else -1 */
};

struct timer_entry {
  int64_t when;
  uint32_t slot;
};

struct timer_target {
  struct cfiber *fiber;
  uint64_t epoch;
};

/* See timer.c. */
struct timer_heap {
  _Atomic(uint32_t) lock;
  uint32_t n, cap;
  uint32_t free_slot;           /* of the unused slots; the next one is in its place */
  struct timer_entry *entries;  /* the heap */
  uint32_t *places;             /* by slot: where in the heap */
  struct timer_target *targets; /* by slot: the wait to end */
  _Atomic(int64_t) earliest;    /* of entries[0], INT64_MAX if none */
};

/* The per-thread state of the C++ runtime: __cxa_eh_globals of the Itanium C++ ABI. */
struct exception_state {
  void *caught;
  unsigned uncaught;
};

/* Free fibers or stacks kept by a thread for itself. */
#define FIBER_CACHE 64u
#define STACK_CACHE 64u

struct cfiber_thread {
  /* Handed over by others: fibers that may move, and woken ones at home here. */
  _Atomic(uintptr_t) ready_queue CACHE_ALIGNED; /* shared */

  /* The stealable ring: fibers that may run anywhere. Owner pushes, all pop. */
  _Atomic(uint32_t) ring_head CACHE_ALIGNED; /* shared */
  _Atomic(uint32_t) ring_tail;               /* shared */
  _Atomic(uintptr_t) ring[RING_SIZE] CACHE_ALIGNED;

  /* Written by the owner, sampled by the watchdog and by Stats. */
  _Atomic(uint64_t) switches CACHE_ALIGNED; /* shared */
  _Atomic(uint64_t) spawned;                /* shared */
  _Atomic(uint64_t) finished;               /* shared */
  _Atomic(uint64_t) steals;                 /* shared */
  _Atomic(uint64_t) wakes;                  /* shared: wake-ups sent */
  _Atomic(uint64_t) waits;                  /* shared: times it slept */
  _Atomic(uintptr_t) running;               /* shared: the current fiber, 0 in the scheduler */
  uint32_t index;                           /* shared */
  struct poller poller;                     /* shared */
  uint32_t os_thread_id;                    /* shared: the kernel's number, 0 if it has none */
  uint64_t os_thread;                       /* pthread_t, while it runs */

  /* The owner's alone from here on. */
  struct cfiber *current CACHE_ALIGNED;
  int *errno_address;
  struct exception_state *exceptions; /* NULL in a program without C++ */
  struct fiber_list local;            /* woken and yielded fibers that stay here; FIFO */
  int32_t tick;                       /* picks left until the scheduler looks around */
  uint32_t picks;
  uint32_t straight; /* switches straight to a joiner in a row */
  uint32_t ops;      /* I/O calls in a row that did not park */
  bool told;         /* the host, of a completion, since the scheduler looked around */
  bool tell;         /* it of more, then */
  int32_t native;    /* > 0: the fiber is in a call on the native stack */
  uint32_t post;     /* what is still to do for `left`: enum post_action */
  struct cfiber *left;
  void *native_sp; /* the scheduler's context while a fiber runs */
  struct cfiber_runtime *runtime;

  int64_t now;           /* the clock when last read by the scheduler */
  int64_t last_poll;     /* when the poller was last asked */
  int64_t timer_spacing; /* it sleeps at least so long for a timer */
  int64_t ring_served;   /* when the ring was last looked at */
  int64_t idle_since;    /* when it last had nothing to do */
  int32_t linger;        /* > 0: before it sleeps */
  int32_t linger_penalty;
  int32_t tick_span; /* the tick's last starting value */
  uint32_t steal_index;
  uint32_t fp_control; /* the FP control word that the thread came with, for new fibers */
  uint32_t fp_shared;  /* that of all fibers that have none of their own, while one runs that has */

  uint64_t next_id, last_id; /* a block of ids, see cfiber_id_block */
  struct cfiber *free_fibers;
  uint32_t nfree_fibers;
  uint32_t nfree_stacks;
  uint32_t stack_frees;
  struct stack *free_stacks;

  struct timer_heap timers CACHE_ALIGNED;
  void *native_lo; /* bounds of the native stack, for the sanitizers */
  size_t native_size;
#ifdef CFIBER_SANITIZE
  void *asan_fake_stack;
  void *tsan_fiber;
#endif
} CACHE_ALIGNED;

/* What to do for the fiber that was switched away from, on the other side. */
enum post_action {
  POST_NONE,
  POST_PARK,          /* migratable: its registers are saved, a waker may enqueue it now */
  POST_YIELD,         /* migratable: put it on the stealable ring */
  POST_FINISH,        /* it has ended: free its stack, publish its completion */
  POST_FINISH_JOINED, /* the same, and the current fiber is its joiner, and no longer waits */
};

/* ---- Runtime ----------------------------------------------------------- */

#define MAX_THREADS 1024u
#define MAX_IDLE_SEARCH 4u
#define MAX_STEAL_READY_SEARCH 4u

#define FIBERS_PER_SLAB 1024u
#define STACK_CLASSES 18 /* 0: the default size; else powers of two from 16 KiB on */

struct slab;

struct stack_class {
  size_t size; /* usable bytes, whole pages */
  size_t guard;
  size_t stride;
  struct slab *head, *tail; /* slabs with free stacks, warm ones first */
  uint32_t nfree;           /* free stacks in warm slabs */
  uint32_t next_slab;       /* stacks in the slab to come */
};

struct cfiber_runtime {
  /* Read by every producer of work, written when a thread falls asleep or wakes. */
  _Atomic(uint32_t) idle CACHE_ALIGNED; /* shared: threads in or about to enter the poller */
  _Atomic(uint32_t) searching;          /* shared: who looks for work, see below */
  _Atomic(uint32_t) idle_search_index;  /* shared */

  /* Threads: allocated is fixed, reserved >= active. */
  _Atomic(uint32_t) active CACHE_ALIGNED; /* shared: threads that run */
  _Atomic(uint32_t) reserved;             /* shared: slots given out */
  uint32_t allocated;                     /* shared: slots there are */
  _Atomic(uint32_t) limit;       /* shared: slots `schedule` may use; the watchdog raises it */
  _Atomic(uint32_t) stop;        /* shared: threads return */
  _Atomic(uint32_t) closing;     /* shared: no more fibers */
  _Atomic(uint32_t) draining;    /* shared: tell the host when a thread falls idle */
  struct cfiber_thread *threads; /* shared */

  /* Work from outside: pushed by anybody, taken by threads. */
  _Atomic(uintptr_t) injected CACHE_ALIGNED; /* shared: list, newest first */
  _Atomic(uint32_t) global_size;             /* fibers on the list below */
  _Atomic(uint32_t) global_lock;
  struct fiber_list global; /* FIFO */

  /* To the host (Go, or run.c): something to do, and what. */
  _Atomic(uintptr_t) completions CACHE_ALIGNED; /* shared: ended fibers, newest first */
  _Atomic(uint32_t) notified;                   /* shared: the host knows, or is about to */
  _Atomic(uint32_t) watchdog_asleep;            /* shared: tell the host when a thread wakes */
  _Atomic(uint32_t) want_thread;                /* shared: work for one more thread */
  int32_t notify_fd;                            /* shared: written once per notification */
  uint32_t migrate;                             /* shared: every fiber is migratable */
  size_t stack_size;                            /* shared: default */

  /* Fibers and stacks. */
  _Atomic(uint32_t) memory_lock CACHE_ALIGNED;
  struct cfiber *free_fibers;
  uint32_t nfibers;      /* made so far, in slabs */
  uint32_t max_fibers;   /* may be made */
  uint32_t fiber_batch;  /* a thread takes and keeps so many; 0: it keeps none */
  struct cfiber **slabs; /* shared: FIBERS_PER_SLAB fibers each */
  struct stack_class stacks[STACK_CLASSES];
  struct slab *used_slabs;      /* to be trimmed */
  _Atomic(int64_t) trim_at;     /* when; INT64_MAX if there are none */
  _Atomic(uint32_t) guard_kind; /* shared: enum guard_kind */

  bool lone;       /* there is one thread, and will be no other */
  bool may_linger; /* threads, before they sleep: there is more than one processor */
  struct fd_table *fds;
  struct cfiber_runtime *next_runtime; /* of the open ones, see fd.c */
};

/* ---- thread.c ---------------------------------------------------------- */

/*
 * The calling thread's, or NULL. No compiler may keep its value over a switch, nor
 * the address of the variable. So its load is one of assembly where we know how to
 * write that, and else a function that no compiler looks into.
 */
#if defined(__x86_64__) && defined(__ELF__) && !defined(__ILP32__)
#define THREAD_SELF_INLINE 1
#define THREAD_LOCAL_ATTRIBUTES                                                                    \
  __attribute__((tls_model("initial-exec"), visibility("hidden"), used))
static inline struct cfiber_thread *cfiber_thread_self(void) {
  struct cfiber_thread *t;
  __asm__ volatile("movq cfiber_this_thread@gottpoff(%%rip), %0\n\tmovq %%fs:(%0), %0"
                   : "=r"(t)::"memory");
  return t;
}
#else
#define THREAD_LOCAL_ATTRIBUTES __attribute__((tls_model("initial-exec"), visibility("hidden")))
struct cfiber_thread *cfiber_thread_self(void);
#endif

/* Likewise, but NULL too while the thread is on its native stack. */
static inline struct cfiber_thread *cfiber_thread_on_fiber(void) {
  struct cfiber_thread *t = cfiber_thread_self();
  return t && !t->native && t->current ? t : NULL;
}

/* errno = e; returns -1. Opaque for the same reason. */
int cfiber_fail(int e);
/* errno, likewise. Whoever reads errno in a function that may also switch, or be inlined into one
 * that does, must use this. */
int cfiber_errno(void);

/* Prepares a thread's structure; its poller is the caller's to set. */
void cfiber_thread_init(struct cfiber_runtime *rt, uint32_t index);

/* __cxa_get_globals of the C++ runtime; see cfiber_bridge_exceptions. */
typedef struct exception_state *cfiber_exceptions_func(void);
void cfiber_thread_exceptions(cfiber_exceptions_func *globals);

/* Runs fibers on the calling thread until rt->stop. Returns 0 or an errno. */
int cfiber_thread_run(struct cfiber_thread *t);

/* CPU time the thread has used, in ns; -1 where the system does not tell. */
int64_t cfiber_thread_cpu_time(struct cfiber_thread *t);

/* ---- runtime.c --------------------------------------------------------- */

struct cfiber_config {
  uint32_t allocated;  /* slots for threads */
  uint32_t limit;      /* of those, how many `schedule` may use by itself */
  uint32_t max_fibers; /* 0: 2^24 */
  uint32_t migrate;
  uint64_t stack_size; /* 0: the default */
  int32_t notify_fd;
};

int cfiber_runtime_open(const struct cfiber_config *config, struct cfiber_runtime **out);
/* Frees all, the threads' pollers included. The threads have ended. */
void cfiber_runtime_close(struct cfiber_runtime *rt);

/* A mapping of zeros, or NULL. Only what is touched costs memory. */
void *cfiber_map_zeroed(size_t bytes);

/* Tells the host that there is something for it to do. */
void cfiber_notify(struct cfiber_runtime *rt);

/* Fibers spawned from C and not yet ended. Not less than there are. */
uint64_t cfiber_runtime_live(struct cfiber_runtime *rt);

/* Cancels every fiber there is. rt->closing must be set. */
void cfiber_runtime_cancel(struct cfiber_runtime *rt);

/* ---- fiber.c ----------------------------------------------------------- */

/* The first of n ids that nobody else gets. */
uint64_t cfiber_id_block(uint32_t n);

/* Takes up to n fibers off the runtime's free list; returns how many, 0 with *error set. */
uint32_t cfiber_fiber_alloc(struct cfiber_runtime *rt, uint32_t n, struct cfiber **out, int *error);
void cfiber_fiber_free(struct cfiber_runtime *rt, uint32_t n, struct cfiber **fibers);
struct cfiber *cfiber_fiber_at(struct cfiber_runtime *rt, uint32_t index);

/* As cfiber_spawn, from the host. Its completion goes to rt->completions. */
int cfiber_spawn_outside(struct cfiber_runtime *rt, cfiber_func fn, void *arg);

/* Gives a fiber that is to run first its stack. False: there is none, and the fiber has ended so.
 */
bool cfiber_fiber_prepare(struct cfiber_thread *t, struct cfiber *f);

/* Frees the stack of an ended fiber and publishes its completion. */
void cfiber_fiber_finish(struct cfiber_thread *t, struct cfiber *f);
/* The same where the current fiber is its joiner, and no longer waits. */
void cfiber_fiber_finish_joined(struct cfiber_thread *t, struct cfiber *f);

/* Frees the record of a fiber that nobody uses any more. t may be NULL. */
void cfiber_fiber_release(struct cfiber_thread *t, struct cfiber *f);

/* Does what is left to do for the fiber that the thread has just left. */
void cfiber_post(struct cfiber_thread *t);

/* ---- join.c ------------------------------------------------------------ */

/* f, which is FIBER_CALLED, is about to wait or to yield: makes joiners of its callers. */
void cfiber_settle(struct cfiber_thread *t, struct cfiber *f);
/* f, which is FIBER_CALLED, is about to end. Returns its caller, to switch to, or NULL: settled. */
struct cfiber *cfiber_call_ends(struct cfiber_thread *t, struct cfiber *f);
/* A fiber has ended that a thread waits for. */
void cfiber_wake_joining_threads(void);

/* ---- park.c ------------------------------------------------------------ */

/*
 * Starts a wait of the running fiber. Returns its epoch, or 0 if the fiber is
 * cancelled and not shielded: then no wait was started. What was armed must
 * end in cfiber_disarm that returns true, or in cfiber_park.
 */
uint64_t cfiber_arm(struct cfiber *f);
/* For a fiber that has called another and now waits for it. If it is cancelled, shielded all the
 * same. */
uint64_t cfiber_arm_caller(struct cfiber *f, bool *canceled);
/* Ends the wait without parking. False: a wake was first; park to take it. */
bool cfiber_disarm(struct cfiber *f, uint64_t epoch);
/* Waits for the wake. Returns why it came. The thread may be another after it. */
enum wake_reason cfiber_park(struct cfiber_thread *t, struct cfiber *f);
/* As cfiber_park, ending with WAKE_TIMEOUT at `when` (INT64_MAX: never). *error: ENOMEM. */
enum wake_reason cfiber_park_until(struct cfiber_thread *t, struct cfiber *f, uint64_t epoch,
                                   int64_t when, int *error);
/* Why the last wait of f has ended. */
enum wake_reason cfiber_wake_reason(const struct cfiber *f);
/* Ends the wait (f, epoch), if nobody has. True: this call did, and f will run. */
bool cfiber_wake(struct cfiber_thread *self, struct cfiber *f, uint64_t epoch,
                 enum wake_reason reason);
/* The same without enqueuing f, which must be at home on `self` and not migratable. */
bool cfiber_claim(struct cfiber *f, uint64_t epoch, enum wake_reason reason);
/* ECANCELED or ETIMEDOUT if the running fiber must not wait any more, else 0. */
int cfiber_pending(const struct cfiber *f);

/* ---- sched.c ----------------------------------------------------------- */

/* Makes f ready on the thread `self`, or (NULL) from outside. */
void cfiber_ready(struct cfiber_thread *self, struct cfiber *f);
/* Hands a list of fibers that may run anywhere to somebody. self may be NULL. */
void cfiber_schedule(struct cfiber_runtime *rt, struct cfiber_thread *self, struct fiber_list list);
/* The next fiber to run on t, or NULL: then switch to the scheduler. */
struct cfiber *cfiber_next(struct cfiber_thread *t);
/* The next fiber to run on t; waits for one. NULL: the runtime stops. */
struct cfiber *cfiber_find_ready_fiber(struct cfiber_thread *t);
/* Moves what is on t's ring to where all threads look, on any thread; the caller wakes one. For a
 * host that finds t stuck: threads that have enough to do of their own do not steal. */
void cfiber_shed_ring(struct cfiber_thread *t);
/* Takes those of the host's fibers that were cancelled and have not begun off the global queue, as
 * a list. For a host with no thread left to run them. */
struct cfiber *cfiber_take_canceled(struct cfiber_runtime *rt);
/* Leaves the running fiber f for `next` (NULL: the scheduler). Returns the thread f resumes on. */
struct cfiber_thread *cfiber_switch_away(struct cfiber_thread *t, struct cfiber *f,
                                         struct cfiber *next, enum post_action post);
/* What must happen now and then while there are fibers to run: timers, events, what is handed over.
 */
void cfiber_look_around(struct cfiber_thread *t);
/* After it, if t does not go on with what its queues hold: sees to it that others look at its ring.
 */
void cfiber_offer_ring(struct cfiber_thread *t);
/* From the running fiber f to `callee`, which has been prepared; f is on no queue meanwhile. */
void cfiber_call(struct cfiber_thread *t, struct cfiber *f, struct cfiber *callee);
/* Lets others run, if there are any. Returns the thread the fiber resumes on. */
struct cfiber_thread *cfiber_reschedule(struct cfiber_thread *t);
/* Wakes the thread out of its poller. */
void cfiber_thread_wake(struct cfiber_thread *self, struct cfiber_thread *t);

/* ---- timer.c ----------------------------------------------------------- */

int cfiber_timer_set(struct cfiber_thread *t, struct cfiber *f, uint64_t epoch, int64_t when);
/* Of a wait that has ended some other way. Called by f. */
void cfiber_timer_clear(struct cfiber *f, uint64_t epoch);
/* Wakes those that are due. Returns how many. */
uint32_t cfiber_timers_fire(struct cfiber_thread *t, int64_t now);
/* How long to sleep at least for the next timers, after so many have fired in `elapsed` ns. */
int64_t cfiber_timer_spacing(uint32_t fired, int64_t elapsed);
void cfiber_timers_free(struct cfiber_thread *t);

/* ---- fd.c -------------------------------------------------------------- */

enum direction { DIR_READ = 0, DIR_WRITE = 1 };

/* Opens the runtime's table and lists the runtime among the open ones. NULL: no memory. */
struct fd_table *cfiber_fds_open(struct cfiber_runtime *rt);
void cfiber_fds_close(struct cfiber_runtime *rt);
/* In a forked child: nobody waits there, and threads that are gone may have held locks. */
void cfiber_fds_forget(void);

/* One operation's dealings with one direction of a descriptor; zero to begin with. */
struct fd_attempt {
  uint32_t sequence; /* as it was before the operation was tried */
  bool woken;        /* an edge was taken for it: pass it on when done */
  bool recheck;      /* the registration may be gone: make it again */
  bool drained;      /* nothing is there, and an edge will tell when there is */
  bool begun;        /* `closes` is known */
  bool socket;       /* most likely: fd was one when that was asked */
  uint32_t closes;   /* as it was before the first try */
};

/*
 * Before each try: remembers the number of edges seen. Returns 0, or EBADF if fd has been
 * closed by cfiber_close since the first try: the number may be somebody else's by now.
 */
int cfiber_fd_attempt(struct cfiber_runtime *rt, int fd, enum direction dir, struct fd_attempt *a);
/*
 * After EAGAIN: parks the running fiber until there is another edge. Returns 0:
 * try again, or an errno value (EPERM: this descriptor cannot be waited for).
 */
int cfiber_fd_wait(struct cfiber_thread *t, int fd, enum direction dir, struct fd_attempt *a);
/* After a read that returned less than there was room for. */
void cfiber_fd_drained(struct cfiber_runtime *rt, int fd, const struct fd_attempt *a);
/* When done: if an edge was taken, another waiter may find something left. */
void cfiber_fd_pass(struct cfiber_runtime *rt, int fd, enum direction dir,
                    const struct fd_attempt *a);

/* The same for several descriptors, until `when` at the latest (then ETIMEDOUT). */
struct fd_interest {
  int fd;
  bool wants[2];    /* by direction */
  bool urgent;      /* wants POLLPRI, which is told with DIR_READ */
  bool urgent_only; /* and nothing else, so that without it the wait would never end */
  bool closed;      /* while it was waited for */
  struct fd_attempt attempt[2];
};
int cfiber_fd_wait_any(struct cfiber_thread *t, struct fd_interest *interests, size_t n,
                       int64_t when);

/* The number fd is a new descriptor: what is known of an old one is void. Wakes its waiters. */
void cfiber_fd_renew(struct cfiber_runtime *rt, int fd, enum wake_reason reason);

/*
 * An event of a poller, by direction. READY_FOR_GOOD is the end of the stream, an
 * error or urgent data: it concerns every waiter, and stays. A stale generation is dropped.
 */
enum readiness { NOT_READY, READY, READY_FOR_GOOD };
void cfiber_fd_event(struct cfiber_thread *t, int fd, uint32_t generation, enum readiness readable,
                     enum readiness writable);

/* ---- stack.c ----------------------------------------------------------- */

struct stack {
  char *lo, *hi; /* usable: [lo, hi); the guard lies below lo */
  struct slab *slab;
  struct stack *next;
  uint32_t color; /* bytes left free at the top, so that tops fall into different cache sets */
  _Atomic(struct cfiber *) owner; /* for the overflow report */
};

enum guard_kind { GUARD_NONE, GUARD_INSTALL, GUARD_PROTECT };

int cfiber_stacks_init(struct cfiber_runtime *rt, size_t default_size);
void cfiber_stacks_close(struct cfiber_runtime *rt);
int cfiber_stack_alloc(struct cfiber_thread *t, size_t size, struct stack **out);
void cfiber_stack_free(struct cfiber_thread *t, struct stack *s);
/* ENOMEM now, where cfiber_stack_alloc would surely fail later. */
int cfiber_stack_reserve(struct cfiber_thread *t, size_t size);
void cfiber_stacks_flush(struct cfiber_thread *t);
/* Gives back what deep calls have left in one slab. False: there is none. For a thread with time.
 */
bool cfiber_stacks_trim(struct cfiber_runtime *rt, int64_t now);
/* The stack in whose guard the address lies, or NULL. Async-signal-safe. */
struct stack *cfiber_stack_guarding(uintptr_t address);

/* ---- overflow.c -------------------------------------------------------- */

/* Installs the handler that reports overflows, once per process. */
void cfiber_overflow_init(void);

/* ---- spin lock, for a few instructions each ------------------------------ */

void cfiber_lock_slow(_Atomic(uint32_t) *lock);

static inline void cfiber_lock(_Atomic(uint32_t) *lock) {
  if (UNLIKELY(atomic_exchange_explicit(lock, 1, memory_order_acquire)))
    cfiber_lock_slow(lock);
  CHAOS_DELAY(LOCKED);
}

static inline void cfiber_unlock(_Atomic(uint32_t) *lock) {
  atomic_store_explicit(lock, 0, memory_order_release);
}

/*
 * A sequentially consistent store that is followed by a look at what others store, who do the same:
 * of two, one sees the other. An exchange, which costs the same: QEMU (7.2, arm64 on amd64) lets
 * the look overtake a mere store, which no processor does.
 */
#define CFIBER_ANNOUNCE(address, value) ((void)atomic_exchange((address), (value)))

static inline void cfiber_relax(void) {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__) || defined(__arm__)
  __asm__ volatile("yield");
#endif
}

/* One more of a counter that only the calling thread writes. */
static inline void cfiber_count(_Atomic(uint64_t) *c) {
  atomic_store_explicit(c, atomic_load_explicit(c, memory_order_relaxed) + 1, memory_order_relaxed);
}

/* ---- lists --------------------------------------------------------------- */

static inline void list_push(struct fiber_list *l, struct cfiber *f) {
  f->next = NULL;
  if (l->head)
    l->tail->next = f;
  else
    l->head = f;
  l->tail = f;
}

static inline struct cfiber *list_pop(struct fiber_list *l) {
  struct cfiber *f = l->head;
  if (f)
    l->head = f->next;
  return f;
}

static inline bool fiber_migratable(const struct cfiber *f) {
  return f->flags & CFIBER_MIGRATABLE;
}

/* True if f may be run by any thread. */
static inline bool fiber_movable(const struct cfiber *f) {
  return (f->flags & (CFIBER_MIGRATABLE | FIBER_STARTED)) != FIBER_STARTED;
}

#endif /* CFIBER_CORE_H */
