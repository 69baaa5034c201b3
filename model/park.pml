/*
 * park.pml - the wait word of csrc/park.c and park.go.
 *
 * One record, which is two fibers one after the other, on two threads. Each
 * has two waits; an event ends all but the very last, which only cancel does. A
 * timer may be first, and may be late: for a wait, or for a fiber, that is over.
 * A change of the wait word, which C does by compare-and-swap in a loop, is one
 * step. With -DMIGRATABLE any thread may run the fiber, else only the first.
 */
#ifndef WAITS
#define WAITS 2               /* of each fiber */
#endif
#define LIVES 2
#define LAST (WAITS * LIVES)  /* the wait that no event ends */

#ifdef MIGRATABLE
#define fiber_migratable true
#else
#define fiber_migratable false
#endif

mtype = { RUNNING, ARMED, PARKED, WOKEN };
mtype = { NOTHING, EVENT, TIMEOUT, CANCEL };

/* The wait word. */
mtype state = RUNNING;
mtype reason = NOTHING;
bool cancel, live;
byte epoch;

byte number;                  /* of this wait, of all that have been: not in the word */
byte registered;              /* the number, ... */
byte registered_epoch;        /* ... and what whoever may wake the fiber knows of it */
byte waits, life;
bool queued = true;           /* on a queue; new */
bool saved = true;            /* its registers are */
bool on_thread;               /* it runs */
bool finished;                /* all is over */

inline ready() {
  atomic {
    assert(!queued);          /* each wait makes the fiber ready once */
    queued = true
  }
}

/* won is whether this ended the wait; parked, whether it was PARKED. */
inline end_wait(wait, which, why, won, parked) {
  atomic {
#ifdef MUTANT_EPOCH_IGNORED
    won = (state == ARMED || state == PARKED);
#else
    won = (epoch == which && (state == ARMED || state == PARKED));
#endif
    if
    :: won ->
       assert(number == wait);  /* and no other */
       parked = (state == PARKED);
       state = WOKEN;
       reason = why
    :: else
    fi
  }
}

inline ready_after(parked) {
#ifdef MUTANT_READY_WHILE_ARMED
  ready()
#else
  if
  :: !fiber_migratable || parked -> ready()
  :: else
  fi
#endif
}

inline cfiber_wake(wait, which, why) {
#ifdef MUTANT_WAKE_IN_TWO
  won = (epoch == which && (state == ARMED || state == PARKED));
  if
  :: won -> parked = (state == PARKED); state = WOKEN; reason = why; ready_after(parked)
  :: else
  fi;
#else
  end_wait(wait, which, why, won, parked);
  if
  :: won -> ready_after(parked)
  :: else
  fi;
#endif
  won = false;
  parked = false
}

/* POST_PARK */
inline confirm_parked() {
  atomic {
    if
    :: state == WOKEN -> won = true
    :: else -> state = PARKED
    fi
  };
#ifndef MUTANT_WOKEN_WHILE_LEAVING
  if
  :: won -> won = false; ready()
  :: else
  fi
#else
  won = false
#endif
}

/* gone is whether the thread has left the fiber. */
inline cfiber_park() {
  if
  :: atomic { !fiber_migratable && queued -> queued = false; gone = false } /* its own next */
  :: else ->
#ifdef MUTANT_POST_BEFORE_SWITCH
     if
     :: fiber_migratable -> confirm_parked()
     :: else
     fi;
     atomic { saved = true; on_thread = false };
#else
     atomic { saved = true; on_thread = false };
     if
     :: fiber_migratable -> confirm_parked()
     :: else
     fi;
#endif
     gone = true
  fi
}

/* From the end of one fiber to the next one's first run. */
inline fiber_ends() {
  atomic { live = false; state = RUNNING }; /* cfiber_fiber_finish */
  if
  :: life < LIVES ->
     atomic {                               /* init_record */
#ifdef MUTANT_EPOCH_ANEW
       epoch = 0;
#endif
       live = true;
       cancel = false;
       state = RUNNING;
       reason = NOTHING;
       waits = 0;
       life++;
       saved = true;
       on_thread = false
     };
     ready()
  :: else -> atomic { on_thread = false; finished = true }
  fi
}

/* A fiber that has been switched to, until it is left. */
inline runs() {
  gone = false;
  do
  :: !gone && waits < WAITS ->
     assert(on_thread && !saved && state != ARMED && state != PARKED);
     atomic {                               /* cfiber_arm */
#ifdef MUTANT_CANCEL_FORGOTTEN
       won = true;
#else
       won = !cancel;
#endif
       if
       :: won -> epoch++; number++; state = ARMED
       :: else
       fi;
       waits++
     };
     if
     :: won ->
        won = false;
        atomic { registered = number; registered_epoch = epoch };
        if
        :: cfiber_park()
        :: registered != LAST ->            /* it finds that it need not wait */
           end_wait(number, epoch, EVENT, won, parked);
           if
           :: won -> won = false
           :: else -> cfiber_park()
           fi;
           parked = false
        fi
     :: else -> assert(life == LIVES)       /* only the second fiber is cancelled */
     fi
  :: !gone && waits == WAITS -> fiber_ends(); break
  :: gone -> break
  od;
  gone = false
}

proctype thread(bool home) {
  bool won, parked, gone;
  do
  :: atomic {
       queued && (home || fiber_migratable) ->
       queued = false;
       assert(saved && !on_thread);
       saved = false;
       on_thread = true
     };
     runs()
  :: atomic {                               /* straight_to_joiner: a fiber ends that it joins */
       home && !fiber_migratable && saved && number > 0 && number < LAST && number == registered &&
       (state == ARMED || state == PARKED) ->
       state = WOKEN;
       reason = EVENT;
       assert(!queued && !on_thread);
       saved = false;
       on_thread = true
     };
     runs()
  :: finished -> break
  od
}

proctype waker(mtype why) {
  bool won, parked;
  byte wait, which;
  do
  :: atomic { registered > wait -> wait = registered; which = registered_epoch };
     if
     :: why == TIMEOUT
     :: why != EVENT || wait < LAST -> cfiber_wake(wait, which, why)
     :: why == EVENT && wait == LAST
     fi
  :: finished -> break
  od
}

/* cfiber_cancel, requestCancel: of the second fiber, while the caller knows it to be there. */
proctype canceller() {
  bool ends, parked;
  life == LIVES;
  atomic {
    if
    :: cancel || !live
    :: else ->
       ends = (state == ARMED || state == PARKED);
       cancel = true;
       if
       :: ends -> parked = (state == PARKED); state = WOKEN; reason = CANCEL
       :: else
       fi
    fi
  };
  if
  :: ends -> ready_after(parked)
  :: else
  fi
}

init {
  atomic {
    live = true;
    life = 1;
    run thread(true);
    run thread(false);
    run waker(EVENT);
    run waker(TIMEOUT);
    run canceller()
  }
}
