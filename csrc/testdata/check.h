/*
 * check.h - how a C test says that something is not so. It goes on; its main returns
 * whether there were failures.
 */
#ifndef CHECK_H
#define CHECK_H

#include "core.h" /* before any header of the system, for what it asks of them */

#include <stdio.h>

static _Atomic int failures;

#define CHECK(condition)                                                                           \
  do {                                                                                             \
    if (!(condition)) {                                                                            \
      atomic_fetch_add(&failures, 1);                                                              \
      fprintf(stderr, "%s:%d: %s: not so: %s (errno %d)\n", __FILE__, __LINE__, __func__,          \
              #condition, errno);                                                                  \
    }                                                                                              \
  } while (0)

#endif /* CHECK_H */
