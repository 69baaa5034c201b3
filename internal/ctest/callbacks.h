#ifndef CALLBACKS_H
#define CALLBACKS_H

#include <stdint.h>

intptr_t ct_call_six(void *arg);
intptr_t ct_call_narrow(void *arg);
intptr_t ct_call_from_thread(void *arg);
intptr_t ct_call_over_waits(void *arg);
intptr_t ct_call_loop(void *arg);
intptr_t ct_frame_address(void *arg);

#endif
