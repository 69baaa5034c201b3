#ifndef INVARIANTS_H
#define INVARIANTS_H

#include <stdint.h>

intptr_t ct_errno_over_go(void *arg);
intptr_t ct_read_byte(void *arg);
intptr_t ct_sleep_and_count(void *arg);
intptr_t ct_shielded_sleep(void *arg);
intptr_t ct_leave_behind(void *arg);
intptr_t ct_spawn_when_canceled(void *arg);
intptr_t ct_recurse_and_park(void *arg);

#endif
