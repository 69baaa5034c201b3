#ifndef INVARIANTS_H
#define INVARIANTS_H

#include <stdint.h>

intptr_t ct_errno_over_go(void *arg);
intptr_t ct_read_byte(void *arg);
intptr_t ct_sleep_and_count(void *arg);

#endif
