/*
 * shared.c - for the library of these functions that tests without cgo load: there Go cannot
 * export ctestCallback, and gives the address of a function instead.
 */
#ifdef CTEST_SHARED

#include <stdint.h>

uintptr_t (*ctest_callback)(uintptr_t arg);

uintptr_t ctestCallback(uintptr_t arg);

uintptr_t ctestCallback(uintptr_t arg) {
  return ctest_callback(arg);
}

#endif
