/*
 * protocol.pml - the hand-over of csrc/sched.c and kqueue.go, for Spin.
 *
 * Included by the models that add fibers, a host, growth or a watchdog. Each
 * inline is named after the C function that it follows. README.md says what is
 * modelled, what is not, and which steps are one.
 *
 * A fiber is a number from 2 on, so that the value of a ready queue is
 * READY_IDLE, READY_BUSY or a fiber, as in C.
 */
#ifndef THREADS
#define THREADS 2
#endif
#ifndef FIBERS
#define FIBERS 2
#endif
#ifndef RING_SIZE
#define RING_SIZE 4
#endif
#ifndef ACTIVE
#define ACTIVE THREADS
#endif

#define READY_IDLE 0
#define READY_BUSY 1
#define FIRST 2               /* the first fiber */
#define END (FIRST + FIBERS)  /* after the last */
#define NONE 255              /* no thread */
#define SEARCHING_NOBODY 0
#define SEARCHING_CHOOSING 254

/* Where a fiber is, for the assertions. */
#define WAITING 0
#define QUEUED 1
#define IN_HAND 2
#define RUNNING 3
#define ENDED 4

#ifndef BOUND
#define BOUND(f) false        /* whether f stays on thread HOME(f) */
#endif
#ifndef HOME
#define HOME(f) 0
#endif

byte ready_queue[THREADS] = READY_BUSY;
chan ring[THREADS] = [RING_SIZE] of { byte };
chan local_queue[THREADS] = [FIBERS] of { byte };
byte next[END];
byte injected;
chan global_queue = [FIBERS] of { byte };
byte global_size;
bool global_lock;
byte idle;
byte searching = SEARCHING_NOBODY;
bool stop;
bool token[THREADS];          /* the wake event has been triggered */
byte where[END];

/* ---- Bookkeeping: each fiber is on one queue, or in one hand ------------------- */

inline put(q_f) {
  assert(where[q_f] != QUEUED && where[q_f] != ENDED);
  where[q_f] = QUEUED
}

inline got(g_f) {
  assert(where[g_f] == QUEUED);
  where[g_f] = IN_HAND
}

/* ---- The ring; ring.pml has it in full ----------------------------------------- */

/*
 * What a thread that looks at a ring twice sees of the head in between: watch is
 * the ring + 1, or HEAD_MOVED.
 */
#define HEAD_MOVED 253
byte watch[THREADS];

inline head_moves(v) {
  w = 0;
  do
  :: w < THREADS ->
     if
     :: watch[w] == v + 1 -> watch[w] = HEAD_MOVED
     :: else
     fi;
     w++
  :: else -> break
  od;
  w = 0
}

/* Half of v into hand[0 .. n). In two steps: what it read, and the exchange. */
inline ring_grab(v) {
  do
  :: d_step { n = len(ring[v]); n = n - n / 2; watch[self] = v + 1 };
     if
     :: n == 0 -> break
     :: atomic {
          n > 0 && watch[self] == v + 1 ->
          k = 0;
          do
          :: k < n -> ring[v]?hand[k]; got(hand[k]); k++
          :: else -> break
          od;
          k = 0;
          head_moves(v)
        };
        break
     :: n > 0 && watch[self] == HEAD_MOVED
     fi
  od;
  watch[self] = 0
}

/* ---- Making ready ---------------------------------------------------------------- */

inline poller_wake(t) {
  token[t] = true
}

/* Puts fp on the ready queue of t. */
inline hand_over(t, fp) {
#ifdef MUTANT_HAND_OVER_IN_TWO
  old = ready_queue[t];
  d_step { put(fp); next[fp] = (old > READY_BUSY -> old : 0); ready_queue[t] = fp };
#else
  d_step {
    put(fp);
    old = ready_queue[t];
    next[fp] = (old > READY_BUSY -> old : 0);
    ready_queue[t] = fp
  };
#endif
#ifdef MUTANT_HAND_OVER_UNANNOUNCED
  skip
#else
  if
  :: old == READY_IDLE -> old = 0; poller_wake(t)
  :: else -> old = 0
  fi
#endif
}

/* Hands value, a fiber or READY_BUSY, to one idle thread, which is `chosen`. */
inline idle_search(me, value) {
  chosen = NONE;
  s = 0;
  select(start : 0 .. THREADS - 1);
  do
  :: s < ACTIVE && chosen == NONE ->
     d_step {
       t = (start + s) % ACTIVE;
       s++;
       if
       :: t != me && ready_queue[t] == READY_IDLE ->
          ready_queue[t] = value;
          chosen = t;
          if
          :: value > READY_BUSY -> put(value); next[value] = 0
          :: else
          fi
       :: else
       fi;
       t = 0
     }
  :: else -> break
  od;
  atomic { s = 0; start = 0 }
}

inline any_idle(me) {
  s = 0;
  again = false;
  do
  :: s < ACTIVE && !again ->
     d_step { again = (s != me && ready_queue[s] == READY_IDLE); s++ }
  :: else -> break
  od;
  s = 0
}

inline want_thread() {
#ifdef GROWTH
  if
  :: reserved < THREADS && !wanted -> wanted = true
  :: else
  fi
#else
  skip
#endif
}

inline wake_searcher(me) {
#ifdef MUTANT_NO_SEARCHER
  skip
#else
  do
  :: searching != SEARCHING_NOBODY -> break
  :: else ->
     if
     :: idle == 0 -> want_thread(); break
     :: else ->
        if
        :: atomic { searching == SEARCHING_NOBODY -> searching = SEARCHING_CHOOSING }
        :: else -> break
        fi;
        idle_search(me, READY_BUSY);
        searching = (chosen == NONE -> SEARCHING_NOBODY : chosen + 1);
        if
        :: chosen != NONE ->
           poller_wake(chosen);
           chosen = 0;
           break
        :: else -> chosen = 0
        fi;
#ifdef MUTANT_CHOICE_GIVEN_UP
        break
#else
        any_idle(me);
        if
        :: again -> again = false
        :: else -> break
        fi
#endif
     fi
  od
#endif
}

inline inject(fp) {
  d_step { put(fp); next[fp] = injected; injected = fp }
}

/* The older half of a full ring goes to the global queue. */
inline make_room() {
  atomic {                    /* ring_pop_all */
    n = 0;
    do
    :: len(ring[self]) > 0 -> ring[self]?hand[RING_SIZE / 2 + n]; got(hand[RING_SIZE / 2 + n]); n++
    :: else -> break
    od;
    head_moves(self)
  };
  s = (n > RING_SIZE / 2 -> RING_SIZE / 2 : 0);
  i = 0;
  do
  :: i < n ->
     if
     :: i < s -> inject(hand[RING_SIZE / 2 + i])
     :: else -> atomic { put(hand[RING_SIZE / 2 + i]); ring[self]!hand[RING_SIZE / 2 + i] }
     fi;
     atomic { hand[RING_SIZE / 2 + i] = 0; i++ }
  :: else -> break
  od;
  atomic { i = 0; n = 0; s = 0 };
#ifndef MUTANT_SHED_SILENTLY
  wake_searcher(self)
#else
  skip
#endif
}

/* fp goes on the own ring. */
inline push_movable(fp) {
  do
  :: atomic { len(ring[self]) < RING_SIZE -> put(fp); ring[self]!fp }; break
  :: len(ring[self]) == RING_SIZE -> make_room()
  od
}

/* cfiber_schedule, and schedule of sched.go where no thread may be added. */
inline schedule(me, fp) {
  again = (searching != SEARCHING_NOBODY);
  if
  :: !again && idle > 0 -> idle_search(me, fp)
  :: else -> chosen = NONE
  fi;
  if
  :: chosen != NONE -> poller_wake(chosen); chosen = 0
  :: else ->
     chosen = 0;
     inject(fp);
#ifdef MUTANT_SEARCHER_TRUSTED
     if
     :: again -> again = false
     :: else -> wake_searcher(me)
     fi
#else
     again = false;
     wake_searcher(me)
#endif
  fi
}

/* cfiber_ready on the thread self. */
inline ready(fp) {
  if
  :: BOUND(fp) -> d_step { put(fp); local_queue[self]!fp }
  :: else -> push_movable(fp); wake_searcher(self)
  fi
}

/* ---- Finding --------------------------------------------------------------------- */

/* Whether something that self has just taken may have to wait for another fiber of self. */
#ifdef MUTANT_LONE_FIBER_SILENT
#define MAY_WAIT(taken_now) (taken_now > 1)
#else
#define MAY_WAIT(taken_now) (taken_now > 0 && (len(local_queue[self]) > 0 || len(ring[self]) > 1))
#endif

/* Sorts `list`, newest first, into the queues of self. */
inline accept_list() {
  d_step {
    do
    :: list != 0 -> old = next[list]; next[list] = oldest; oldest = list; list = old
    :: else -> break
    od;
    old = 0;
    m = 0
  };
  do
  :: oldest != 0 ->
     d_step { f = oldest; oldest = next[f]; next[f] = 0; got(f) };
     if
     :: BOUND(f) -> d_step { put(f); local_queue[self]!f }
     :: else -> push_movable(f); m++
     fi
  :: else -> break
  od;
  f = 0;
  if
  :: MAY_WAIT(m) -> m = 0; wake_searcher(self)
  :: else -> m = 0
  fi
}

inline take_handed_over() {
  if
  :: ready_queue[self] > READY_BUSY ->
     d_step { list = ready_queue[self]; ready_queue[self] = READY_BUSY };
#ifndef MUTANT_TAKEN_UNSEEN
     if
     :: list > READY_BUSY -> accept_list()
     :: else -> list = 0
     fi
#else
     assert(list > READY_BUSY);
     accept_list()
#endif
  :: else
  fi
}

/* A fiber of the own queues, or 0. Which queue comes first is the picks' business. */
inline own() {
  f = 0;
  do
  :: atomic { len(ring[self]) > 0 -> ring[self]?f; got(f); head_moves(self) }; break
  :: atomic { len(local_queue[self]) > 0 -> local_queue[self]?f; got(f) }; break
  :: len(ring[self]) == 0 && len(local_queue[self]) == 0 ->
     if
     :: ready_queue[self] > READY_BUSY -> take_handed_over()
     :: else -> break
     fi
  od
}

/* refill_from_global, and admit_from_global of fibers that have started. */
inline take_global() {
  if
  :: injected != 0 || global_size != 0 ->
     atomic { !global_lock -> global_lock = true; list = injected; injected = 0 };
     atomic {
       do
       :: list != 0 -> old = next[list]; next[list] = oldest; oldest = list; list = old
       :: else -> break
       od;
       do
       :: oldest != 0 -> global_queue!oldest; oldest = next[oldest]
       :: else -> break
       od;
       old = 0;
       m = len(global_queue); /* size */
       n = m / ACTIVE + 1;
       n = (n > RING_SIZE / 2 -> RING_SIZE / 2 : n);
       n = (n > m -> m : n);
       k = 0;
       do
       :: k < n -> global_queue?hand[k]; next[hand[k]] = 0; got(hand[k]); k++
       :: else -> break
       od;
       k = 0;
       global_size = m - n;
       global_lock = false
     };
     j = n;
     n = 0;
     do
     :: k < j -> push_movable(hand[k]); atomic { hand[k] = 0; k++ }
     :: else -> break
     od;
     k = 0;
     found = (j > 0);
     if
     :: m > j || MAY_WAIT(j) -> j = 0; m = 0; wake_searcher(self)
     :: else -> j = 0; m = 0
     fi
  :: else -> found = false
  fi
}

/*
 * Sets found. A lone fiber is looked at twice, and left alone if the head has
 * moved meanwhile.
 */
inline worth_stealing(v) {
  d_step {
    n = len(ring[v]);
    found = (n > 1);
    if
    :: n == 1 -> watch[self] = v + 1
    :: else
    fi
  };
  if
  :: n == 1 -> d_step { found = (watch[self] == v + 1); watch[self] = 0; n = 0 }
  :: else -> n = 0
  fi
}

/* Sets found. */
inline steal() {
  found = false;
  v = 0;
  do
  :: v < ACTIVE && !found ->
     if
     :: v != self -> worth_stealing(v)
     :: else
     fi;
     if
     :: found ->
        ring_grab(v);
        d_step { j = n; n = 0; k = 0; found = (j > 0) };
        do
        :: k < j -> push_movable(hand[k]); atomic { hand[k] = 0; k++ }
        :: else -> break
        od;
        k = 0;
#ifndef MUTANT_THIEF_SILENT
        if
        :: j > 1 -> j = 0; wake_searcher(self)
        :: else -> j = 0
        fi
#else
        j = 0
#endif
     :: else
     fi;
     v++
  :: else -> break
  od;
  v = 0
}

/* Sets found. */
inline work_elsewhere() {
  found = false;
  v = 0;
  if
  :: injected != 0 -> found = true
  :: else ->
     if
     :: global_size != 0 -> found = true
     :: else ->
        do
        :: v < ACTIVE && !found ->
           if
           :: v != self -> worth_stealing(v)
           :: else
           fi;
           v++
        :: else -> break
        od;
        v = 0
     fi
  fi
}

/* ---- Idling ----------------------------------------------------------------------- */

/*
 * With EVENTS the poller of thread 0 delivers one, and one of its timers fires:
 * for the fibers EVENT_FIBER and TIMER_FIBER.
 */
#ifdef EVENTS
bool event_due, timer_due;
#define DUE(who) (who == 0 && (event_due || timer_due))
#else
#define DUE(who) false
#endif

/* What the poller of thread 0 has delivered. */
inline deliver() {
#ifdef EVENTS
  if
  :: event -> event = false; ready(EVENT_FIBER)
  :: else
  fi
#else
  skip
#endif
}

inline timers_fire() {
#ifdef EVENTS
  if
  :: atomic { self == 0 && timer_due -> timer_due = false }; ready(TIMER_FIBER)
  :: else
  fi
#else
  skip
#endif
}

/* cfiber_poller_wait with no time-out, and with one of zero. */
inline poller_wait() {
  atomic {
    token[self] || DUE(self);
    token[self] = false;
#ifdef EVENTS
    if
    :: self == 0 -> event = event_due; event_due = false
    :: else
    fi
#endif
  };
  deliver()
}

inline poll() {
  atomic {
    token[self] = false;
#ifdef EVENTS
    if
    :: self == 0 -> event = event_due; event_due = false
    :: else
    fi
#endif
  };
  deliver()
}

/* Is awake again, and goes on with what has been handed over. */
inline come_back() {
  d_step { list = ready_queue[self]; ready_queue[self] = READY_BUSY };
#ifdef WATCHDOG
  notify_watchdog();
#else
  idle--;
#endif
#ifndef MUTANT_CHOICE_NOT_AWAITED
  if
  :: list != READY_IDLE -> searching != SEARCHING_CHOOSING
  :: else
  fi;
#endif
#ifndef MUTANT_TIMERS_AFTER_LIST
  timers_fire();
#endif
  if
  :: list > READY_BUSY -> accept_list()
  :: else -> list = 0
  fi
#ifdef MUTANT_TIMERS_AFTER_LIST
  ;
  timers_fire()
#endif
}

/* Waits a moment as the one who searches; `found` if there is something. */
inline linger() {
#ifdef LINGERS
  if
  :: atomic { searching == SEARCHING_NOBODY -> searching = self + 1 };
     if
     :: ready_queue[self] > READY_BUSY || injected != 0 -> found = true
     :: skip
     fi
  :: skip
  fi
#else
  skip
#endif
}

inline go_idle() {
#ifndef MUTANT_ASKED_AFTER_ANNOUNCING
  was_searching = (searching == self + 1);
#endif
#ifdef MUTANT_LOOK_THEN_ANNOUNCE
  work_elsewhere();
#endif
  if
  :: atomic { ready_queue[self] == READY_BUSY -> ready_queue[self] = READY_IDLE };
     idle++;
#ifdef MUTANT_ASKED_AFTER_ANNOUNCING
     was_searching = (searching == self + 1);
#endif
     if
     :: was_searching -> searching = SEARCHING_NOBODY
     :: else
     fi;
#ifndef MUTANT_LOOK_THEN_ANNOUNCE
     work_elsewhere();
#endif
     if
     :: found ->
        found = false;
#ifndef MUTANT_SEARCH_NOT_RESUMED
        if
        :: atomic { was_searching && searching == SEARCHING_NOBODY -> searching = self + 1 }
        :: else
        fi;
#endif
        was_searching = false
     :: !found ->
        was_searching = false;
        if
        :: stop
        :: else -> poller_wait()
        fi
     fi;
     come_back()
  :: else -> was_searching = false; found = false
  fi
}

/* Sees to what comes from elsewhere while there are fibers to run. */
inline look_around() {
  poll();
  timers_fire();
  take_handed_over();
  if
  :: len(ring[self]) == 0 || len(local_queue[self]) == 0 -> take_global()
  :: else
  fi;
  found = false
}

/* What a searcher does that has found f. */
inline end_search() {
  if
  :: searching == self + 1 ->
     searching = SEARCHING_NOBODY;
#ifndef MUTANT_NO_NEXT_SEARCHER
     if
     :: len(ring[self]) > 0 -> found = true
     :: len(ring[self]) == 0 -> work_elsewhere()
     fi;
     if
     :: found -> found = false; wake_searcher(self)
     :: else
     fi
#endif
  :: else
  fi
}

/* The locals of whoever runs these. */
#define LOCALS \
  byte f, t, v, w, s, i, j, k, m, n, start, chosen, old, oldest, list; \
  byte hand[RING_SIZE + RING_SIZE / 2]; \
  bool found, again, was_searching, event, left

/*
 * cfiber_thread_run with cfiber_find_ready_fiber. RUN runs f, which is in hand.
 * The tick runs out only when a fiber is left.
 */
#define THREAD_LOOP(RUN) \
  do \
  :: if \
     :: skip \
     :: LOOKS_AROUND && left -> look_around() \
     fi; \
     left = false; \
     own(); \
     if \
     :: f == 0 -> \
        take_global(); \
        if \
        :: found -> skip \
        :: else -> steal() \
        fi; \
        if \
        :: found -> found = false; own() \
        :: else \
        fi \
     :: else \
     fi; \
     if \
     :: f != 0 -> \
        end_search(); \
        assert(searching != self + 1); \
        RUN; \
        left = true \
     :: else -> \
        if \
        :: stop -> \
           if \
           :: searching == self + 1 -> searching = SEARCHING_NOBODY \
           :: else \
           fi; \
           break \
        :: else -> \
           linger(); \
           if \
           :: found -> found = false \
           :: else -> go_idle() \
           fi \
        fi \
     fi \
  od
