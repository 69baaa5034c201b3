/*
 * random_program.h - programs for random_test.c: how any list of numbers becomes a program of
 * fibers that must end, whatever the scheduler does.
 *
 * A program is one list of operations, each done by an actor: a fiber, or a thread outside of
 * the runtime. The list is an order in which all of it could be done one by one by a single
 * thread. An actor does its own operations in that order, and an operation waits for nothing
 * but operations before it in the list (or, of a transfer, its other half, which is next to
 * it). So the first one that is not done can always be done, and a program that does not end
 * is the fault of the runtime.
 *
 * The list also is the reference: program_build goes through it once and knows, at each place,
 * who lives, what lies in which channel, who has been cancelled and who holds whose handle.
 *
 * Each number adds at most a few operations, and none where what it asks for cannot be had
 * there. So any part of a list of numbers is a program too, and a program that fails can be
 * made smaller by leaving numbers out.
 */
#ifndef RANDOM_PROGRAM_H
#define RANDOM_PROGRAM_H

#include "testing.h"

enum {
  MAX_WORDS = 160,
  MAX_OPS = 512,
  MAX_ACTORS = 24, /* bits of an uint32_t */
  MAX_CHANNELS = 24,
  MAX_SIGNALS = 16,
  MAX_OUTSIDE = 2,
  CAPACITY = 4000, /* less than the least of pipes holds */
  NOBODY = 255,
};

enum op_kind {
  OP_SPAWN,       /* a: the child */
  OP_JOIN,        /* a: whom, which has ended; by its parent or another */
  OP_DETACH,      /* a: the child */
  OP_CANCEL,      /* a: whom */
  OP_CANCEL_SELF, /*  */
  OP_SHIELD,      /* n: on */
  OP_DEADLINE,    /* n: ns from now; 0: none */
  OP_YIELD,
  OP_SLEEP,       /* n: ns */
  OP_FOREVER,     /* n: how; the actor has been cancelled by now */
  OP_TIMED,       /* n: how; with a deadline of its own */
  OP_SIGNAL,      /* a: which */
  OP_WAIT,        /* a: which, which has been given */
  OP_STRAY_WAKE,  /* of a wait that is over */
  OP_SELF_WAKE,   /* a wake before the park */
  OP_OPEN,        /* a: the channel */
  OP_WRITE,       /* a: the channel, n: bytes */
  OP_READ,        /* a: the channel, n: bytes */
  OP_POLL,        /* a: the channel that is read, n: timeout in ms; UINT32_MAX: none */
  OP_WAIT_FD,     /* a: the channel, which holds something or will end */
  OP_CLOSE,       /* a: the channel, b: which end, of one's own */
  OP_CLOSE_UNDER, /* a: the channel, b: which end, of another's; n: when that one meets it */
  OP_DRAIN,       /* a: the channel, whose writer has closed it; several may */
  OP_CHURN,       /* opens, uses and closes descriptors */
  OP_CROWD,       /* n: fibers that anybody may run, at once */
  OP_NATIVE,      /* waits on the native stack */
  OP_CLOSING,     /* the runtime is being closed: everybody is cancelled */
  OP_END,         /* of the actor */
  OP_KINDS
};

static const char *const op_names[OP_KINDS] = {
    [OP_SPAWN] = "spawn",
    [OP_JOIN] = "join",
    [OP_DETACH] = "detach",
    [OP_CANCEL] = "cancel",
    [OP_CANCEL_SELF] = "cancel itself",
    [OP_SHIELD] = "shield",
    [OP_DEADLINE] = "deadline in ns",
    [OP_YIELD] = "yield",
    [OP_SLEEP] = "sleep ns",
    [OP_FOREVER] = "wait for ever, way",
    [OP_TIMED] = "wait with a deadline, way",
    [OP_SIGNAL] = "signal",
    [OP_WAIT] = "wait for signal",
    [OP_STRAY_WAKE] = "wake a wait that is over",
    [OP_SELF_WAKE] = "wake itself before parking",
    [OP_OPEN] = "open channel",
    [OP_WRITE] = "write to channel",
    [OP_READ] = "read from channel",
    [OP_POLL] = "poll channel",
    [OP_WAIT_FD] = "wait_fd on channel",
    [OP_CLOSE] = "close its end of channel",
    [OP_CLOSE_UNDER] = "close another's end of channel",
    [OP_DRAIN] = "read to its end channel",
    [OP_CHURN] = "use descriptors for a moment",
    [OP_CROWD] = "spawn and join a crowd of",
    [OP_NATIVE] = "wait on the native stack",
    [OP_CLOSING] = "close the runtime",
    [OP_END] = "end",
};

struct op {
  uint8_t kind, actor, a, b;
  uint32_t n;
  int next; /* of the same actor; -1: none */
};

enum { READ_END, WRITE_END };

/* ---- What is known of actors and channels -------------------------------------------------- */

/* Counted up by some, waited for by others; see random_test.c. */
struct event {
  _Atomic(uint32_t) lock;
  _Atomic uint32_t count;
  struct event_waiter *waiters;
};

struct actor {
  /* The reference's. */
  bool outside; /* a thread */
  bool ended, joined, detached, cancelled, shielded;
  uint8_t parent, joiner;
  unsigned flags;
  size_t stack_size;
  uint32_t cancels;  /* by others: each needs the handle */
  uint32_t given[2]; /* channels whose ends it owns from the beginning */
  int first, last;   /* operations */

  /* Of a run. */
  struct event spawned, released; /* released: counts the cancels that are done */
  cfiber_t *fiber;                /* NULL: could not be spawned */
  _Atomic int started, finished, at;
  _Atomic bool may_be_cancelled;
};

enum channel_kind { PIPE, SOCKETPAIR, TCP };

struct channel {
  /* The reference's. */
  uint8_t kind, opener, owner[2];
  bool exposed;        /* others may close its ends: their numbers are not used again */
  bool shared;         /* several read it to its end */
  bool closed_by_plan; /* by its writer */
  bool under[2];       /* closed by another */
  uint32_t holds, writes;
  uint32_t known; /* to which actors */

  /* Of a run. */
  int fd[2];
  bool opened;
  _Atomic bool closed[2], at_end;
  _Atomic(uint64_t) written, read;
};

struct program {
  uint64_t seed;
  unsigned threads, migrate, outside;
  int nops, nactors, nchannels, initial_channels;
  bool closes;
  struct op ops[MAX_OPS];
  struct actor actors[MAX_ACTORS];
  struct channel channels[MAX_CHANNELS];
  bool signalled[MAX_SIGNALS];

  /* Of a run. */
  struct event signals[MAX_SIGNALS];
  struct cfiber_runtime *rt;
  _Atomic bool closing;
  _Atomic int next_number;
  _Atomic(uint32_t) stale_lock;
  struct cfiber *stale; /* some wait that is over */
  uint64_t stale_epoch;
  int outside_done[2]; /* a pipe: a byte from each thread outside */
  _Atomic(uint32_t) outside_ended;
};

/* splitmix64 */
static uint64_t mix(uint64_t x) {
  x += UINT64_C(0x9e3779b97f4a7c15);
  x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
  x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
  return x ^ x >> 31;
}

/* Numbers out of one number. */
static uint32_t pick(uint64_t *word, uint32_t below) {
  *word = mix(*word);
  return (uint32_t)(*word >> 32) % below;
}

/* ---- Building ------------------------------------------------------------------------------- */

static void add(struct program *p, enum op_kind kind, int actor, int a, int b, uint32_t n) {
  struct actor *who = &p->actors[actor];
  int i = p->nops++;
  p->ops[i] = (struct op){(uint8_t)kind, (uint8_t)actor, (uint8_t)a, (uint8_t)b, n, -1};
  if (who->last >= 0)
    p->ops[who->last].next = i;
  else
    who->first = i;
  who->last = i;
}

static int new_actor(struct program *p, int parent, bool outside) {
  int i = p->nactors++;
  p->actors[i] = (struct actor){
      .outside = outside, .parent = (uint8_t)parent, .joiner = NOBODY, .first = -1, .last = -1};
  return i;
}

static int new_channel(struct program *p, enum channel_kind kind, int opener) {
  int i = p->nchannels++;
  p->channels[i] = (struct channel){.kind = (uint8_t)kind,
                                    .opener = (uint8_t)opener,
                                    .owner = {(uint8_t)opener, (uint8_t)opener},
                                    .known = UINT32_C(1) << opener,
                                    .fd = {-1, -1}};
  return i;
}

static bool room(const struct program *p) {
  /* Each actor still needs its end, and a number adds three operations at most. */
  return p->nops + 2 * MAX_ACTORS + 4 < MAX_OPS;
}

/* One of those that may still do something; NOBODY is never the answer, for the root ends last. */
static int any_living(struct program *p, uint64_t *w) {
  int living[MAX_ACTORS], n = 0;
  for (int i = 0; i < p->nactors; i++)
    if (!p->actors[i].ended)
      living[n++] = i;
  return living[pick(w, (uint32_t)n)];
}

/* Some channel of whose `end` the actor is the owner; -1: there is none. */
static int any_owned(struct program *p, uint64_t *w, int actor, int end) {
  int owned[MAX_CHANNELS], n = 0;
  for (int i = 0; i < p->nchannels; i++)
    if (p->channels[i].owner[end] == actor)
      owned[n++] = i;
  return n ? owned[pick(w, (uint32_t)n)] : -1;
}

static void give_end(struct program *p, int channel, int end, int actor) {
  p->channels[channel].owner[end] = (uint8_t)actor;
  p->actors[actor].given[end] |= UINT32_C(1) << channel;
}

static void add_spawn(struct program *p, int actor, uint64_t w) {
  static const size_t sizes[] = {0, 0, 0, 64 * 1024, 128 * 1024};
  if (p->nactors == MAX_ACTORS || p->actors[actor].outside)
    return;
  int child = new_actor(p, actor, false);
  struct actor *c = &p->actors[child];
  c->stack_size = sizes[pick(&w, 5)];
  c->flags = (pick(&w, 3) ? 0 : CFIBER_MIGRATABLE) | (pick(&w, 6) ? 0 : CFIBER_KEEP_FP) |
             (pick(&w, 8) ? 0 : CFIBER_DETACHED);
  c->detached = c->flags & CFIBER_DETACHED;
  add(p, OP_SPAWN, actor, child, 0, 0);
  /* What its parent knows it knows, and some of what the parent owns it is given. */
  for (int i = 0; i < p->nchannels; i++) {
    struct channel *ch = &p->channels[i];
    if (!(ch->known >> actor & 1))
      continue;
    ch->known |= UINT32_C(1) << child;
    uint32_t give = pick(&w, 4);
    if (give < 2 && ch->owner[give] == actor)
      give_end(p, i, (int)give, child);
  }
}

static bool has_handle(const struct actor *a) {
  return !a->outside && !a->joined && !a->detached;
}

static void add_join(struct program *p, int actor, uint64_t w) {
  for (int tries = 0; tries < 4; tries++) {
    int v = (int)pick(&w, (uint32_t)p->nactors);
    struct actor *whom = &p->actors[v];
    bool mine = whom->parent == actor || pick(&w, 4) == 0;
    if (v == 0 || v == actor || !whom->ended || !has_handle(whom) || !mine)
      continue;
    whom->joined = true;
    whom->joiner = (uint8_t)actor;
    add(p, OP_JOIN, actor, v, 0, 0);
    return;
  }
}

static void add_detach(struct program *p, int actor, uint64_t w) {
  int v = (int)pick(&w, (uint32_t)p->nactors);
  struct actor *whom = &p->actors[v];
  if (v == 0 || whom->parent != actor || !has_handle(whom))
    return;
  whom->detached = true;
  add(p, OP_DETACH, actor, v, 0, 0);
}

static void add_cancel(struct program *p, int actor, uint64_t w) {
  int v = (int)pick(&w, (uint32_t)p->nactors);
  struct actor *whom = &p->actors[v];
  if (v == actor || !has_handle(whom))
    return;
  whom->cancelled = true;
  whom->cancels++;
  add(p, OP_CANCEL, actor, v, 0, 0);
}

static void add_cancel_self(struct program *p, int actor) {
  if (p->actors[actor].outside)
    return;
  p->actors[actor].cancelled = true;
  add(p, OP_CANCEL_SELF, actor, 0, 0, 0);
}

static void add_shield(struct program *p, int actor) {
  struct actor *who = &p->actors[actor];
  if (who->outside)
    return;
  who->shielded = !who->shielded;
  add(p, OP_SHIELD, actor, 0, 0, who->shielded);
}

/* A deadline, and something that may meet it. */
static void add_deadline(struct program *p, int actor, uint64_t w) {
  static const uint32_t spans[] = {0, 0, 20000, 300000, 1000000000};
  if (!p->actors[actor].outside)
    add(p, OP_DEADLINE, actor, 0, 0, spans[pick(&w, 5)]);
}

enum { WAYS = 7 }; /* to wait for ever, see random_test.c */

static void add_forever(struct program *p, int actor, uint64_t w) {
  const struct actor *who = &p->actors[actor];
  if (!who->outside && who->cancelled && !who->shielded)
    add(p, OP_FOREVER, actor, 0, 0, pick(&w, WAYS));
  else if (!who->outside)
    add(p, OP_TIMED, actor, 0, 0, pick(&w, WAYS));
}

/* A cancel, and for its victim a wait that only the cancel ends. */
static void add_cancelled_wait(struct program *p, int actor, uint64_t w) {
  int v = any_living(p, &w);
  const struct actor *whom = &p->actors[v];
  if (v == actor || whom->outside || whom->shielded || !has_handle(whom))
    return;
  p->actors[v].cancelled = true;
  p->actors[v].cancels++;
  add(p, OP_CANCEL, actor, v, 0, 0);
  add(p, OP_FOREVER, v, 0, 0, pick(&w, WAYS));
}

static void add_signal(struct program *p, int actor, uint64_t w) {
  int s = (int)pick(&w, MAX_SIGNALS);
  if (p->signalled[s])
    return;
  p->signalled[s] = true;
  add(p, OP_SIGNAL, actor, s, 0, 0);
  int other = any_living(p, &w);
  if (other != actor)
    add(p, OP_WAIT, other, s, 0, 0);
}

static void add_open(struct program *p, int actor, uint64_t w) {
  if (p->nchannels == MAX_CHANNELS || p->actors[actor].outside)
    return;
  int i = new_channel(p, (enum channel_kind)pick(&w, 3), actor);
  p->channels[i].exposed = pick(&w, 3) == 0;
  if (!p->channels[i].exposed && pick(&w, 5) == 0) {
    p->channels[i].shared = true;
    p->channels[i].owner[READ_END] = NOBODY;
  }
  add(p, OP_OPEN, actor, i, 0, 0);
}

/* So much that it stays there until somebody reads. */
static void add_write(struct program *p, int actor, uint64_t w) {
  int i = any_owned(p, &w, actor, WRITE_END);
  if (i < 0)
    return;
  struct channel *ch = &p->channels[i];
  uint32_t n = 1 + pick(&w, pick(&w, 2) ? 1000 : 10);
  if (ch->holds + n > CAPACITY || ch->writes == 12)
    return;
  ch->holds += n;
  ch->writes++;
  add(p, OP_WRITE, actor, i, 0, n);
}

static void add_read(struct program *p, int actor, uint64_t w) {
  int i = any_owned(p, &w, actor, READ_END);
  if (i < 0 || p->channels[i].holds == 0)
    return;
  struct channel *ch = &p->channels[i];
  uint32_t n = pick(&w, 2) ? ch->holds : 1 + pick(&w, ch->holds);
  ch->holds -= n;
  ch->writes = ch->holds ? ch->writes : 0;
  add(p, OP_READ, actor, i, 0, n);
}

/* More than fits: the writer and the reader wait for each other. */
static void add_transfer(struct program *p, int actor, uint64_t w) {
  int i = any_owned(p, &w, actor, WRITE_END);
  if (i < 0)
    return;
  int reader = p->channels[i].owner[READ_END];
  if (reader == NOBODY || reader == actor || p->channels[i].under[READ_END])
    return;
  uint32_t n = 1 + pick(&w, 400000);
  add(p, OP_WRITE, actor, i, 0, n);
  add(p, OP_READ, reader, i, 0, n);
}

static void add_poll(struct program *p, int actor, uint64_t w) {
  int i = any_owned(p, &w, actor, READ_END);
  if (i < 0)
    return;
  const struct channel *ch = &p->channels[i];
  bool ends = ch->holds > 0 || ch->closed_by_plan || ch->under[READ_END] || ch->under[WRITE_END];
  if (ends && pick(&w, 2))
    add(p, OP_WAIT_FD, actor, i, 0, 0);
  else
    add(p, OP_POLL, actor, i, 0, ends ? UINT32_MAX : pick(&w, 2));
}

static void add_close(struct program *p, int actor, uint64_t w) {
  int end = (int)pick(&w, 2), i = any_owned(p, &w, actor, end);
  if (i < 0)
    return;
  struct channel *ch = &p->channels[i];
  ch->owner[end] = NOBODY;
  if (end == WRITE_END)
    ch->closed_by_plan = true;
  add(p, OP_CLOSE, actor, i, end, 0);
  /* Some read it to its end. */
  for (int k = 0; end == WRITE_END && ch->shared && k < 2; k++) {
    int other = any_living(p, &w);
    if (ch->known >> other & 1)
      add(p, OP_DRAIN, other, i, 0, 0);
  }
}

/* Somebody closes an end that another has, who then finds it closed, or is woken by that. */
static bool close_under(struct program *p, int actor, int channel, int end, uint64_t *w) {
  struct channel *ch = &p->channels[channel];
  int owner = ch->owner[end];
  if (!ch->exposed || !(ch->known >> actor & 1) || owner == NOBODY || owner == actor)
    return false;
  ch->under[end] = true;
  ch->owner[end] = NOBODY;
  ch->closed_by_plan |= end == WRITE_END;
  add(p, OP_CLOSE_UNDER, actor, channel, end, (uint32_t)p->nops + 1);
  if (end == READ_END)
    add(p, pick(w, 2) ? OP_READ : OP_WAIT_FD, owner, channel, 0, 1 + ch->holds);
  else
    add(p, OP_WRITE, owner, channel, 0, 1000000);
  return true;
}

static void add_close_under(struct program *p, int actor, uint64_t w) {
  for (int tries = 0; tries < 10 && p->nchannels; tries++)
    if (close_under(p, actor, (int)pick(&w, (uint32_t)p->nchannels), (int)pick(&w, 2), &w))
      return;
}

static void add_crowd(struct program *p, int actor, uint64_t w) {
  if (!p->actors[actor].outside)
    add(p, OP_CROWD, actor, 0, 0, 1 + pick(&w, pick(&w, 4) ? 20 : 400));
}

static void add_closing(struct program *p, int actor, uint64_t w) {
  if (p->closes || pick(&w, 3))
    return;
  p->closes = true;
  for (int i = 0; i < p->nactors; i++)
    p->actors[i].cancelled = true;
  add(p, OP_CLOSING, actor, 0, 0, 0);
}

/* Whoever ends collects its children before. */
static void add_end(struct program *p, int actor) {
  for (int i = 1; i < p->nactors; i++) {
    const struct actor *a = &p->actors[i];
    if (a->parent == actor && has_handle(a) && !a->ended)
      return;
  }
  if (actor == 0)
    return; /* the root ends last */
  p->actors[actor].ended = true;
  for (int i = 1; i < p->nactors; i++)
    if (p->actors[i].parent == actor && has_handle(&p->actors[i]))
      p->actors[i].joined = true;
  for (int i = 0; i < p->nchannels; i++) {
    struct channel *ch = &p->channels[i];
    for (int end = 0; end < 2; end++) {
      if (ch->owner[end] != actor)
        continue;
      ch->owner[end] = NOBODY;
      ch->closed_by_plan |= end == WRITE_END;
    }
  }
  add(p, OP_END, actor, 0, 0, 0);
}

static void add_one(struct program *p, uint64_t w) {
  int actor = any_living(p, &w);
  uint32_t kind = pick(&w, 64);
  if (kind < 9)
    add_spawn(p, actor, w);
  else if (kind < 12)
    add_join(p, actor, w);
  else if (kind < 13)
    add_detach(p, actor, w);
  else if (kind < 14)
    add_cancel(p, actor, w);
  else if (kind < 16)
    add_cancelled_wait(p, actor, w);
  else if (kind < 17)
    add_cancel_self(p, actor);
  else if (kind < 19)
    add_shield(p, actor);
  else if (kind < 21)
    add_deadline(p, actor, w);
  else if (kind < 23)
    add_forever(p, actor, w);
  else if (kind < 26)
    add(p, OP_YIELD, actor, 0, 0, 0);
  else if (kind < 28)
    add(p, OP_SLEEP, actor, 0, 0, pick(&w, 8) ? pick(&w, 100000) : 1000000);
  else if (kind < 32)
    add_signal(p, actor, w);
  else if (kind < 34)
    add(p, OP_STRAY_WAKE, actor, 0, 0, 0);
  else if (kind < 35)
    add(p, OP_SELF_WAKE, actor, 0, 0, 0);
  else if (kind < 39)
    add_open(p, actor, w);
  else if (kind < 43)
    add_write(p, actor, w);
  else if (kind < 46)
    add_read(p, actor, w);
  else if (kind < 49)
    add_transfer(p, actor, w);
  else if (kind < 51)
    add_poll(p, actor, w);
  else if (kind < 53)
    add_close(p, actor, w);
  else if (kind < 55)
    add_close_under(p, actor, w);
  else if (kind < 57)
    add(p, OP_CHURN, actor, 0, 0, pick(&w, 3));
  else if (kind < 58)
    add(p, OP_NATIVE, actor, 0, 0, 0);
  else if (kind < 59)
    add_closing(p, actor, w);
  else if (kind < 60)
    add_crowd(p, actor, w);
  else
    add_end(p, actor);
}

/*
 * Threads outside exist from the beginning, each with a channel in each direction, and one
 * that it may only close. (A thread that is blocked in a read would not hear of a close.)
 */
static void add_outside(struct program *p) {
  for (unsigned i = 0; i < p->outside; i++) {
    int actor = new_actor(p, NOBODY, true);
    for (int way = 0; way < 3; way++) {
      int ch = new_channel(p, way ? PIPE : SOCKETPAIR, 0);
      give_end(p, ch, READ_END, way == READ_END ? actor : 0);
      give_end(p, ch, WRITE_END, way == WRITE_END ? actor : 0);
      p->channels[ch].known |= UINT32_C(1) << actor;
      p->channels[ch].exposed = way == 2;
    }
    p->initial_channels = p->nchannels;
  }
}

/* The program that words[1...n-1] make; words[0] says on what it runs. */
static void program_build(struct program *p, const uint64_t *words, int n, uint64_t seed) {
  memset(p, 0, sizeof *p);
  uint64_t w = words[0];
  p->seed = seed;
  p->threads = 1 + pick(&w, 4);
  p->migrate = pick(&w, 3) == 0;
  p->outside = pick(&w, MAX_OUTSIDE + 1);
  new_actor(p, NOBODY, false);
  add_outside(p);
  for (int i = 1; i < n && room(p); i++)
    add_one(p, words[i]);
  for (int i = p->nactors - 1; i > 0; i--) /* children before parents */
    if (!p->actors[i].ended)
      add_end(p, i);
  add(p, OP_END, 0, 0, 0, 0);
}

/* The words of a seed. Returns how many. */
static int program_words(uint64_t seed, uint64_t *words) {
  uint64_t w = mix(seed);
  int n = 8 + (int)pick(&w, MAX_WORDS - 8);
  for (int i = 0; i < n; i++)
    words[i] = w = mix(w);
  return n;
}

/* ---- Printing
 * ------------------------------------------------------------------------------------ */

static void print_actor(FILE *to, const struct program *p, int i) {
  fprintf(to, "%s %d", p->actors[i].outside ? "thread" : "fiber", i);
}

static void print_op(FILE *to, const struct program *p, int i) {
  const struct op *o = &p->ops[i];
  fprintf(to, "%4d  ", i);
  print_actor(to, p, o->actor);
  fprintf(to, ": %s", op_names[o->kind]);
  switch (o->kind) {
  case OP_SPAWN:
    fprintf(to, " %d%s%s%s, stack %zu", o->a,
            p->actors[o->a].flags & CFIBER_MIGRATABLE ? ", migratable" : "",
            p->actors[o->a].flags & CFIBER_KEEP_FP ? ", keeps FP" : "",
            p->actors[o->a].flags & CFIBER_DETACHED ? ", detached" : "",
            p->actors[o->a].stack_size);
    break;
  case OP_OPEN: {
    static const char *const kinds[] = {"a pipe", "a socketpair", "a TCP connection"};
    const struct channel *ch = &p->channels[o->a];
    fprintf(to, " %d, %s%s%s", o->a, kinds[ch->kind], ch->exposed ? ", exposed" : "",
            ch->shared ? ", shared" : "");
    break;
  }
  case OP_WRITE:
  case OP_READ:
    fprintf(to, " %d, %u bytes", o->a, o->n);
    break;
  case OP_POLL:
    fprintf(to, " %d, timeout %d ms", o->a, (int)o->n);
    break;
  case OP_CLOSE:
  case OP_CLOSE_UNDER:
    fprintf(to, " %d, to %s", o->a, o->b == READ_END ? "read" : "write");
    break;
  case OP_JOIN:
  case OP_DETACH:
  case OP_CANCEL:
  case OP_SIGNAL:
  case OP_WAIT:
  case OP_WAIT_FD:
  case OP_DRAIN:
    fprintf(to, " %d", o->a);
    break;
  case OP_SHIELD:
  case OP_DEADLINE:
  case OP_SLEEP:
  case OP_FOREVER:
  case OP_TIMED:
  case OP_CROWD:
    fprintf(to, " %u", o->n);
    break;
  }
  fputc('\n', to);
}

static void program_print(FILE *to, const struct program *p) {
  fprintf(to, "%u threads%s, %u outside; %d actors, %d operations:\n", p->threads,
          p->migrate ? ", all fibers migratable" : "", p->outside, p->nactors, p->nops);
  for (int i = 0; i < p->nops; i++)
    print_op(to, p, i);
}

#endif /* RANDOM_PROGRAM_H */
