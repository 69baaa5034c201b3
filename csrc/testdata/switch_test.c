/*
 * switch_test.c - the contract of switch.h, and what of it a fiber relies on:
 * registers, the FP control word, alignment, other stacks, backtraces.
 */
#include "check.h"
#include "probe.h"
#include "switch.h"

#include <stdlib.h>
#include <unwind.h>

#define NOINLINE __attribute__((noinline))

/* To the compiler, p may be used, and what it points to changed. */
static NOINLINE void keep(void *p) {
  __asm__ volatile("" ::"r"(p) : "memory");
}

/* Where p points to, in a way that the compiler does not calculate with beforehand: of a
 * local it knows the alignment. */
static NOINLINE uintptr_t address_of(void *p) {
  uintptr_t address = (uintptr_t)p;
  __asm__ volatile("" : "+r"(address)::"memory");
  return address;
}

typedef float vector __attribute__((vector_size(16)));

/* A local that is spilled to memory with an aligned store. */
static NOINLINE float spill(void) {
  volatile vector v = {1, 2, 3, 4};
  vector w = v + v;
  CHECK(address_of(&w) % _Alignof(vector) == 0);
  return w[3];
}

/* What the ABI has of the stack at a call. A local with it is placed by the compiler on
 * trust, while for more it would align the frame itself. */
#if defined(__arm__) || defined(__s390x__)
#define STACK_ALIGNMENT 8
#else
#define STACK_ALIGNMENT 16
#endif

static NOINLINE void check_alignment(void) {
  _Alignas(STACK_ALIGNMENT) char local[STACK_ALIGNMENT];
  CHECK(address_of(local) % STACK_ALIGNMENT == 0);
  CHECK(spill() == 8);
}

/* ---- The FP control word --------------------------------------------------------------- */

#if defined(__x86_64__)
#define ROUND_UP (UINT32_C(0x4000) | UINT32_C(0x0800) << 16)
#define ROUND_MASK (UINT32_C(0x6000) | UINT32_C(0x0c00) << 16)
#elif defined(__aarch64__)
#define ROUND_UP (UINT32_C(1) << 22)
#define ROUND_MASK (UINT32_C(3) << 22)
#elif defined(CFIBER_FP_X86)
#define ROUND_UP (UINT32_C(0x0800) << 16)
#define ROUND_MASK (UINT32_C(0x0c00) << 16)
#elif defined(CFIBER_FP_ARM)
#define ROUND_UP (UINT32_C(1) << 22)
#define ROUND_MASK (UINT32_C(3) << 22)
#elif defined(CFIBER_FP_RISCV64)
#define ROUND_UP UINT32_C(3)
#define ROUND_MASK UINT32_C(7)
#elif defined(CFIBER_FP_PPC64)
#define ROUND_UP UINT32_C(2)
#define ROUND_MASK UINT32_C(3)
#elif defined(CFIBER_FP_S390X)
#define ROUND_UP UINT32_C(2)
#define ROUND_MASK UINT32_C(7)
#elif defined(CFIBER_FP_LOONG64)
#define ROUND_UP (UINT32_C(2) << 8)
#define ROUND_MASK (UINT32_C(3) << 8)
#endif

#ifdef ROUND_UP

/* 0: to nearest, 1: up; 2: the units of the machine disagree. */
static int rounding(void) {
#ifdef CFIBER_VALGRIND
  /* It keeps the control word, and calculates to nearest always. */
  return (cfiber_fp_get() & ROUND_MASK) != 0;
#endif
  volatile double one = 1, seven = 7;
  volatile long double lone = 1, lseven = 7;
  volatile double seventh = one / seven; /* to nearest, it is rounded down in all formats */
  volatile long double lseventh = lone / lseven;
  int up = seventh > 0x1.2492492492492p-3;
#if defined(__x86_64__) || defined(__i386__)
  int lup = lseventh > 0x9.249249249249249p-6L;
  return up == lup ? up : 2;
#else
  (void)lseventh; /* not done by the hardware */
  return up;
#endif
}

static void round_up(void) {
  cfiber_fp_set((cfiber_fp_get() & ~ROUND_MASK) | ROUND_UP);
}

static void round_to_nearest(void) {
  cfiber_fp_set(cfiber_fp_get() & ~ROUND_MASK);
}

static void test_fp_control(void) {
  CHECK(rounding() == 0);
  round_up();
  CHECK((cfiber_fp_get() & ROUND_MASK) == ROUND_UP);
  CHECK(rounding() == 1);
  round_to_nearest();
  CHECK(rounding() == 0);
#if defined(__x86_64__) && !defined(CFIBER_VALGRIND)
  /* The sticky exception flags are no part of it. */
  uint32_t with_flag, after;
  __asm__ volatile("stmxcsr %0" : "=m"(with_flag));
  with_flag |= 0x20; /* inexact */
  __asm__ volatile("ldmxcsr %0" ::"m"(with_flag));
  round_up();
  round_to_nearest();
  __asm__ volatile("stmxcsr %0" : "=m"(after));
  CHECK(after == with_flag);
  CHECK((cfiber_fp_get() & 0x3f) == 0);
#endif
}

static intptr_t rounding_now(void *unused) {
  (void)unused;
  return rounding();
}

static intptr_t rounding_over_yields(void *up) {
  int expected = up != NULL;
  CHECK(rounding() == 0); /* whatever the spawner's is */
  if (up)
    round_up();
  for (int i = 0; i < 100; i++) {
    cfiber_yield();
    CHECK(rounding() == expected);
  }
  CHECK(cfiber_on_native_stack(rounding_now, NULL) != 2);
  CHECK(rounding() == expected);
  return expected;
}

/* Itself with CFIBER_KEEP_FP, rounding up, it starts others, with the flag and without. */
static intptr_t rounding_spawner(void *unused) {
  (void)unused;
  static const struct cfiber_attr keep = {.flags = CFIBER_KEEP_FP};
  cfiber_t *fibers[12];
  intptr_t result;
  round_up();
  for (int i = 0; i < 12; i++) {
    bool up = i % 3 == 0;
    fibers[i] = cfiber_spawn(rounding_over_yields, up ? fibers : NULL, i % 3 == 2 ? NULL : &keep);
  }
  for (int i = 0; i < 12; i++) {
    CHECK(cfiber_join(fibers[i], &result) == 0);
    CHECK(result == (i % 3 == 0));
    CHECK(rounding() == 1);
  }
  return 0;
}

/* What a fiber without the flag has set is the thread's, and stays so beside one with it. */
static intptr_t set_beside_keeper(void *unused) {
  (void)unused;
  static const struct cfiber_attr keep = {.flags = CFIBER_KEEP_FP};
  intptr_t result;
  cfiber_t *keeper = cfiber_spawn(rounding_over_yields, NULL, &keep);
  uint32_t before = cfiber_fp_get();
  round_up();
  for (int i = 0; i < 5; i++) {
    cfiber_yield();
    CHECK(rounding() == 1);
  }
  cfiber_fp_set(before);
  CHECK(cfiber_join(keeper, &result) == 0);
  return 0;
}

static intptr_t fp_of_fibers(void *unused) {
  static const struct cfiber_attr keep = {.flags = CFIBER_KEEP_FP};
  cfiber_join(cfiber_spawn(rounding_spawner, unused, &keep), NULL);
  CHECK(rounding() == 0);
  return 0;
}

#endif /* ROUND_UP */

/* ---- Bare contexts --------------------------------------------------------------------- */

/*
 * Not with the sanitizers, to which every switch must be announced; the tests
 * with fibers below are for them.
 */
#ifndef CFIBER_SANITIZE

/* fn(a, b, c), with the registers watched where there is a probe for them. */
static void *watched(void *a, void *b, void *c, void (*fn)(void)) {
#ifdef REGISTERS
  static uintptr_t salt;
  _Alignas(16) uintptr_t in[REGISTERS], out[REGISTERS];
  probe_fill(in, ++salt);
  void *result = probe(a, b, c, in, out, fn);
  for (int i = 0; i < REGISTERS; i++) {
    if (in[i] != out[i]) {
      failures++;
      fprintf(stderr, "callee-saved register number %d: %#llx before, %#llx after\n", i,
              (unsigned long long)in[i], (unsigned long long)out[i]);
    }
  }
  return result;
#else
  return ((void *(*)(void *, void *, void *))fn)(a, b, c);
#endif
}

#define STACK_BYTES ((size_t)256 * 1024)

static char *stack;
static void *main_context, *other_context;
static struct cfiber_thread marks[4]; /* that run nothing */
static int arrivals;

static struct cfiber_thread *mark(int i) {
  return &marks[i];
}

static void (*switch_function)(void); /* cfiber_switch, or cfiber_switch_resume */

/* Goes to the other side, and checks which `thread` comes back. */
static void there_and_back(void **from, void *to, int send, int expect) {
  void *got = watched(from, to, mark(send), switch_function);
  CHECK(got == mark(expect));
}

static void entry_ping_pong(struct cfiber_thread *t) {
  CHECK(t == mark(0));
  for (;;) {
    arrivals++;
    there_and_back(&other_context, main_context, 1, 0);
  }
}

static void test_registers(void (*function)(void)) {
  switch_function = function;
  arrivals = 0;
  other_context = cfiber_switch_init(stack, stack + STACK_BYTES, entry_ping_pong);
  for (int i = 0; i < 1000; i++)
    there_and_back(&main_context, other_context, 0, 1);
  CHECK(arrivals == 1000);
}

/* The frame pointer that the function with this frame address has saved: its caller's. */
static uintptr_t callers_frame(char *frame) {
#if defined(__riscv) || defined(__loongarch__)
  return ((uintptr_t *)frame)[-2];
#elif defined(__powerpc64__)
  return **(uintptr_t **)frame; /* its own back chain leads to the caller's */
#elif defined(__arm__) || defined(__s390x__)
  (void)frame; /* by default they have no chain of frames */
  return 0;
#else
  return *(uintptr_t *)frame;
#endif
}

static size_t unaligned_by;

static void entry_alignment(struct cfiber_thread *t) {
  (void)t;
  char *frame = __builtin_frame_address(0);
  check_alignment();
  CHECK(frame > stack && frame <= stack + STACK_BYTES - unaligned_by);
#ifndef CFIBER_SWITCH_UCONTEXT
  /* Walkers of frame pointers find a zero. */
  CHECK(callers_frame(frame) == 0);
#else
  (void)callers_frame;
#endif
  arrivals++;
  cfiber_switch(&other_context, main_context, mark(1));
  abort();
}

static void test_alignment(void) {
  arrivals = 0;
  for (unaligned_by = 0; unaligned_by < 64; unaligned_by++) {
    memset(stack, 0xa5, STACK_BYTES); /* what an earlier fiber has left */
    other_context = cfiber_switch_init(stack, stack + STACK_BYTES - unaligned_by, entry_alignment);
    cfiber_switch(&main_context, other_context, mark(0));
  }
  CHECK(arrivals == 64);
}

#ifdef ROUND_UP
static void entry_fp(struct cfiber_thread *t) {
  (void)t;
  CHECK(rounding() == 1); /* as it was before the switch */
  round_to_nearest();
  cfiber_switch(&other_context, main_context, mark(1));
  CHECK(rounding() == 0);
  round_up();
  cfiber_switch(&other_context, main_context, mark(1));
  abort();
}

static void test_fp_over_switches(void) {
  other_context = cfiber_switch_init(stack, stack + STACK_BYTES, entry_fp);
  round_up();
  cfiber_switch(&main_context, other_context, mark(0));
  CHECK(rounding() == 0);
  cfiber_switch(&main_context, other_context, mark(0));
  CHECK(rounding() == 1);
  round_to_nearest();
}
#endif

/* Runs below the frames of main_context and leaves nothing there as it was. */
static intptr_t on_main_stack(void *arg) {
  char deep[32 * 1024];
  memset(deep, 0x5a, sizeof deep);
  keep(deep);
  CHECK(deep < stack || deep >= stack + STACK_BYTES);
  check_alignment();
  return (intptr_t)arg + 1;
}

static void entry_call_on(struct cfiber_thread *t) {
  (void)t;
  for (;;) {
    for (intptr_t i = 0; i < 10; i++)
      CHECK(watched(main_context, (void *)(intptr_t(*)(void *))on_main_stack, (void *)i,
                    (void (*)(void))cfiber_call_on) == (void *)(i + 1));
    cfiber_switch(&other_context, main_context, mark(1));
  }
}

static NOINLINE void test_call_on(void) {
  char canary[4096];
  memset(canary, 0x77, sizeof canary);
  keep(canary);
  other_context = cfiber_switch_init(stack, stack + STACK_BYTES, entry_call_on);
  switch_function = (void (*)(void))cfiber_switch;
  for (int i = 0; i < 10; i++)
    there_and_back(&main_context, other_context, 0, 1);
  for (size_t i = 0; i < sizeof canary; i++)
    CHECK(canary[i] == 0x77);
}

static void test_bare_contexts(void) {
  stack = malloc(STACK_BYTES);
  test_registers((void (*)(void))cfiber_switch);
  test_registers((void (*)(void))cfiber_switch_resume);
  test_alignment();
#ifdef ROUND_UP
  test_fp_over_switches();
#endif
  test_call_on();
  free(stack);
}

#else
static void test_bare_contexts(void) {
}
#endif

/* ---- Backtraces ------------------------------------------------------------------------ */

struct trace {
  int n;
  uintptr_t functions[64];
};

static _Unwind_Reason_Code frame(struct _Unwind_Context *context, void *p) {
  struct trace *t = p;
  if (t->n == 64)
    return _URC_END_OF_STACK;
  t->functions[t->n++] = _Unwind_GetRegionStart(context);
  return _URC_NO_REASON;
}

static NOINLINE void take_trace(struct trace *t) {
  t->n = 0;
  _Unwind_Backtrace(frame, t);
  keep(t);
}

static int position(const struct trace *t, cfiber_func fn) {
  uintptr_t address = (uintptr_t)fn;
#ifdef __arm__
  address &= ~(uintptr_t)1; /* which tells that it is in Thumb state */
#endif
  for (int i = 0; i < t->n; i++)
    if (t->functions[i] == address)
      return i;
  return -1;
}

static NOINLINE intptr_t deeper(void *p) {
  take_trace(p);
  keep(p);
  return 0;
}

static NOINLINE intptr_t traced_fiber(void *unused) {
  struct trace t;
  (void)unused;
  /* Not so deep that frames would be left out. */
  CHECK(deeper(&t) == 0);
  int here = position(&t, traced_fiber);
  CHECK(here >= 1 && here <= 4);
  /* Below it only what starts fibers: no frames of a scheduler, no garbage. */
  CHECK(t.n - here <= 5);

  CHECK(cfiber_on_native_stack(deeper, &t) == 0);
  CHECK(position(&t, deeper) >= 0);
  CHECK(t.n < 32);
#ifndef CFIBER_SWITCH_UCONTEXT
  /* Over the change of stacks back into the fiber. */
  here = position(&t, traced_fiber);
  CHECK(here >= 3);
  CHECK(here >= 0 && t.n - here <= 5);
#endif
  keep(&t);
  return 0;
}

/* ---- Fibers ---------------------------------------------------------------------------- */

static intptr_t sum_on_native(void *p) {
  double *d = p;
  return (intptr_t)(d[0] + d[1]);
}

/* Keeps values in as many registers as it can, over switches, on whatever thread. */
static intptr_t busy_fiber(void *p) {
  intptr_t seed = (intptr_t)p;
  uint64_t a = (uint64_t)seed, b = a * 3, c = a * 5, d = a * 7, e = a * 11, f = a * 13;
  double u = (double)seed, v = u * 2, w = u * 3, x = u * 4, y = u * 5, z = u * 6;
  for (int i = 0; i < 500; i++) {
    cfiber_yield();
    a += 1, b += 2, c += 3, d += 4, e += 5, f += 6;
    u += 1, v += 2, w += 3, x += 4, y += 5, z += 6;
    if (i % 100 == 0) {
      double two[2] = {u, v};
      CHECK(cfiber_on_native_stack(sum_on_native, two) == (intptr_t)(u + v));
      check_alignment();
    }
  }
  uint64_t s = (uint64_t)seed;
  CHECK(a == s + 500 && b == s * 3 + 1000 && c == s * 5 + 1500);
  CHECK(d == s * 7 + 2000 && e == s * 11 + 2500 && f == s * 13 + 3000);
  double r = (double)seed;
  CHECK(u == r + 500 && v == r * 2 + 1000 && w == r * 3 + 1500);
  CHECK(x == r * 4 + 2000 && y == r * 5 + 2500 && z == r * 6 + 3000);
  return seed;
}

static intptr_t busy_fibers(void *unused) {
  (void)unused;
  enum { N = 64 };
  cfiber_t *fibers[N];
  for (intptr_t i = 0; i < N; i++)
    CHECK((fibers[i] = cfiber_spawn(busy_fiber, (void *)i, NULL)) != NULL);
  for (intptr_t i = 0; i < N; i++) {
    intptr_t result = -1;
    CHECK(cfiber_join(fibers[i], &result) == 0);
    CHECK(result == i);
  }
  return 0;
}

static intptr_t many_native_calls(void *unused) {
  (void)unused;
  double two[2] = {20, 22};
  for (int i = 0; i < 100000; i++) /* more than the stacks that sanitizers keep are deep */
    if (cfiber_on_native_stack(sum_on_native, two) != 42)
      return 1;
  return 0;
}

static void run(cfiber_func fn, unsigned threads, unsigned migrate) {
  struct cfiber_options options = {.threads = threads, .migrate = migrate};
  intptr_t result = -1;
  CHECK(cfiber_run(fn, NULL, &options, &result) == 0);
  CHECK(result == 0);
}

int main(void) {
  test_bare_contexts();
#ifdef ROUND_UP
  test_fp_control();
  run(set_beside_keeper, 1, 0);
  run(fp_of_fibers, 1, 0);
#endif
  run(traced_fiber, 1, 0);
  run(busy_fibers, 1, 0);
  run(busy_fibers, 2, 0);
  run(busy_fibers, 2, 1);
  run(many_native_calls, 1, 0);
  return failures != 0;
}
