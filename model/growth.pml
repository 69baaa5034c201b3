/*
 * growth.pml - the number of threads: one more while there is work, and the end.
 *
 * The first fiber, on the one thread there is, spawns the second and blocks the
 * thread until the others have ended; with -DLEAVES it ends at once. The third
 * comes from Go. Either may make the second thread: Go for its fiber, and the
 * goroutine `control` when C asks.
 */
#define GROWTH
#define THREADS 2             /* slots */
#define FIBERS 3
#define SECOND (FIRST + 1)
#define THIRD (FIRST + 2)
#define ACTIVE active_threads
#ifdef LEAVES
#define MAY_END true
#else
#define MAY_END (ended == FIBERS - 1)
#endif
#define LOOKS_AROUND false

byte active_threads = 1;      /* threads that run */
byte reserved = 1;            /* slots given out */
bool wanted;                  /* want_thread */
bool grow_lock;
byte workers = 1;             /* threads that have not returned */
bool freed;                   /* the host has closed the pollers and freed the memory */
byte ended;

#include "protocol.pml"

inline run_fiber() {
  assert(where[f] == IN_HAND);
  where[f] = RUNNING;
  if
  :: f == FIRST -> ready(SECOND); MAY_END
  :: else
  fi;
  atomic { where[f] = ENDED; ended++; f = 0 }
}

proctype thread(byte self) {
  LOCALS;
  assert(!freed);
  if
  :: self == 0 -> where[FIRST] = IN_HAND; f = FIRST; run_fiber(); left = true
  :: else
  fi;
  THREAD_LOOP(run_fiber());
  assert(!freed);
  workers--
}

/* Starts a thread with fp (0: none); grown is whether. The poller may be refused. */
inline grow(fp, may_fail) {
  atomic { !grow_lock -> grow_lock = true };
  if
  :: reserved >= THREADS || stop -> grown = false
  :: else ->
     reserved++;
     if
     :: may_fail -> reserved--; grown = false
     :: skip ->
        if
        :: fp != 0 -> atomic { put(fp); next[fp] = 0; ready_queue[reserved - 1] = fp }
        :: else
        fi;
        workers++;
#ifdef MUTANT_ACTIVE_AFTER_START
        run thread(reserved - 1);
        active_threads = reserved;
#else
        active_threads = reserved;
        run thread(reserved - 1);
#endif
        grown = true
     fi
  fi;
  grow_lock = false
}

/* schedule of sched.go. */
proctype go() {
  LOCALS;
  byte self = NONE;
  bool grown;
  if
  :: idle > 0 -> idle_search(NONE, THIRD)
  :: else -> chosen = NONE
  fi;
  if
  :: chosen != NONE -> poller_wake(chosen)
  :: else ->
     grow(THIRD, true);
     if
     :: grown
     :: else -> inject(THIRD); wake_searcher(NONE)
     fi
  fi
}

proctype control() {
  bool grown;
  do
  :: wanted -> grow(0, false); wanted = false
  :: stop -> break
  od
}

/* stopThreads, and what comes after. */
proctype host() {
  byte t, n;
  ended == FIBERS;
#ifndef MUTANT_STOP_UNLOCKED
  atomic { !grow_lock -> grow_lock = true };
#endif
  stop = true;
  n = active_threads;
  grow_lock = false;
  do
  :: t < n -> poller_wake(t); t++
  :: else -> break
  od;
  workers == 0;
  freed = true
}

init {
  atomic {
    run thread(0);
    run go();
    run control();
    run host()
  }
}
