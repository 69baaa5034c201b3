#ifndef CTEST_H
#define CTEST_H

#include <stdint.h>

intptr_t ct_return(void *arg);
intptr_t ct_sleep_ns(void *arg);
intptr_t ct_sleep_array(void *arg);
intptr_t ct_sleep_thrice(void *arg);
intptr_t ct_errno(void *arg);
intptr_t ct_call_go(void *arg);
intptr_t ct_call_go_deep(void *arg);
intptr_t ct_read_fd(void *arg);
intptr_t ct_recurse(void *arg);
intptr_t ct_spin(void *arg);
intptr_t ct_block_read(void *arg);
intptr_t ct_fib(void *arg);
intptr_t ct_park_forever(void *arg);
intptr_t ct_count(void *arg);
intptr_t ct_yield_loop(void *arg);
intptr_t ct_sleep_five(void *arg);
intptr_t ct_sleep_late(void *arg);
intptr_t ct_recurse_and_sleep(void *arg);
intptr_t ct_recurse_large(void *arg);
intptr_t ct_spawn_and_spin(void *arg);
intptr_t ct_count_moves(void *arg);
intptr_t ct_close_fd(void *arg);
intptr_t ct_yield_until(void *arg);
intptr_t ct_read_until(void *arg);
intptr_t ct_yield_pair(void *arg);
intptr_t ct_spawn_join(void *arg);
intptr_t ct_call_go_loop(void *arg);
intptr_t ct_apply(void *arg);
intptr_t ct_call(intptr_t (*fn)(void *), void *arg);

#endif
