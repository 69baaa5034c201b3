/*
 * watchdog.pml - a thread that is stuck, and the watchdog of sched.go.
 *
 * The first fiber is at home on thread 0, and blocks it. With -DSERVED the second
 * is one whose event comes to that thread's poller, or whose timer is that
 * thread's, while the first waits for it. With -DHANDED the second is bound, too,
 * and is handed over while the first runs, which is not for long.
 *
 * The watchdog takes a step when it finds work behind a stuck thread, when all
 * are idle, for then it sleeps, and, a few times, when it takes a thread for stuck
 * that is not. It takes none for want of anything else to do: that would hide
 * that all wait.
 */
#define WATCHDOG
#define THREADS 2
#define FIBERS 2
#define SECOND (FIRST + 1)
#ifdef SERVED
#define EVENTS
#define EVENT_FIBER SECOND
#define TIMER_FIBER SECOND
#define BOUND(f) (f == FIRST)
#define MAY_END(f) (f != FIRST || ended == 1)
#else
#define BOUND(f) true
#define MAY_END(f) (f != FIRST || handed)
#endif
#ifndef MISTAKES
#define MISTAKES 1
#endif
#define LOOKS_AROUND true

bool watchdog_asleep;
bool watchdog_wake;           /* notified, and the goroutine `control` tells it */

#ifdef MUTANT_TOLD_BEFORE_COUNTED
inline notify_watchdog() {
  if
  :: watchdog_asleep -> atomic { watchdog_asleep = false; watchdog_wake = true }
  :: else
  fi;
  idle--
}
#else
inline notify_watchdog() {
  idle--;
  if
  :: watchdog_asleep -> atomic { watchdog_asleep = false; watchdog_wake = true }
  :: else
  fi
}
#endif

#include "protocol.pml"

byte ended;
bool handed;
byte running[THREADS];

inline run_fiber() {
  assert(where[f] == IN_HAND && (!BOUND(f) || HOME(f) == self));
  where[f] = RUNNING;
  running[self] = f;
  MAY_END(f);
  atomic { running[self] = 0; where[f] = ENDED; ended++ };
  f = 0
}

proctype thread(byte self) {
  LOCALS;
  THREAD_LOOP(run_fiber())
}

/* Empties the ready queue of thread 0 of what may move. */
inline take_movable() {
  old = ready_queue[0];
  if
  :: old > READY_BUSY ->
     atomic {
       if
       :: ready_queue[0] == old -> ready_queue[0] = READY_BUSY; list = old
       :: else
       fi;
       old = 0
     };
     do
     :: list != 0 ->
        atomic { f = list; list = next[f]; next[f] = 0; got(f) };
        if
        :: BOUND(f) -> hand_over(0, f)
        :: else -> schedule(NONE, f)
        fi
     :: else -> break
     od;
     f = 0
  :: else -> old = 0
  fi
}

/* What a thread outside does for a fiber of thread 0: the event, the timers, the ready queue. */
inline relieve() {
#ifdef SERVED
  atomic { token[0] = false; event = event_due; event_due = false };
  if
  :: event -> event = false; schedule(NONE, EVENT_FIBER)
  :: else
  fi;
  if
  :: atomic { timer_due -> timer_due = false }; schedule(NONE, TIMER_FIBER)
  :: else
  fi;
#else
  token[0] = false;
#endif
#ifndef MUTANT_WAKE_SWALLOWED
  poller_wake(0);
#endif
  take_movable()
}

#ifdef SERVED
#define STUCK_WITH_WORK (running[0] != 0 && (event_due || timer_due))
#else
#define STUCK_WITH_WORK false
#endif

proctype watchdog() {
  LOCALS;
  byte self = NONE, mistakes;
  do
  :: STUCK_WITH_WORK -> relieve()
  :: mistakes < MISTAKES && running[0] != 0 -> mistakes++; relieve()
  :: idle == ACTIVE ->        /* for some rounds */
     watchdog_wake = false;
     watchdog_asleep = true;
     if
     :: idle < ACTIVE -> watchdog_asleep = false
     :: else ->
        if
        :: watchdog_wake
        :: stop -> break
        fi
     fi
  :: stop -> break
  od
}

proctype outside(byte g) {
  LOCALS;
  byte self = NONE;
  if
  :: g == FIRST -> hand_over(0, g)
  :: else ->
     running[0] == FIRST;
#ifdef SERVED
     if
     :: event_due = true
     :: timer_due = true
     fi
#else
     hand_over(0, g);
     handed = true
#endif
  fi
}

proctype host() {
  byte t;
  ended == FIBERS;
  stop = true;
  do
  :: t < THREADS -> poller_wake(t); t++
  :: else -> break
  od
}

init {
  byte n;
  atomic {
    for (n : 0 .. THREADS - 1) {
      run thread(n)
    };
    for (n : FIRST .. END - 1) {
      run outside(n)
    };
    run watchdog();
    run host()
  }
}
