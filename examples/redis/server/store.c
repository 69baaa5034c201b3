#include "store.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "decimal.h"

/*
 * The table is cut into shards with a mutex each, so that two threads seldom
 * meet. A shard's mutex is never held over a cfiber_ call that waits: it
 * belongs to the thread, so the next fiber of the thread to want it would
 * block all of them, the holder included. Large copies and the freeing of
 * values are kept outside it too.
 */
#define SHARDS 256       /* a power of two */
#define FIRST_BUCKETS 16 /* a power of two */

struct entry {
  struct entry *next;
  uint64_t hash;
  struct value *value;
  size_t len;
  char key[];
};

struct shard {
  _Alignas(64) pthread_mutex_t lock; /* a cache line of its own */
  struct entry **buckets;
  size_t mask, used;
};

struct store {
  struct shard shards[SHARDS];
  uint64_t seed[2];
};

/* ---- Values ---------------------------------------------------------------- */

struct value *value_new(const void *data, size_t len) {
  struct value *v = malloc(sizeof *v + len);
  if (!v)
    return NULL;
  atomic_init(&v->refs, 1);
  v->len = (uint32_t)len;
  if (data)
    memcpy(v->data, data, len);
  return v;
}

static struct value *value_ref(struct value *v) {
  atomic_fetch_add_explicit(&v->refs, 1, memory_order_relaxed);
  return v;
}

void value_unref(struct value *v) {
  /* Acquire and release: all use of v by others comes before its end. */
  if (v && atomic_fetch_sub_explicit(&v->refs, 1, memory_order_acq_rel) == 1)
    free(v);
}

/* ---- The hash ---------------------------------------------------------------- */

static uint64_t rotate(uint64_t x, int n) {
  return x << n | x >> (64 - n);
}

static void sip_round(uint64_t v[4]) {
  v[0] += v[1];
  v[2] += v[3];
  v[1] = rotate(v[1], 13) ^ v[0];
  v[3] = rotate(v[3], 16) ^ v[2];
  v[0] = rotate(v[0], 32);
  v[2] += v[1];
  v[0] += v[3];
  v[1] = rotate(v[1], 17) ^ v[2];
  v[3] = rotate(v[3], 21) ^ v[0];
  v[2] = rotate(v[2], 32);
}

/* SipHash-1-3. Words are read in the machine's byte order: the hash stays in memory. */
static uint64_t hash_key(const struct store *s, const char *key, size_t len) {
  uint64_t v[4] = {
      s->seed[0] ^ 0x736f6d6570736575,
      s->seed[1] ^ 0x646f72616e646f6d,
      s->seed[0] ^ 0x6c7967656e657261,
      s->seed[1] ^ 0x7465646279746573,
  };
  const char *end = key + len;
  uint64_t word;
  for (; end - key >= 8; key += 8) {
    memcpy(&word, key, 8);
    v[3] ^= word;
    sip_round(v);
    v[0] ^= word;
  }
  word = 0;
  memcpy(&word, key, (size_t)(end - key));
  word ^= (uint64_t)len << 56;
  v[3] ^= word;
  sip_round(v);
  v[0] ^= word;
  v[2] ^= 0xff;
  for (int i = 0; i < 3; i++)
    sip_round(v);
  return v[0] ^ v[1] ^ v[2] ^ v[3];
}

/* ---- Shards: the caller holds the lock ----------------------------------------- */

/* The link that points, or would point, to the entry of key. */
static struct entry **find(struct shard *sh, uint64_t hash, const char *key, size_t len) {
  struct entry **link = &sh->buckets[hash & sh->mask];
  for (; *link; link = &(*link)->next) {
    struct entry *e = *link;
    if (e->hash == hash && e->len == len && memcmp(e->key, key, len) == 0)
      break;
  }
  return link;
}

/*
 * Doubles the buckets. A shard holds 1/256 of the keys, so even with a million
 * of them this moves 4,096 entries. Without memory the chains just get longer.
 */
static void grow(struct shard *sh) {
  size_t mask = 2 * sh->mask + 1;
  struct entry **buckets = calloc(mask + 1, sizeof(*buckets));
  if (!buckets)
    return;
  for (size_t i = 0; i <= sh->mask; i++) {
    for (struct entry *e = sh->buckets[i], *next; e; e = next) {
      next = e->next;
      e->next = buckets[e->hash & mask];
      buckets[e->hash & mask] = e;
    }
  }
  free(sh->buckets);
  sh->buckets = buckets;
  sh->mask = mask;
}

static bool insert(struct shard *sh, uint64_t hash, const char *key, size_t len, struct value *v) {
  struct entry *e = malloc(sizeof *e + len);
  if (!e)
    return false;
  e->hash = hash;
  e->value = v;
  e->len = len;
  memcpy(e->key, key, len);

  if (sh->used > sh->mask)
    grow(sh);
  struct entry **head = &sh->buckets[hash & sh->mask];
  e->next = *head;
  *head = e;
  sh->used++;
  return true;
}

/* ---- Operations ---------------------------------------------------------------- */

/* Shards are chosen by the hash's high bits, buckets by its low ones. */
static struct shard *lock_shard(struct store *s, uint64_t hash) {
  struct shard *sh = &s->shards[hash >> 32 & (SHARDS - 1)];
  pthread_mutex_lock(&sh->lock);
  return sh;
}

static void unlock_shard(struct shard *sh) {
  pthread_mutex_unlock(&sh->lock);
}

struct value *store_get(struct store *s, const char *key, size_t len) {
  uint64_t hash = hash_key(s, key, len);
  struct shard *sh = lock_shard(s, hash);
  struct entry *e = *find(sh, hash, key, len);
  struct value *v = e ? value_ref(e->value) : NULL;
  unlock_shard(sh);
  return v;
}

bool store_set(struct store *s, const char *key, size_t len, struct value *v) {
  uint64_t hash = hash_key(s, key, len);
  struct value *old = NULL;
  bool ok = true;

  struct shard *sh = lock_shard(s, hash);
  struct entry *e = *find(sh, hash, key, len);
  if (e) {
    old = e->value;
    e->value = v;
  } else {
    ok = insert(sh, hash, key, len, v);
  }
  unlock_shard(sh);

  value_unref(ok ? old : v);
  return ok;
}

bool store_del(struct store *s, const char *key, size_t len) {
  uint64_t hash = hash_key(s, key, len);
  struct shard *sh = lock_shard(s, hash);
  struct entry **link = find(sh, hash, key, len), *e = *link;
  if (e) {
    *link = e->next;
    sh->used--;
  }
  unlock_shard(sh);

  if (!e)
    return false;
  value_unref(e->value);
  free(e);
  return true;
}

/* Parses the integer held by e, 0 if e is NULL, and adds delta. */
static enum store_incr add_to(const struct entry *e, int64_t delta, int64_t *sum) {
  int64_t old = 0;
  if (e && !decimal_parse(e->value->data, e->value->len, &old))
    return INCR_NOT_INTEGER;
  if (delta > 0 ? old > INT64_MAX - delta : old < INT64_MIN - delta)
    return INCR_OVERFLOW;
  *sum = old + delta;
  return INCR_OK;
}

enum store_incr store_incr(struct store *s, const char *key, size_t len, int64_t delta,
                           int64_t *sum) {
  /* Made before the lock is taken, filled in under it. */
  struct value *v = value_new(NULL, DECIMAL_MAX), *unused = v;
  if (!v)
    return INCR_NOMEM;
  uint64_t hash = hash_key(s, key, len);

  struct shard *sh = lock_shard(s, hash);
  struct entry *e = *find(sh, hash, key, len);
  enum store_incr result = add_to(e, delta, sum);
  if (result == INCR_OK) {
    v->len = (uint32_t)decimal_format(v->data, *sum);
    if (e) {
      unused = e->value;
      e->value = v;
    } else if (insert(sh, hash, key, len, v)) {
      unused = NULL;
    } else {
      result = INCR_NOMEM;
    }
  }
  unlock_shard(sh);

  value_unref(unused);
  return result;
}

size_t store_size(struct store *s) {
  size_t n = 0;
  for (size_t i = 0; i < SHARDS; i++) {
    pthread_mutex_lock(&s->shards[i].lock);
    n += s->shards[i].used;
    pthread_mutex_unlock(&s->shards[i].lock);
  }
  return n;
}

/* ---- The whole table ------------------------------------------------------------ */

struct store *store_new(const uint8_t seed[STORE_SEED]) {
  struct store *s = aligned_alloc(_Alignof(struct store), sizeof *s);
  if (!s)
    return NULL;
  memset(s, 0, sizeof *s);
  memcpy(s->seed, seed, STORE_SEED);
  for (size_t i = 0; i < SHARDS; i++) {
    struct shard *sh = &s->shards[i];
    pthread_mutex_init(&sh->lock, NULL);
    sh->mask = FIRST_BUCKETS - 1;
    sh->buckets = calloc(FIRST_BUCKETS, sizeof(*sh->buckets));
    if (!sh->buckets) {
      store_free(s);
      return NULL;
    }
  }
  return s;
}

void store_free(struct store *s) {
  if (!s)
    return;
  for (size_t i = 0; i < SHARDS; i++) {
    struct shard *sh = &s->shards[i];
    for (size_t b = 0; sh->buckets && b <= sh->mask; b++) {
      for (struct entry *e = sh->buckets[b], *next; e; e = next) {
        next = e->next;
        value_unref(e->value);
        free(e);
      }
    }
    free(sh->buckets);
    pthread_mutex_destroy(&sh->lock);
  }
  free(s);
}
