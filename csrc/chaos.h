/*
 * chaos.h - a build in which all that may go one way or the other does so, by chance.
 *
 * -DCFIBER_CHAOS compiles it in (for Go: -tags cfiber_chaos, which sets it); without,
 * nothing of this is left. ./build.sh chaos runs the tests with it, seed after seed.
 *
 * CFIBER_CHAOS_SEED is a number, 1 if it is not set. Each thread draws from a generator of
 * its own, made from the seed and the thread's index, so a seed repeats as far as threads
 * do. Which of the knobs are on, and how far, and which of the points below are passed
 * quickly and which slowly, is drawn from the seed as well: what is rare with all of them on
 * is often frequent with few. CFIBER_CHAOS sets knobs, separated by commas, to
 * probabilities:
 *
 *   yield=P       a waiting call lets others run first, or before it returns
 *   delay=P       the thread spins, gives up its core or sleeps, at the points named below
 *                 and at each site of fault.h
 *   reorder=P     a fiber that is ready is put behind the others
 *   hidden=P      a site fails with the error that nobody is to be told of
 *   again=P       an I/O call finds nothing, though there may be something
 *   short=P       a read or write of a stream transfers a part
 *   fail=P        a site fails with the error that its caller is told; off unless set
 *   fail@SITE=P   the same, of one site, by its name in fault.h
 *   nth@SITE=N    the Nth call at that site fails so
 *   report        at the end, how often each point and site was passed and taken
 *
 * CFIBER_CHAOS_EXCEPT lists what is switched off while a test runs, as "TEST=KNOB+KNOB"
 * separated by commas; scripts/chaos.exceptions has the reasons.
 */
#ifndef CFIBER_CHAOS_H
#define CFIBER_CHAOS_H

#ifdef CFIBER_CHAOS

#include <stdint.h>
#include <sys/types.h>

/* Where races live: between two steps that another thread must be able to see apart. */
#define CHAOS_POINT_LIST(POINT)                                                                    \
  POINT(ARM)          /* the word is read, and not replaced */                                     \
  POINT(ARMED)        /* nobody has been told of the wait */                                       \
  POINT(WAKE)         /* the word is read, and not replaced */                                     \
  POINT(WOKEN)        /* the wait has ended; the fiber is not ready */                             \
  POINT(PARK)         /* the fiber is armed, and not left */                                       \
  POINT(LEFT)         /* it has been left; what is to be done for it is not */                     \
  POINT(PARKED)       /* the word is read, and not PARKED */                                       \
  POINT(CANCEL)       /* the word is read, and not replaced */                                     \
  POINT(HAND_OVER)    /* a ready queue is read, and not replaced */                                \
  POINT(HANDED_OVER)  /* it is replaced, and no wake-up sent */                                    \
  POINT(IDLE_FOUND)   /* a thread is seen idle, and not taken */                                   \
  POINT(NOBODY)       /* nobody searches, and nobody has been chosen */                            \
  POINT(CHOOSING)     /* somebody is to be chosen */                                               \
  POINT(CHOSEN)       /* and is, but it is not noted */                                            \
  POINT(CHOICE_NOTED) /* it is noted, and no wake-up sent */                                       \
  POINT(NONE_CHOSEN)  /* there was nobody to choose */                                             \
  POINT(INJECT)       /* the list is read, and not replaced */                                     \
  POINT(PUBLISHED)    /* there is work, and nobody has been woken for it */                        \
  POINT(RING_PUSH)    /* the entry is written, and not published */                                \
  POINT(RING_POP)     /* an entry is read, and the head not moved */                               \
  POINT(RING_GRAB)    /* half of a ring is read, and the head not moved */                         \
  POINT(TAKEN)        /* fibers are on no queue */                                                 \
  POINT(VOID)         /* an entry looks void or not, and has not been settled */                   \
  POINT(CLAIM)        /* a child on the ring is to be called */                                    \
  POINT(TAKE_LIST)    /* a ready queue is seen, and not taken */                                   \
  POINT(GLOBAL)       /* the global queue is locked, and what was injected taken */                \
  POINT(LINGER)       /* nothing to do, and the search taken up */                                 \
  POINT(LINGERED)     /* something has come in time, or nothing; still the searcher */             \
  POINT(ANNOUNCE)     /* nothing to do, and not idle */                                            \
  POINT(ANNOUNCED)    /* idle, and not counted */                                                  \
  POINT(COUNTED)      /* counted, and the search not given up */                                   \
  POINT(LAST_LOOK)    /* the search is given up; the last look is to come */                       \
  POINT(SLEEP)        /* nothing was seen in it */                                                 \
  POINT(AWAKE)        /* the poller has returned; still idle */                                    \
  POINT(BUSY)         /* no longer idle, and still counted */                                      \
  POINT(RETURNED)     /* what was handed over is taken, and not sorted */                          \
  POINT(FOUND)        /* the searcher has found something, and still searches */                   \
  POINT(GIVEN_UP)     /* it no longer does; others have not been woken */                          \
  POINT(ENGAGE)       /* the joiner is read, and not replaced */                                   \
  POINT(ENGAGED)      /* a join has begun */                                                       \
  POINT(JOIN_ARMED)   /* the joiner is armed, and its epoch not stored */                          \
  POINT(JOIN_EPOCH)   /* it is stored; the last look is to come */                                 \
  POINT(SETTLE)       /* a caller no longer counts as one, and is not armed */                     \
  POINT(END)          /* a fiber has ended; nothing is published */                                \
  POINT(FINISHING)    /* its joiner is taken, and not read */                                      \
  POINT(FINISHED)     /* the fiber is the joiner's, who is not woken */                            \
  POINT(STRAIGHT)     /* the joiner is seen to wait, and not claimed */                            \
  POINT(SPAWN)        /* a new fiber is ready; closing is not looked at */                         \
  POINT(COMPLETION)   /* the list is read, and not replaced */                                     \
  POINT(TELL)         /* a completion is published, and the host not told */                       \
  POINT(NOTIFY)       /* it is to be told */                                                       \
  POINT(ATTEMPT)      /* the edges are counted; the try is to come */                              \
  POINT(EMPTY)        /* there was nothing, and nobody waits */                                    \
  POINT(ENLIST)       /* the wait is armed, and on no list */                                      \
  POINT(ENLISTED)     /* it is on one, and has no timer */                                         \
  POINT(EDGE)         /* an event has come, and the entry is not locked */                         \
  POINT(COUNT_EDGE)   /* it is locked and counted; nobody is woken */                              \
  POINT(PASS)         /* an edge is to be passed on */                                             \
  POINT(CLOSE)        /* the waiters have been told, and the descriptor is open */                 \
  POINT(CLOSED)       /* it is closed; late waiters have not been told */                          \
  POINT(CHUNK)        /* memory for entries is there, and not published */                         \
  POINT(TIMER)        /* a timer is taken off the heap, and its fiber not woken */                 \
  POINT(CLEAR_TIMER)  /* a wait has ended, and its timer is there */                               \
  POINT(LOCKED)       /* a spin lock is held */                                                    \
  POINT(RESERVED)     /* a thread's slot is given out, and not active */                           \
  POINT(STOP)         /* threads are to stop, and have not been woken */

enum chaos_point {
#define CHAOS_POINT_NAME(name) CHAOS_AT_##name,
  CHAOS_POINT_LIST(CHAOS_POINT_NAME)
#undef CHAOS_POINT_NAME
      CHAOS_POINTS
};

struct cfiber_thread;
struct io;

void cfiber_chaos_delay(enum chaos_point point);
/* Lets others run, or not. Returns the thread on which the fiber goes on. */
struct cfiber_thread *cfiber_chaos_yield(struct cfiber_thread *t);
/* Puts a ready fiber of t behind the others, or not. */
void cfiber_chaos_reorder(struct cfiber_thread *t);
/* From 1 to n. */
int cfiber_chaos_most(int n);
/* io->attempt(io), or less. */
ssize_t cfiber_chaos_attempt(struct io *io);
/* The calling thread is that of the runtime's slot `index`. */
void cfiber_chaos_thread(uint32_t index);
/* A test begins: what is excepted for it is switched off. */
void cfiber_chaos_test(const char *name);

#define CHAOS_DELAY(point) cfiber_chaos_delay(CHAOS_AT_##point)
#define CHAOS_YIELD(t) ((t) = cfiber_chaos_yield(t))
#define CHAOS_REORDER(t) cfiber_chaos_reorder(t)
#define CHAOS_MOST(n) cfiber_chaos_most(n)
#define CHAOS_ATTEMPT(io) cfiber_chaos_attempt(io)
#define CHAOS_THREAD(index) cfiber_chaos_thread(index)
#define CHAOS_TEST(name) cfiber_chaos_test(name)

#else

#define CHAOS_DELAY(point) ((void)0)
#define CHAOS_YIELD(t) ((void)0)
#define CHAOS_REORDER(t) ((void)0)
#define CHAOS_MOST(n) (n)
#define CHAOS_ATTEMPT(io) ((io)->attempt(io))
#define CHAOS_THREAD(index) ((void)0)
#define CHAOS_TEST(name) ((void)0)

#endif
#endif /* CFIBER_CHAOS_H */
