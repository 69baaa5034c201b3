/*
 * ring.pml - csrc/ring.h: an owner that pushes and pops, and thieves.
 *
 * Each load and each store is a step, but for the copying of entries between
 * two loads: the order of those does not matter. protocol.pml takes from here
 * that a push, a pop and a grab happen at one instant.
 */
#ifndef RING_SIZE
#define RING_SIZE 2
#endif
#ifndef FIBERS
#define FIBERS 3             /* more than fit: entries are overwritten */
#endif
#ifndef THIEVES
#define THIEVES 2
#endif
#ifndef ATTEMPTS
#define ATTEMPTS 2            /* of each thief */
#endif
#define END (FIBERS + 1)      /* fibers are 1 .. FIBERS */

byte ring_head, ring_tail;    /* they do not wrap: there are fewer pushes */
byte ring[RING_SIZE];
bool pushed[END], taken[END];
byte thieves_left = THIEVES;

inline take(f) {
  assert(f != 0 && pushed[f] && !taken[f]);
  taken[f] = true
}

inline ring_push(f, done) {
  tail = ring_tail;
  head = ring_head;
  if
  :: tail - head >= RING_SIZE -> done = false
  :: else ->
#ifdef MUTANT_TAIL_FIRST
     ring_tail = tail + 1;
     atomic { ring[tail % RING_SIZE] = f; pushed[f] = true };
#else
     ring[tail % RING_SIZE] = f;
     atomic { ring_tail = tail + 1; pushed[f] = true };
#endif
     done = true
  fi
}

/* f is 0 if the ring is empty. */
inline ring_pop(f) {
  tail = ring_tail;
  head = ring_head;
  f = 0;
  do
  :: head != tail ->
     f = ring[head % RING_SIZE];
#ifdef MUTANT_POP_IN_TWO
     if
     :: ring_head == head -> atomic { ring_head = head + 1; take(f) }; break
     :: else -> f = 0; head = ring_head
     fi
#else
     if
     :: atomic { ring_head == head -> ring_head = head + 1; take(f) }; break
     :: atomic { else -> head = ring_head; f = 0 }
     fi
#endif
  :: else -> break
  od
}

inline ring_grab() {
  do
  :: head = ring_head;
     tail = ring_tail;
     n = tail - head;
     n = n - n / 2;
     if
     :: n == 0 -> break
#ifndef MUTANT_STALE_SIZE
     :: n > RING_SIZE / 2
#endif
     :: else ->
        i = 0;
        do
        :: i < n ->
           assert(i < RING_SIZE / 2); /* there is room for no more */
           out[i] = ring[(head + i) % RING_SIZE];
           i++
        :: else -> break
        od;
        if
        :: atomic {
             ring_head == head -> ring_head = head + n;
             i = 0;
             do
             :: i < n -> take(out[i]); out[i] = 0; i++
             :: else -> break
             od
           };
           break
        :: else
        fi
     fi
  od
}

proctype owner() {
  byte head, tail, f, next_fiber = 1;
  bool done;
  do
  :: next_fiber < END ->
     ring_push(next_fiber, done);
     if
     :: done -> next_fiber++
     :: else -> ring_pop(f)
     fi
  :: next_fiber < END -> ring_pop(f)
  :: next_fiber == END -> break
  od;
  thieves_left == 0;
  do
  :: ring_head != ring_tail -> ring_pop(f)
  :: else -> break
  od;
  for (f : 1 .. FIBERS) {
    assert(taken[f])
  }
}

proctype thief() {
  byte head, tail, n, i, attempts;
  byte out[RING_SIZE / 2];
  do
  :: attempts < ATTEMPTS -> ring_grab(); attempts++
  :: else -> break
  od;
  thieves_left--
}

init {
  byte i;
  atomic {
    run owner();
    for (i : 1 .. THIEVES) {
      run thief()
    }
  }
}
