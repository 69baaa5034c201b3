/*
 * switch_freestanding.c - the contract of switch.h without a C library or the rest of
 * the core, for LoongArch, for which no cross library is at hand (build.sh ctest
 * --variant loong64). What switch_test.c asks of bare contexts, asked again.
 *
 * Ends with status 0, or writes the lines that failed and ends with 1.
 */
#include "probe.h"
#include "switch.h"

#if !defined(__loongarch_lp64) || !defined(REGISTERS)
#error "this test has no start for that architecture"
#endif

#define SYS_write 64
#define SYS_exit 93

__asm__(".text\n"
        ".globl _start\n"
        "_start:\n"
        "  move $fp, $zero\n"
        "  bstrins.d $sp, $zero, 3, 0\n"
        "  bl start\n"
        "  break 0\n");

static long system_call(long number, long a, long b, long c) {
  register long r_number __asm__("a7") = number;
  register long r_a __asm__("a0") = a;
  register long r_b __asm__("a1") = b;
  register long r_c __asm__("a2") = c;
  __asm__ volatile("syscall 0"
                   : "+r"(r_a)
                   : "r"(r_number), "r"(r_b), "r"(r_c)
                   : "t0", "t1", "t2", "t3", "t4", "t5", "t6", "t7", "t8", "memory");
  return r_a;
}

/* The compiler calls them, also where there is no library. */
void *memset(void *to, int byte, size_t n);
void *memset(void *to, int byte, size_t n) {
  volatile char *p = to;
  while (n--)
    *p++ = (char)byte;
  return to;
}

void *memcpy(void *to, const void *from, size_t n);
void *memcpy(void *to, const void *from, size_t n) {
  volatile char *p = to;
  const char *q = from;
  while (n--)
    *p++ = *q++;
  return to;
}

static int failures;

static void failed(int line, const char *text) {
  char number[6] = "0000 ";
  for (int i = 3; i >= 0; i--, line /= 10)
    number[i] = (char)('0' + line % 10);
  size_t length = 0;
  while (text[length])
    length++;
  failures++;
  system_call(SYS_write, 2, (long)number, 5);
  system_call(SYS_write, 2, (long)text, (long)length);
  system_call(SYS_write, 2, (long)"\n", 1);
}

#define CHECK(condition)                                                                           \
  do {                                                                                             \
    if (!(condition))                                                                              \
      failed(__LINE__, "not so: " #condition);                                                     \
  } while (0)

/* ---- The other side ------------------------------------------------------------------ */

#define STACK_BYTES 65536

static _Alignas(64) char stack[STACK_BYTES];
static char threads[4]; /* that run nothing: only their addresses are used */
static void *main_context, *other_context;
static int arrivals, resumptions;
static void (*switch_function)(void);

static struct cfiber_thread *mark(int i) {
  return (struct cfiber_thread *)&threads[i];
}

struct cfiber_thread *cfiber_resumed(struct cfiber_thread *thread) {
  resumptions++;
  return thread;
}

/* fn(a, b, c), with the registers watched. */
static void *watched(void *a, void *b, void *c, void (*fn)(void)) {
  static uintptr_t salt;
  uintptr_t in[REGISTERS], out[REGISTERS];
  probe_fill(in, ++salt);
  void *result = probe(a, b, c, in, out, fn);
  for (int i = 0; i < REGISTERS; i++)
    CHECK(in[i] == out[i]);
  return result;
}

/* Calls happen in the order in which they are written, on the one side and the other:
 * each arrival is followed by one return. */
static void there_and_back(void **from, void *to, int send, int expect) {
  CHECK(watched(from, to, mark(send), switch_function) == mark(expect));
}

static void check_start(void *frame) {
  _Alignas(16) char local[16];
  uintptr_t address = (uintptr_t)local;
  __asm__ volatile("" : "+r"(address)::"memory"); /* the compiler thinks it knows it */
  CHECK(address % 16 == 0);
  CHECK((char *)frame > stack && (char *)frame <= stack + STACK_BYTES);
  CHECK(((uintptr_t *)frame)[-2] == 0); /* walkers of frame pointers find a zero */
}

/* Of this name, as cfiber_switch_begin calls no other. */
void cfiber_first(struct cfiber_thread *thread) {
  CHECK(thread == mark(0));
  check_start(__builtin_frame_address(0));
  for (int i = 1;; i++) {
    CHECK(++arrivals == i);
    there_and_back(&other_context, main_context, 1, 0);
  }
}

/* ---- The tests ----------------------------------------------------------------------- */

static void test_switch(void (*function)(void), int expected_resumptions) {
  arrivals = resumptions = 0;
  switch_function = function;
  other_context = cfiber_switch_init(stack, stack + STACK_BYTES - 40, cfiber_first);
  for (int i = 0; i < 1000; i++) {
    there_and_back(&main_context, other_context, 0, 1);
    CHECK(arrivals == i + 1);
  }
  CHECK(resumptions == expected_resumptions);
}

/* The first switch by cfiber_switch_begin, the others by cfiber_switch_resume. */
static void test_begin(void) {
  arrivals = resumptions = 0;
  switch_function = (void (*)(void))cfiber_switch_resume;
  CHECK(cfiber_switch_begin(&main_context, stack, stack + STACK_BYTES, mark(0)) == mark(1));
  CHECK(arrivals == 1 && resumptions == 1);
  for (int i = 0; i < 1000; i++)
    there_and_back(&main_context, other_context, 0, 1);
  CHECK(arrivals == 1001 && resumptions == 2001);
}

static intptr_t on_main_stack(void *arg) {
  char deep[8192];
  memset(deep, 0x5a, sizeof deep);
  CHECK(deep < stack || deep >= stack + STACK_BYTES);
  return (intptr_t)arg + 1;
}

static void caller(struct cfiber_thread *thread) {
  (void)thread;
  for (;;) {
    for (intptr_t i = 0; i < 10; i++)
      CHECK(watched(main_context, (void *)on_main_stack, (void *)i,
                    (void (*)(void))cfiber_call_on) == (void *)(i + 1));
    cfiber_switch(&other_context, main_context, mark(1));
  }
}

static void test_call_on(void) {
  volatile char canary[1024];
  for (size_t i = 0; i < sizeof canary; i++)
    canary[i] = 0x77;
  switch_function = (void (*)(void))cfiber_switch;
  other_context = cfiber_switch_init(stack, stack + STACK_BYTES, caller);
  for (int i = 0; i < 10; i++)
    there_and_back(&main_context, other_context, 0, 1);
  for (size_t i = 0; i < sizeof canary; i++)
    CHECK(canary[i] == 0x77);
}

static int rounds_up(void) {
  volatile double one = 1, seven = 7;
  return one / seven > 0x1.2492492492492p-3; /* to nearest, it is rounded down */
}

static void rounder(struct cfiber_thread *thread) {
  (void)thread;
  CHECK(rounds_up()); /* as it was before the switch */
  cfiber_fp_set(cfiber_fp_get() & ~UINT32_C(0x300));
  cfiber_switch(&other_context, main_context, mark(1));
  failed(__LINE__, "resumed once too often");
}

static void test_fp_control(void) {
  CHECK(!rounds_up());
  cfiber_fp_set(cfiber_fp_get() | 0x200);
  CHECK((cfiber_fp_get() & 0x300) == 0x200);
  other_context = cfiber_switch_init(stack, stack + STACK_BYTES, rounder);
  cfiber_switch(&main_context, other_context, mark(0));
  CHECK(!rounds_up());
  CHECK((cfiber_fp_get() & 0x300) == 0);
  CHECK((cfiber_fp_get() & 0x1f0000) == 0); /* the flag for inexact is no part of it */
}

void start(void);

void start(void) {
  test_switch((void (*)(void))cfiber_switch, 0);
  test_switch((void (*)(void))cfiber_switch_resume, 2000);
  test_begin();
  test_call_on();
  test_fp_control();
  system_call(SYS_exit, failures != 0, 0, 0);
}
