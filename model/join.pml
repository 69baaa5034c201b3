/*
 * join.pml - the joiner's word of csrc/join.c and csrc/fiber.c: a fiber ends, and two try to
 * join or detach it.
 *
 * The child may be called by the first of them, a fiber of its own thread with -DBESIDE. The
 * second is a fiber of another thread, or a thread without fiber with -DTHREAD. A wait of either
 * fiber may end early, by its deadline or a cancel; then it joins again, detaches, or leaves the
 * child. Afterwards each fiber waits for something else, which no late wake may end.
 */
#ifdef BESIDE
#define beside(k) (k == 0)
#else
#define beside(k) false
#endif
#ifndef EARLY_ENDS
#define EARLY_ENDS 1          /* of the waits of each fiber */
#endif

/* The values of the joiner's word: FIRST + k is fiber k. */
#define NONE 0
#define FINISHED 1
#define DETACHED 2
#define BY_THREAD 3
#define FINISHING 4
#define JOINED 5
#define FIRST 6

#define NOBODY 0              /* runs on the thread that the child shares with fiber 0 */
#define THE_FIBER 1
#define THE_CHILD 2

mtype = { NOTHING, CHILD, OTHER };             /* what a fiber waits for */
mtype = { EVENT, EARLY };                      /* why a wait has ended */
mtype = { REFUSED, ENGAGED, ENDED };
mtype = { GOT_IT, IN_USE, GAVE_UP, LEFT_IT };  /* what came of it */

typedef Fiber {
  mtype waits_for = NOTHING;  /* the wait word: armed, if not NOTHING, ... */
  byte epoch;
  mtype reason;
  byte join_epoch;
  bool ready                  /* on a queue */
}
Fiber fiber[2];

byte joiner = NONE;
bool has_result;              /* the child's result stands in its record, ... */
bool in_use = true;           /* ... which the thread that it ends on still uses */
byte freed;                   /* how often the record has been */
byte turn = NOBODY;
bool started;
bool mutex, sleeps;           /* of the thread without fiber */
byte done;                    /* of the two */

inline free_record() {
  atomic {
    assert(!freed && has_result);
    freed++
  }
}

/* ---- Waits: park.pml has them in detail ---- */

inline arm(k, what) {
  atomic {
    assert(fiber[k].waits_for == NOTHING && !fiber[k].ready);
    fiber[k].epoch++;
    fiber[k].waits_for = what
  }
}

inline end_wait(k, which, why, what, won) {
  atomic {
    won = (fiber[k].waits_for != NOTHING && fiber[k].epoch == which);
    if
    :: won ->
       assert(fiber[k].waits_for == what);  /* and no other wait */
       fiber[k].waits_for = NOTHING;
       fiber[k].reason = why
    :: else
    fi
  }
}

inline cfiber_wake(k, which, why, what, won) {
  end_wait(k, which, why, what, won);
  if
  :: won -> atomic { assert(!fiber[k].ready); fiber[k].ready = true; won = false }
  :: else
  fi
}

inline resumes(k) {
  if
  :: atomic {
       fiber[k].ready && (!beside(k) || turn == NOBODY) ->
       fiber[k].ready = false;
       turn = (beside(k) -> THE_FIBER : turn)
     }
  :: atomic { beside(k) && turn == THE_FIBER -> assert(!fiber[k].ready) }  /* by the child */
  fi
}

inline park(k) {
  turn = (beside(k) -> NOBODY : turn);
  resumes(k)
}

/* ---- Who joins ---- */

inline joiner_of(j) {
  atomic { joiner != FINISHING -> j = joiner }
}

inline set_joiner(from, to, won) {
#ifdef MUTANT_SET_BLINDLY
  won = (joiner == from);
  if
  :: won -> joiner = to
  :: else
  fi
#else
  atomic {
    won = (joiner == from);
    if
    :: won -> joiner = to
    :: else
    fi
  }
#endif
}

inline engage(to, outcome) {
  do
  :: joiner_of(j);
     if
     :: j == NONE -> set_joiner(NONE, to, won); outcome = ENGAGED
     :: j == FINISHED -> set_joiner(FINISHED, JOINED, won); outcome = ENDED
     :: else -> outcome = REFUSED; break
     fi;
     if
     :: won -> won = false; break
     :: else
     fi
  od
}

/* ---- The child's end ---- */

/* At once to the fiber that has called it, or to one that joins it on its thread. */
inline straight() {
  has_result = true;
  assert(!freed && joiner == FIRST);
  atomic { joiner = JOINED; in_use = false; turn = THE_FIBER }
}

inline publish_to_joiner() {
  has_result = true;
#ifdef MUTANT_JOINED_AT_ONCE
  atomic { j = joiner; joiner = (j == NONE -> FINISHED : (j == DETACHED -> j : JOINED)); in_use = false };
#else
  atomic { j = joiner; joiner = FINISHING };
#endif
  if
  :: j == DETACHED ->
#ifndef MUTANT_FINISHING_LEFT
     joiner = DETACHED;                 /* for who may be about to look */
#endif
     in_use = false;
     free_record()
  :: else ->
     if
     :: j >= FIRST -> which = fiber[j - FIRST].join_epoch
     :: else
     fi;
#ifndef MUTANT_JOINED_AT_ONCE
     atomic { assert(!freed); joiner = (j == NONE -> FINISHED : JOINED); in_use = false };
#endif
     if
     :: j == BY_THREAD ->
#ifdef MUTANT_BROADCAST_UNLOCKED
        sleeps = false
#else
        atomic { !mutex -> mutex = true };
        sleeps = false;
        mutex = false
#endif
     :: j >= FIRST -> cfiber_wake(j - FIRST, which, EVENT, CHILD, won)
     :: else
     fi
  fi;
  which = 0
}

proctype child() {
  byte j, which;
  bool won, at_once, was_called;
#ifdef BESIDE
  if
  :: atomic { turn == THE_CHILD -> was_called = true }
  :: atomic { turn == NOBODY && !started -> started = true; turn = THE_CHILD }
  fi;
  if
  :: was_called -> straight(); goto ended
  :: was_called ->                      /* cfiber_settle */
     arm(0, CHILD);
     fiber[0].join_epoch = fiber[0].epoch
  :: else
  fi;
  do
  :: turn = NOBODY; atomic { turn == NOBODY -> turn = THE_CHILD }  /* it waits */
  :: break
  od;
  j = joiner;                           /* straight_to_joiner */
  if
  :: j == FIRST ->
     which = fiber[0].join_epoch;
     if
#ifdef MUTANT_STRAIGHT_UNCLAIMED
     :: which -> at_once = (fiber[0].waits_for == CHILD)
#else
     :: which -> end_wait(0, which, EVENT, CHILD, at_once)
#endif
     :: which                           /* others' turn */
     :: else
     fi;
     if
     :: at_once -> straight(); goto ended
     :: else
     fi
  :: else
  fi;
#endif
  publish_to_joiner();
#ifdef BESIDE
  turn = NOBODY;
#endif
ended:
  skip
}

/* ---- Join and detach ---- */

/* early: whether this has ended early. */
inline join_by_waiting(k) {
  arm(k, CHILD);
#ifdef MUTANT_LOOK_THEN_ANNOUNCE
  won = (joiner != FIRST + k);
  fiber[k].join_epoch = fiber[k].epoch;
#else
  fiber[k].join_epoch = fiber[k].epoch;
  won = (joiner != FIRST + k);
#endif
  if
  :: won ->
     end_wait(k, fiber[k].epoch, EVENT, CHILD, won);
     if
     :: won -> won = false
     :: else -> park(k)
     fi;
     early = false
  :: else -> park(k); early = (fiber[k].reason == EARLY)
  fi
}

/* It is called: early or not, it is on its way, or has ended, when this goes on. */
inline call(k) {
  atomic { started = true; turn = THE_CHILD };
  resumes(k);
  joiner_of(j);
  early = (j != JOINED);
  assert(!early || fiber[k].reason == EARLY)
}

inline await_end(k) {
  if
  :: early = true                       /* cfiber_pending */
  :: atomic { beside(k) && !started -> call(k) }
  :: joiner_of(j);
     if
     :: j == JOINED -> early = false
     :: else -> join_by_waiting(k)
     fi
  fi
}

inline collect() {
  assert(!in_use && joiner == JOINED);
  free_record()
}

inline cfiber_join(k) {
  fiber[k].join_epoch = 0;
#ifdef MUTANT_CALL_THEN_ENGAGE
  if
  :: atomic { beside(k) && !started -> call(k) }
  :: true
  fi;
#endif
  engage(FIRST + k, outcome);
  if
  :: outcome == REFUSED -> result = IN_USE
  :: outcome == ENDED -> collect(); result = GOT_IT
  :: outcome == ENGAGED ->
     await_end(k);
     if
     :: early ->
#ifdef MUTANT_GIVEN_UP_BLINDLY
        joiner = NONE;
        won = true
#else
        set_joiner(FIRST + k, NONE, won)
#endif
     :: else
     fi;
     if
     :: early && won -> result = GAVE_UP
     :: else ->
#ifndef MUTANT_FINISHING_NOT_AWAITED
        joiner_of(j);
#endif
        collect();
        result = GOT_IT
     fi;
     early = false;
     won = false
  fi
}

inline cfiber_detach() {
  engage(DETACHED, outcome);
  if
  :: outcome == REFUSED -> result = IN_USE
  :: outcome == ENDED -> free_record(); result = GOT_IT
  :: else -> result = GOT_IT
  fi
}

proctype a_fiber(byte k) {
  byte j;
  bool won, early;
  mtype outcome, result = GAVE_UP;
  if
  :: beside(k) -> atomic { turn == NOBODY -> turn = THE_FIBER }
  :: else
  fi;
  do
  :: result == GAVE_UP -> cfiber_join(k)
  :: result == GAVE_UP -> cfiber_detach()
  :: result == GAVE_UP -> result = LEFT_IT
  :: else -> break
  od;
  arm(k, OTHER);                        /* something else, be it a join of another child */
  fiber[k].join_epoch = fiber[k].epoch;
  park(k);
  turn = (beside(k) -> NOBODY : turn);
  done++
}

/* join_on_thread */
proctype a_thread() {
  byte j;
  bool won;
  mtype outcome;
  engage(BY_THREAD, outcome);
  if
  :: outcome == ENGAGED ->
     atomic { !mutex -> mutex = true };
     do
     :: joiner_of(j);
        if
        :: j == JOINED -> break
        :: else ->
           atomic { mutex = false; sleeps = true };
           atomic { !sleeps && !mutex -> mutex = true }
        fi
     od;
     mutex = false;
     collect()
  :: outcome == ENDED -> collect()
  :: else
  fi;
  done++
}

/* What ends waits but the child: it knows a wait by its number, and may be late. */
proctype others(byte k) {
  byte which, early_ends;
  mtype what;
  bool won;
  do
  :: atomic {
       fiber[k].waits_for == CHILD && early_ends < EARLY_ENDS ->
       which = fiber[k].epoch;
       early_ends++
     };
     cfiber_wake(k, which, EARLY, CHILD, won)
  :: atomic { fiber[k].waits_for == OTHER -> which = fiber[k].epoch };
     cfiber_wake(k, which, EVENT, OTHER, won);
     break
  od
}

init {
  atomic {
    run child();
    run a_fiber(0);
    run others(0);
#ifdef THREAD
    run a_thread()
#else
    run a_fiber(1);
    run others(1)
#endif
  };
  _nr_pr == 1;                          /* all have ended; else it is a deadlock */
  assert(done == 2);
  assert(freed || joiner == NONE || joiner == FINISHED)
}
