// cfiberbench: name=bare pkg= flags=-pthread workloads=switch,wake,echo
//
// The limits: what the machine allows when there is no library at all.
//
// switch  Two contexts that switch to each other; time of one way.
//         variant=inline3 (default): inline assembly that saves three
//         registers (stack, frame and instruction pointer) and tells the
//         compiler that all others are lost; it keeps what it needs, which here
//         is almost nothing. variant=six: a function that saves the six
//         registers that a callee has to keep, and goes on with an indirect
//         jump. variant=six_ret: the same with a return, which the return
//         predictor gets wrong each time. (On arm64 a callee keeps twenty.)
// wake    Two threads that wake each other; time of one way. mode=awake: both
//         spin. mode=sleeping: the other has gone to sleep, in FUTEX_WAIT or in
//         a blocking read. via=futex|eventfd. pin=1 puts them on two CPUs;
//         else the kernel may well move the one woken to its waker's.
// echo    A loop around epoll (kqueue elsewhere), level-triggered: one read, one
//         write and a share of a wait per request, nothing registered again.
//         Connections are dealt out to the threads in turn.
#include "bench.h"
#include "server.h"
#include <fcntl.h>
#include <poll.h>
#ifdef __linux__
#include <linux/futex.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#else
#include <sys/event.h>
#endif

// switch

typedef struct {
  void *sp, *fp, *ip;
} three;

#if defined(__x86_64__) && !defined(__ILP32__)
#define HAVE_SWITCH 1

static inline __attribute__((always_inline)) void switch_inline3(three *from, three *to) {
  __asm__ volatile("leaq 1f(%%rip), %%rax\n\t"
                   "movq %%rsp, (%0)\n\t"
                   "movq %%rbp, 8(%0)\n\t"
                   "movq %%rax, 16(%0)\n\t"
                   "movq (%1), %%rsp\n\t"
                   "movq 8(%1), %%rbp\n\t"
                   "jmpq *16(%1)\n"
                   "1:"
                   : "+D"(from), "+S"(to)
                   :
                   : "rax", "rbx", "rcx", "rdx", "r8", "r9", "r10", "r11", "r12", "r13", "r14",
                     "r15", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8",
                     "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15", "memory", "cc");
}

#define SAVE_SIX                                                                                   \
  "pushq %rbp; pushq %rbx; pushq %r12; pushq %r13; pushq %r14; pushq %r15\n"                       \
  "movq %rsp, (%rdi)\n"                                                                            \
  "movq %rsi, %rsp\n"                                                                              \
  "popq %r15; popq %r14; popq %r13; popq %r12; popq %rbx; popq %rbp\n"

__asm__(".text\n"
        ".p2align 4\n"
        "bare_switch_six:\n" SAVE_SIX "popq %rcx\n"
        "jmpq *%rcx\n"
        ".p2align 4\n"
        "bare_switch_six_ret:\n" SAVE_SIX "ret\n");

// A new context is six registers, where to go, and a return address of zero
// that leaves the stack as a call does.
enum { SAVED_WORDS = 6, FRAME_WORDS = 8 };

#elif defined(__aarch64__)
#define HAVE_SWITCH 1

// Apple's systems keep x18 for themselves; elsewhere compilers use it.
#ifdef __APPLE__
#define CLOBBER_X18
#else
#define CLOBBER_X18 "x18",
#endif

static inline __attribute__((always_inline)) void switch_inline3(three *from, three *to) {
  register three *x0 __asm__("x0") = from, *x1 __asm__("x1") = to;
  __asm__ volatile("adr x2, 1f\n\t"
                   "mov x3, sp\n\t"
                   "stp x3, x29, [x0]\n\t"
                   "str x2, [x0, #16]\n\t"
                   "ldp x3, x29, [x1]\n\t"
                   "ldr x2, [x1, #16]\n\t"
                   "mov sp, x3\n\t"
                   "br x2\n"
                   "1:"
                   : "+r"(x0), "+r"(x1)
                   :
                   : "x2", "x3", "x4", "x5", "x6", "x7", "x8", "x9", "x10", "x11", "x12", "x13",
                     "x14", "x15", "x16", "x17", CLOBBER_X18 "x19", "x20", "x21", "x22", "x23",
                     "x24", "x25", "x26", "x27", "x28", "x30", "v0", "v1", "v2", "v3", "v4", "v5",
                     "v6", "v7", "v8", "v9", "v10", "v11", "v12", "v13", "v14", "v15", "v16", "v17",
                     "v18", "v19", "v20", "v21", "v22", "v23", "v24", "v25", "v26", "v27", "v28",
                     "v29", "v30", "v31", "memory", "cc");
}

#define SAVE_TWENTY                                                                                \
  "sub sp, sp, #160\n"                                                                             \
  "stp x19, x20, [sp]\n"                                                                           \
  "stp x21, x22, [sp, #16]\n"                                                                      \
  "stp x23, x24, [sp, #32]\n"                                                                      \
  "stp x25, x26, [sp, #48]\n"                                                                      \
  "stp x27, x28, [sp, #64]\n"                                                                      \
  "stp d8, d9, [sp, #80]\n"                                                                        \
  "stp d10, d11, [sp, #96]\n"                                                                      \
  "stp d12, d13, [sp, #112]\n"                                                                     \
  "stp d14, d15, [sp, #128]\n"                                                                     \
  "stp x29, x30, [sp, #144]\n"                                                                     \
  "mov x9, sp\n"                                                                                   \
  "str x9, [x0]\n"                                                                                 \
  "mov sp, x1\n"                                                                                   \
  "ldp x19, x20, [sp]\n"                                                                           \
  "ldp x21, x22, [sp, #16]\n"                                                                      \
  "ldp x23, x24, [sp, #32]\n"                                                                      \
  "ldp x25, x26, [sp, #48]\n"                                                                      \
  "ldp x27, x28, [sp, #64]\n"                                                                      \
  "ldp d8, d9, [sp, #80]\n"                                                                        \
  "ldp d10, d11, [sp, #96]\n"                                                                      \
  "ldp d12, d13, [sp, #112]\n"                                                                     \
  "ldp d14, d15, [sp, #128]\n"                                                                     \
  "ldp x29, x30, [sp, #144]\n"                                                                     \
  "add sp, sp, #160\n"

__asm__(".text\n"
        ".p2align 4\n"
        "bare_switch_six:\n" SAVE_TWENTY "br x30\n"
        ".p2align 4\n"
        "bare_switch_six_ret:\n" SAVE_TWENTY "ret\n");

enum { SAVED_WORDS = 19, FRAME_WORDS = 20 };
#endif

#ifdef HAVE_SWITCH

void bare_switch_six(void **from, void *to) __asm__("bare_switch_six");
void bare_switch_six_ret(void **from, void *to) __asm__("bare_switch_six_ret");

static _Alignas(64) char partner_stack[64 * 1024];
static uint64_t partner_runs;

static three main_three, partner_three;
static void *main_sp, *partner_sp;

static void partner_inline3(void) {
  for (;;) {
    partner_runs++;
    switch_inline3(&partner_three, &main_three);
  }
}

static void partner_six(void) {
  for (;;) {
    partner_runs++;
    bare_switch_six(&partner_sp, main_sp);
  }
}

static void partner_six_ret(void) {
  for (;;) {
    partner_runs++;
    bare_switch_six_ret(&partner_sp, main_sp);
  }
}

static void prepare(void (*inline3)(void), void (*six)(void)) {
  void **top = (void **)(partner_stack + sizeof partner_stack);
  partner_three.sp = top - (FRAME_WORDS - SAVED_WORDS - 1); // as if called, where a call pushes
  partner_three.fp = NULL;
  partner_three.ip = (void *)inline3;
  top[-FRAME_WORDS + SAVED_WORDS] = (void *)six;
  partner_sp = top - FRAME_WORDS;
}

static void run_switch(void) {
  int variant = bench_choice("variant", "inline3|six|six_ret");
  uint64_t n = bench_number("n", 100000000);
  bench_arguments_done();
  prepare(partner_inline3, variant == 1 ? partner_six : partner_six_ret);
  uint64_t rounds = n / 2, start = bench_now();
  for (uint64_t i = 0; i < rounds; i++) {
    if (variant == 0)
      switch_inline3(&main_three, &partner_three);
    else if (variant == 1)
      bare_switch_six(&main_sp, partner_sp);
    else
      bare_switch_six_ret(&main_sp, partner_sp);
  }
  bench_time(start, 2 * rounds);
  BENCH_CHECK(partner_runs == rounds);
}

#else
static void run_switch(void) {
  bench_unsupported("switch: no assembly for this architecture");
}
#endif

// wake

// Both sides of a pair: what the other one waits for.
static _Alignas(128) struct side {
  uint32_t word;
  int event;
  char padding[128 - 2 * sizeof(uint32_t)];
} sides[2];

static struct {
  uint64_t rounds;
  int sleeping, eventfd, pin;
} wake;

static inline void pause_cpu(void) {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

#ifdef __linux__
static void futex(uint32_t *word, int operation, uint32_t value) {
  syscall(SYS_futex, word, operation | FUTEX_PRIVATE_FLAG, value, NULL, NULL, 0);
}

static void wait_event(struct side *side) {
  uint64_t count;
  while (read(side->event, &count, sizeof count) != sizeof count) {
    BENCH_CHECK(errno == EAGAIN || errno == EINTR);
    pause_cpu();
  }
}

static void make_events(void) {
  for (int i = 0; i < 2; i++)
    BENCH_CHECK((sides[i].event = eventfd(0, wake.sleeping ? 0 : EFD_NONBLOCK)) >= 0);
}
#else
static void futex(uint32_t *word, int operation, uint32_t value) {
  (void)word, (void)operation, (void)value;
  bench_unsupported("wake: no futex on this system");
}

enum { FUTEX_WAIT, FUTEX_WAKE };

static void wait_event(struct side *side) {
  (void)side;
}

static void make_events(void) {
  bench_unsupported("wake: no eventfd on this system");
}
#endif

static void wake_other(struct side *side) {
  if (wake.eventfd) {
    uint64_t one = 1;
    BENCH_CHECK(write(side->event, &one, sizeof one) == sizeof one);
    return;
  }
  __atomic_store_n(&side->word, 1, __ATOMIC_RELEASE);
  if (wake.sleeping)
    futex(&side->word, FUTEX_WAKE, 1);
}

static void wait_woken(struct side *side) {
  if (wake.eventfd) {
    wait_event(side);
    return;
  }
  while (__atomic_load_n(&side->word, __ATOMIC_ACQUIRE) == 0) {
    if (wake.sleeping)
      futex(&side->word, FUTEX_WAIT, 0);
    else
      pause_cpu();
  }
  __atomic_store_n(&side->word, 0, __ATOMIC_RELAXED);
}

static void *wake_partner(void *unused) {
  if (wake.pin)
    bench_pin(1);
  for (uint64_t i = 0; i < wake.rounds; i++) {
    wait_woken(&sides[1]);
    wake_other(&sides[0]);
  }
  return unused;
}

static void run_wake(void) {
  int mode = bench_choice("mode", "sleeping|awake|same");
  wake.eventfd = bench_choice("via", "futex|eventfd");
  wake.pin = bench_number("pin", 0) != 0;
  wake.rounds = bench_number("n", 200000) / 2;
  bench_arguments_done();
  if (mode == 2)
    bench_unsupported("wake mode=same: a thread has nobody to wake on itself");
  wake.sleeping = mode == 0;
  if (wake.eventfd)
    make_events();
  pthread_t partner;
  BENCH_CHECK(pthread_create(&partner, NULL, wake_partner, NULL) == 0);
  if (wake.pin)
    bench_pin(0);
  uint64_t start = bench_now();
  for (uint64_t i = 0; i < wake.rounds; i++) {
    wake_other(&sides[1]);
    wait_woken(&sides[0]);
  }
  bench_time(start, 2 * wake.rounds);
  pthread_join(partner, NULL);
}

// echo

enum { EVENTS = 512 };

static struct {
  int listener, pollers[SERVER_MAX_THREADS];
  unsigned threads, next; // next: of the thread that accepts
} echo;

// A peer that does not read what it asked for holds up its thread here; a real
// server would keep the rest and wait for POLLOUT among the other events.
static int write_all(int fd, const char *bytes, ssize_t length) {
  while (length > 0) {
    ssize_t n = write(fd, bytes, (size_t)length);
    if (n < 0 && errno == EAGAIN) {
      struct pollfd writable = {.fd = fd, .events = POLLOUT};
      poll(&writable, 1, -1);
    } else if (n < 0 && errno != EINTR) {
      return 0;
    } else if (n > 0) {
      bytes += n;
      length -= n;
    }
  }
  return 1;
}

static void answer(unsigned thread, int fd) {
  char buffer[SERVER_BUFFER];
  ssize_t n = read(fd, buffer, sizeof buffer);
  if (n < 0 && (errno == EAGAIN || errno == EINTR))
    return;
  if (n > 0)
    server_request(thread);
  if (n <= 0 || !write_all(fd, buffer, n))
    close(fd);
}

static void add(int poller, int fd) {
#ifdef __linux__
  struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
  BENCH_CHECK(epoll_ctl(poller, EPOLL_CTL_ADD, fd, &event) == 0);
#else
  struct kevent event;
  EV_SET(&event, fd, EVFILT_READ, EV_ADD, 0, 0, 0);
  BENCH_CHECK(kevent(poller, &event, 1, NULL, 0, NULL) == 0);
#endif
}

static void accept_all(void) {
  for (;;) {
    int fd = accept(echo.listener, NULL, NULL);
    if (fd < 0)
      return;
    fcntl(fd, F_SETFL, O_NONBLOCK);
    server_no_delay(fd);
    add(echo.pollers[echo.next++ % echo.threads], fd);
  }
}

static void *serve(void *argument) {
  unsigned thread = (unsigned)(uintptr_t)argument;
#ifdef __linux__
  struct epoll_event events[EVENTS];
#else
  struct kevent events[EVENTS];
#endif
  for (;;) {
#ifdef __linux__
    int n = epoll_wait(echo.pollers[thread], events, EVENTS, -1);
#else
    int n = kevent(echo.pollers[thread], NULL, 0, events, EVENTS, NULL);
#endif
    for (int i = 0; i < n; i++) {
#ifdef __linux__
      int fd = events[i].data.fd;
#else
      int fd = (int)events[i].ident;
#endif
      if (fd == echo.listener)
        accept_all();
      else
        answer(thread, fd);
    }
  }
  return NULL;
}

static void run_echo(void) {
  uint16_t port = server_arguments(&echo.threads);
  echo.listener = server_bind(port, 0);
  fcntl(echo.listener, F_SETFL, O_NONBLOCK);
  for (unsigned i = 0; i < echo.threads; i++) {
#ifdef __linux__
    echo.pollers[i] = epoll_create1(EPOLL_CLOEXEC);
#else
    echo.pollers[i] = kqueue();
#endif
    BENCH_CHECK(echo.pollers[i] >= 0);
  }
  add(echo.pollers[0], echo.listener);
  server_announce(echo.listener);
  for (unsigned i = 1; i < echo.threads; i++) {
    pthread_t thread;
    BENCH_CHECK(pthread_create(&thread, NULL, serve, (void *)(uintptr_t)i) == 0);
  }
  serve(NULL);
}

int main(int argc, char **argv) {
  static const struct bench_workload table[] = {
      {"switch", run_switch}, {"wake", run_wake}, {"echo", run_echo}, {NULL, NULL}};
  bench_main(argc, argv, table);
}
