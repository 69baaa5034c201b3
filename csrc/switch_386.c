/*
 * switch_386.c - the part of the 32-bit x86 switch that C can say.
 */
#include "switch.h"

#ifdef CFIBER_SWITCH_386

#include <string.h>

extern void cfiber_entry(void);

void *cfiber_switch_init(char *lo, char *hi, void (*entry)(struct cfiber_thread *)) {
  (void)lo;
  uintptr_t top = (uintptr_t)hi & ~(uintptr_t)15;
  /* Above the frame the word for an argument, at an aligned address. */
  uintptr_t *sp = (uintptr_t *)top - 4 - 5;
  memset(sp, 0, 9 * sizeof *sp);
  sp[2] = (uintptr_t)entry;        /* ebx */
  sp[4] = (uintptr_t)cfiber_entry; /* return address */
  return sp;
}

#endif /* CFIBER_SWITCH_386 */
