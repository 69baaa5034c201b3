/*
 * callbacks.c - C code that calls functions whose addresses it is given.
 */
#include "callbacks.h"
#include "cfiber.h"

#include <pthread.h>

/* The result of a call with 0x10001, 0x20002, ... 0x60006, which Go takes for pointers too. */
intptr_t ct_call_six(void *arg) {
  int64_t (*fn)(int64_t, int64_t, int64_t, int64_t, int64_t, int64_t) =
      (int64_t(*)(int64_t, int64_t, int64_t, int64_t, int64_t, int64_t))arg;
  return (intptr_t)fn(0x10001, 0x20002, 0x30003, 0x40004, 0x50005, 0x60006);
}

/* The result of a call with the last value below zero, or the greatest, of each type. What is
 * above the value in the register is whatever the compiler leaves there. */
intptr_t ct_call_narrow(void *arg) {
  int8_t (*fn)(int8_t, uint8_t, int16_t, uint16_t, int32_t, uint32_t) =
      (int8_t(*)(int8_t, uint8_t, int16_t, uint16_t, int32_t, uint32_t))arg;
  volatile int64_t v = INT64_C(0x5a5a5a5a80808080);
  return fn((int8_t)v, (uint8_t)v, (int16_t)v, (uint16_t)v, (int32_t)v, (uint32_t)v);
}

static void *thread_main(void *arg) {
  return (void *)((intptr_t(*)(void *))arg)(arg);
}

/* Calls from a thread that is neither Go's nor cfiber's, with the function's own address. */
intptr_t ct_call_from_thread(void *arg) {
  pthread_t thread;
  void *result;
  if (pthread_create(&thread, NULL, thread_main, arg) || pthread_join(thread, &result))
    return -1;
  return (intptr_t)result;
}

/* Calls with 0, 1, ... 9, and waits between; the sum of the results. */
intptr_t ct_call_over_waits(void *arg) {
  uintptr_t (*fn)(uintptr_t) = (uintptr_t(*)(uintptr_t))arg;
  uintptr_t sum = 0;
  for (uintptr_t i = 0; i < 10; i++) {
    sum += fn(i);
    if (cfiber_sleep(100000))
      return -1;
  }
  return (intptr_t)sum;
}

/* arg: uintptr_t[2], a function and how often to call it. */
intptr_t ct_call_loop(void *arg) {
  uintptr_t *a = arg;
  uintptr_t (*fn)(uintptr_t) = (uintptr_t(*)(uintptr_t))a[0];
  for (uintptr_t i = 0; i < a[1]; i++)
    fn(i);
  return 0;
}

/* Where the stack is. */
intptr_t ct_frame_address(void *arg) {
  (void)arg;
  return (intptr_t)__builtin_frame_address(0);
}
