/*
 * claim.pml - the entries of rings in csrc/join.c and csrc/sched.c: a joiner starts its child, whose
 * entry may lie anywhere on the ring, while thieves take entries.
 *
 * A parent spawns children and joins them in any order; a join may be given up, and tried again.
 * The ring's own steps are whole, as ring.pml shows. A channel is the ring.
 */
#ifndef RECORDS
#define RECORDS 3
#endif
#ifndef SPAWNS
#define SPAWNS 5              /* more than there are records: they are used again */
#endif
#ifndef RING_SIZE
#define RING_SIZE 2
#endif
#ifndef THIEVES
#define THIEVES 1
#endif

/* The values of a record's `queued`. */
#define NONE 0
#define CLAIMABLE 1
#define CLAIMED 2
#define ENDED 3

chan ring = [RING_SIZE] of { byte };
chan global = [RECORDS] of { byte };

byte queued[RECORDS];
bool unused[RECORDS] = true;
bool started[RECORDS], waits[RECORDS], ended[RECORDS];
byte entries[RECORDS];        /* on the ring, or in the hand of who has taken them and not looked */
bool over;

/* ---- Records ---- */

inline put_back(f) {
  atomic {
    assert(!unused[f] && !entries[f] && (!started[f] || ended[f]));
    unused[f] = true
  }
}

inline cfiber_fiber_release(f) {
#ifdef MUTANT_ENTRY_FORGOTTEN
  put_back(f)
#else
  atomic { q = queued[f] };
  if
#ifdef MUTANT_END_IN_TWO
  :: q == CLAIMED -> queued[f] = ENDED
#else
  :: atomic { q == CLAIMED && queued[f] == CLAIMED -> queued[f] = ENDED }
#endif
  :: atomic { q != CLAIMED || queued[f] != CLAIMED -> put_back(f) }
  fi;
#endif
  q = NONE
}

/* fiber is whether f is one to run. */
inline void_or_fiber(f, fiber) {
#ifdef MUTANT_VOID_IN_TWO
  q = queued[f];
  atomic { queued[f] = NONE; entries[f]-- };
#else
  atomic { q = queued[f]; queued[f] = NONE; entries[f]-- };
#endif
  if
  :: q == CLAIMED -> fiber = false
  :: q == ENDED -> fiber = false; cfiber_fiber_release(f)
  :: else -> fiber = true
  fi;
  q = NONE
}

/* Until it ends or waits. */
inline runs(f) {
  atomic { assert(!unused[f] && !started[f]); started[f] = true };
  if
  :: ended[f] = true
  :: waits[f] = true
  fi
}

/* ---- The parent, and its thread while it waits ---- */

inline make_room() {
  atomic {                                /* ring_pop_all */
    n = 0;
    do
    :: nempty(ring) -> ring ? all[n]; n++
    :: empty(ring) -> break
    od
  };
  i = 0;
  do
  :: i < n ->
     if
     :: queued[all[i]] < CLAIMED ->       /* is_void: not now */
        if
        :: ring ! all[i]
        :: void_or_fiber(all[i], mine);   /* shed */
           if
           :: mine -> global ! all[i]; mine = false
           :: else
           fi
        fi
     :: else ->
#ifdef MUTANT_ROOM_UNCHECKED
        entries[all[i]]--
#else
        void_or_fiber(all[i], mine)
#endif
     fi;
     all[i] = 0;
     i++
  :: else -> break
  od;
  i = 0;
  n = 0
}

inline cfiber_spawn(f) {
  atomic {
    assert(!entries[f]);
    unused[f] = false;
    queued[f] = CLAIMABLE;
    started[f] = false;
    waits[f] = false;
    ended[f] = false;
    child[f] = true;
    children++;
    spawned++
  };
  do
  :: atomic { nfull(ring) -> ring ! f; entries[f]++ }; break
  :: full(ring) -> make_room()
  od
}

inline claim(f, claimed) {
  if
  :: atomic { ring ? [eval(f)] -> ring ? f; entries[f]-- };  /* ring_pop_if */
     claimed = true;
#ifndef MUTANT_POPPED_CLAIMABLE
     queued[f] = NONE
#endif
  :: else ->
#ifdef MUTANT_CLAIM_IN_TWO
     claimed = (queued[f] == CLAIMABLE);
     if
     :: claimed -> queued[f] = CLAIMED
     :: else
     fi
#else
     atomic {
       claimed = (queued[f] == CLAIMABLE);
       if
       :: claimed -> queued[f] = CLAIMED
       :: else
       fi
     }
#endif
  fi
}

inline cfiber_join(f) {
  if
  :: queued[f] == CLAIMABLE -> claim(f, mine)    /* may_call */
  :: else
  fi;
  if
  :: mine -> mine = false; runs(f)
  :: else
  fi;
  do
  :: ended[f] -> child[f] = false; children--; cfiber_fiber_release(f); break
  :: waits[f] && !ended[f] -> break              /* given up: not joined yet */
  :: ring ? g ->                                 /* meanwhile */
     void_or_fiber(g, mine);
     if
     :: mine -> mine = false; runs(g)
     :: else
     fi;
     g = 0
  od
}

proctype parent() {
  bool child[RECORDS];                           /* spawned, and not joined */
  byte all[RING_SIZE];
  byte n, i, q, f, g, spawned, children;
  bool mine;
  do
  :: spawned < SPAWNS || children > 0 ->
     select (f : 0 .. RECORDS - 1);
     if
     :: atomic { spawned < SPAWNS && unused[f] && !child[f] } -> cfiber_spawn(f)
     :: child[f] -> cfiber_join(f)
     :: else
     fi;
     f = 0
  :: else -> break
  od;
  do
  :: ring ? g -> void_or_fiber(g, mine); assert(!mine)
  :: empty(ring) -> break
  od;
  over = true
}

/* ---- Others ---- */

proctype thief() {
  byte f, q;
  bool mine;
  do
  :: ring ? f ->
     void_or_fiber(f, mine);
     if
     :: mine -> mine = false; runs(f)
     :: else
     fi;
     f = 0
  :: global ? f -> runs(f); f = 0
  :: over && empty(ring) && empty(global) -> break
  od
}

/* What a child waits for. */
proctype events(byte f) {
  do
  :: atomic { waits[f] && !ended[f] -> ended[f] = true }
  :: over -> break
  od
}

init {
  byte i;
  atomic {
    run parent();
    for (i : 0 .. RECORDS - 1) {
      run events(i)
    }
    for (i : 1 .. THIEVES) {
      run thief()
    }
  };
  atomic {
    _nr_pr == 1;
    for (i : 0 .. RECORDS - 1) {
      assert(unused[i] && !entries[i])           /* none is lost */
    }
  }
}
