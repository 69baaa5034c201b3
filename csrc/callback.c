/*
 * callback.c - C functions that are Go functions.
 *
 * Go cannot make code at run time, so the C functions are here, a fixed number
 * of them, and Go says which of its functions each one stands for. All of them
 * take the most arguments that every supported calling convention passes in
 * registers (s390x: all but the last). A caller that passes fewer leaves the
 * others as they happen to be, and they are not looked at.
 *
 * A call hops to the thread's native stack before it enters Go; native.c says
 * why. Where the program has been linked so that every call of Go does that
 * (--wrap=crosscall2), this has been done by then and is done once.
 */
#include "bridge.h"
#include "core.h"

#define PARAMETERS uintptr_t a, uintptr_t b, uintptr_t c, uintptr_t d, uintptr_t e, uintptr_t f

typedef uintptr_t thunk(PARAMETERS);
typedef void dispatcher(void *);

static _Atomic(dispatcher *) dispatch;

static intptr_t enter(void *call) {
  atomic_load_explicit(&dispatch, memory_order_relaxed)(call);
  return 0;
}

/* The index comes last, so that the others stay in the registers they came in. */
__attribute__((noinline)) static uintptr_t call_go(PARAMETERS, uintptr_t index) {
  struct cfiber_call call = {.index = index, .args = {a, b, c, d, e, f}};
  int saved = cfiber_errno();
  cfiber_on_native_stack(enter, &call);
  cfiber_fail(saved);
  return call.result;
}

/* EACH(X) is X(0000) X(0001) ... X(0777), in octal. */
/* clang-format off */
#define EACH_8(X, p) X(p##0) X(p##1) X(p##2) X(p##3) X(p##4) X(p##5) X(p##6) X(p##7)
#define EACH_64(X, p)                                                                              \
  EACH_8(X, p##0) EACH_8(X, p##1) EACH_8(X, p##2) EACH_8(X, p##3)                                  \
  EACH_8(X, p##4) EACH_8(X, p##5) EACH_8(X, p##6) EACH_8(X, p##7)
#define EACH(X)                                                                                    \
  EACH_64(X, 00) EACH_64(X, 01) EACH_64(X, 02) EACH_64(X, 03)                                      \
  EACH_64(X, 04) EACH_64(X, 05) EACH_64(X, 06) EACH_64(X, 07)
/* clang-format on */

#define DEFINE(n)                                                                                  \
  static uintptr_t thunk_##n(PARAMETERS) {                                                         \
    return call_go(a, b, c, d, e, f, n);                                                           \
  }
#define NAME(n) thunk_##n,

EACH(DEFINE)

static thunk *const thunks[] = {EACH(NAME)};

_Static_assert(sizeof thunks / sizeof *thunks == CFIBER_CALLBACKS, "as many as Go counts on");

void *cfiber_bridge_callback(uint32_t index, void (*go)(void *call)) {
  atomic_store_explicit(&dispatch, go, memory_order_relaxed);
  return index < CFIBER_CALLBACKS ? (void *)thunks[index] : NULL;
}
