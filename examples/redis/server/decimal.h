/* decimal.h - integers as Redis writes them. */
#ifndef DECIMAL_H
#define DECIMAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DECIMAL_MAX 20 /* characters of the longest int64_t, "-9223372036854775808" */

/*
 * Parses exactly n characters. As in Redis only the canonical form counts as
 * an integer: no spaces, no plus sign, no leading zeros, no "-0".
 */
bool decimal_parse(const char *s, size_t n, int64_t *value);

/* Writes value without a final zero and returns the number of characters. */
size_t decimal_format(char buf[DECIMAL_MAX], int64_t value);

#endif
