/*
 * symbol.h - the name of a function, for a report made in a signal handler.
 */
#ifndef CFIBER_SYMBOL_H
#define CFIBER_SYMBOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Stores the name of the function that begins at the address. False if it is
 * not known. Async-signal-safe.
 */
bool cfiber_symbol(uintptr_t address, char *name, size_t size);

#endif
