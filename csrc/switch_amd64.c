/*
 * switch_amd64.c - the part of the x86-64 switch that C can say.
 */
#include "switch.h"

#ifdef CFIBER_SWITCH_AMD64

#include <string.h>

extern void cfiber_entry(void);

void *cfiber_switch_init(char *lo, char *hi, void (*entry)(struct cfiber_thread *)) {
  (void)lo;
  uintptr_t top = (uintptr_t)hi & ~(uintptr_t)15;
  /* A zero word above the frame is where a frame-pointer walker would read a
   * return address; the slots below are popped in order r15 ... rbp, rip. */
  uintptr_t *sp = (uintptr_t *)top - 2 - 7;
  memset(sp, 0, 9 * sizeof *sp);
  sp[4] = (uintptr_t)entry;        /* rbx */
  sp[6] = (uintptr_t)cfiber_entry; /* return address */
  return sp;
}

#endif /* CFIBER_SWITCH_AMD64 */
