/*
 * schedule.pml - where fibers come from, and what they wait for.
 *
 * A fiber blocks its thread until certain others have run. One that is ready
 * and stays on a queue while a thread sleeps is then a deadlock.
 */
#if defined(SPAWNED)
/* The first, on thread 0, spawns the others, C to C. All must run at once, on as many threads. */
#define SPAWNERS 1
#define MAY_END(f) (begun == FIBERS)
#elif defined(SPAWNED_AND_LEFT)
/* The same, but the first ends at once. */
#define SPAWNERS 1
#define MAY_END(f) (f == FIRST || begun == FIBERS)
#elif defined(SPAWNED_MANY)
/* SPAWNERS fibers, on as many threads, spawn the others, which end by themselves. */
#define MAY_END(f) (f >= FIRST + SPAWNERS || ended >= FIBERS - SPAWNERS)
#elif defined(OUTSIDE)
/* From outside. The first is woken at its home, thread 0, which it then blocks for the others. */
#define SPAWNERS 0
#define OUTSIDERS FIBERS
#define BOUND(f) (f == FIRST)
#define MAY_END(f) (f != FIRST || ended == FIBERS - 1)
#endif
#ifndef OUTSIDERS
#define OUTSIDERS 0           /* so many of the last come from outside */
#endif
#ifdef EVENTS
/* ... and not by a hand-over, but by its timer, or its descriptor. */
#define EVENT_FIBER FIRST
#define TIMER_FIBER FIRST
#endif

#ifndef YIELDS
#define YIELDS 0              /* how often the first yields before that */
#endif
#ifndef LOOKS_AROUND
#define LOOKS_AROUND (YIELDS > 0 || OUTSIDERS == 1)
#endif
#ifndef STRAYS
#define STRAYS 0              /* wake-ups that nobody owes */
#endif

#include "protocol.pml"

byte begun, ended, yields;

inline run_fiber() {
  assert(where[f] == IN_HAND && (!BOUND(f) || HOME(f) == self));
  where[f] = RUNNING;
  if
  :: f == FIRST && yields < YIELDS -> yields++; ready(f)
  :: else ->
     begun++;
     MAY_END(f);
     atomic { where[f] = ENDED; ended++ }
  fi;
  f = 0
}

proctype thread(byte self) {
  LOCALS;
#if SPAWNERS > 0
  byte g = FIRST + SPAWNERS + self;
  if
  :: self < SPAWNERS ->
     do
     :: g < END - OUTSIDERS -> ready(g); g = g + SPAWNERS
     :: else -> break
     od;
     g = 0;
     where[FIRST + self] = IN_HAND;
     f = FIRST + self;
     run_fiber();
     left = true
  :: else -> g = 0
  fi;
#endif
  THREAD_LOOP(run_fiber())
}

/* Somebody outside: a goroutine, or a thread of the program. */
proctype outside(byte g) {
  LOCALS;
  byte self = NONE;
  if
#ifdef EVENTS
  :: BOUND(g) ->
     if
     :: event_due = true
     :: timer_due = true
     fi
#else
  :: BOUND(g) -> hand_over(HOME(g), g)
#endif
  :: else -> schedule(NONE, g)
  fi
}

/* A wake-up that means nothing: of wakeAll, or one that comes late. */
proctype stray() {
  byte t;
  select(t : 0 .. THREADS - 1);
  poller_wake(t)
}

/* stopThreads, stop_threads. */
proctype host() {
  byte t;
  ended == FIBERS;
#ifdef MUTANT_WAKE_BEFORE_STOP
  do
  :: t < THREADS -> poller_wake(t); t++
  :: else -> break
  od;
  stop = true
#else
  stop = true;
  do
  :: t < THREADS -> poller_wake(t); t++
  :: else -> break
  od
#endif
}

init {
  byte n;
  atomic {
    do
    :: n < THREADS -> run thread(n); n++
    :: else -> break
    od;
    n = END - OUTSIDERS;
    do
    :: n < END -> run outside(n); n++
    :: else -> break
    od;
    n = 0;
    do
    :: n < STRAYS -> run stray(); n++
    :: else -> break
    od;
    run host()
  }
}
