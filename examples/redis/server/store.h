/*
 * store.h - a hash table from binary keys to binary values, shared by all
 * threads. Every operation is safe from any thread and any fiber, and none
 * waits for anything but a short critical section.
 */
#ifndef STORE_H
#define STORE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define STORE_SEED 16 /* bytes */

/*
 * A value never changes once it is made, and lives as long as somebody refers
 * to it. So a reader may send it, and wait while doing so, after the table has
 * let go of it.
 */
struct value {
  atomic_uint refs;
  uint32_t len;
  char data[];
};

/* A value with one reference; data may be NULL to fill it in later. NULL: no memory. */
struct value *value_new(const void *data, size_t len);
void value_unref(struct value *v); /* v may be NULL */

struct store;

/* seed keeps the hash from being predicted, and so from being flooded. */
struct store *store_new(const uint8_t seed[STORE_SEED]);
void store_free(struct store *s);

/* The value of key with a reference for the caller, or NULL. */
struct value *store_get(struct store *s, const char *key, size_t len);

/* Gives key the value v and takes over the caller's reference. False: no memory. */
bool store_set(struct store *s, const char *key, size_t len, struct value *v);

/* Whether there was such a key. */
bool store_del(struct store *s, const char *key, size_t len);

enum store_incr { INCR_OK, INCR_NOT_INTEGER, INCR_OVERFLOW, INCR_NOMEM };

/* Adds delta to the integer at key (0 if there is none); the sum goes to *sum. */
enum store_incr store_incr(struct store *s, const char *key, size_t len, int64_t delta,
                           int64_t *sum);

/* The number of keys. */
size_t store_size(struct store *s);

#endif
