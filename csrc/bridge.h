/*
 * bridge.h - what the host language calls: a small surface of plain functions
 * over opaque pointers, so that it can be bound by cgo or by symbol look-up.
 * Errors are returned as errno values. Nothing here is for users.
 */
#ifndef CFIBER_BRIDGE_H
#define CFIBER_BRIDGE_H

#include <stddef.h>
#include <stdint.h>

/* ---- The shared memory: layout.c ------------------------------------------- */

struct cfiber_layout_entry {
  const char *name; /* "struct.field", or "struct" for the whole of it */
  uint32_t offset, size;
};

/* All that Go reads or writes directly. *n is how many. */
const struct cfiber_layout_entry *cfiber_layout(size_t *n);

/* CFIBER_VERSION_MAJOR << 16 | MINOR << 8 | PATCH. */
uint32_t cfiber_version(void);

/* ---- A runtime and its threads ------------------------------------------------ */

int cfiber_bridge_open(uint32_t allocated, uint32_t limit, uint32_t max_fibers, uint32_t migrate,
                       uint64_t stack_size, int32_t notify_fd, void **runtime);
void cfiber_bridge_close(void *runtime);
void cfiber_bridge_thread_init(void *runtime, uint32_t index);
/* Runs fibers on the calling thread until the runtime stops. */
int cfiber_bridge_thread_run(void *thread);
/* Where threads that start from now on find their list of C++ exceptions: __cxa_get_globals of a
 * C++ runtime that has been loaded after this library, which therefore does not see it. */
void cfiber_bridge_exceptions(void *globals);
/* CPU time of the thread in ns, -1 if unknown. */
int64_t cfiber_bridge_cpu_time(void *thread);
/* Delivers the events and timers of a thread that is stuck, from another, and moves what is on its
 * ring to where all threads look. */
void cfiber_bridge_serve(void *thread);
/* Fibers spawned by C less fibers ended, of either. */
int64_t cfiber_bridge_balance(void *runtime);
void cfiber_bridge_cancel_all(void *runtime);
/* See cfiber_take_canceled. */
void *cfiber_bridge_take_canceled(void *runtime);

/* ---- Fibers -------------------------------------------------------------------- */

/* Takes up to n free records; returns how many, or 0 with *error set. */
uint32_t cfiber_bridge_fiber_alloc(void *runtime, uint32_t n, void **fibers, int *error);
void cfiber_bridge_fiber_free(void *runtime, uint32_t n, void **fibers);
uint64_t cfiber_id_block(uint32_t n);

/* The fiber that the calling thread is inside of, or NULL. */
void *cfiber_bridge_current(void);

/* The name of the function at an address, if it is known; see symbol.h. 1 or 0. */
int cfiber_bridge_symbol(uintptr_t address, char *name, size_t size);

/* ---- Callbacks: callback.c ------------------------------------------------------ */

#define CFIBER_CALLBACKS 512   /* how many there may be at once */
#define CFIBER_CALLBACK_ARGS 6 /* words that each takes */

/* A call of one of them. */
struct cfiber_call {
  uintptr_t index;
  uintptr_t args[CFIBER_CALLBACK_ARGS];
  uintptr_t result;
};

/*
 * The C function number index, which may be called with up to CFIBER_CALLBACK_ARGS
 * integers and pointers, on a fiber or not. It calls go, the same at each call of
 * this, with a struct cfiber_call, on no fiber's stack. NULL beyond the last.
 */
void *cfiber_bridge_callback(uint32_t index, void (*go)(void *call));

/* ---- Tests ------------------------------------------------------------------------ */

/* See fault.h. */
void cfiber_bridge_fault(int site, int error, uint32_t first, uint32_t count);
/* Does nothing. A call of it orders memory for Go's race detector. */
void cfiber_bridge_nothing(void);

#endif /* CFIBER_BRIDGE_H */
