/*
 * faults_test.c - each system call and allocation of the core fails once.
 *
 * A small program that uses everything is run again and again: at each site of fault.h the
 * first call fails, then the second, and so on, until the program gets through without
 * reaching the n-th. An error that the core is to hide must not be seen. One that it is to
 * tell ends what wanted the call, and nothing else: the program still ends, each call that
 * failed says so, and no descriptor or mapping is left.
 *
 *      faults_test [SITE [N]]     only that site, only its N-th call
 *
 * With CFIBER_CHAOS the sites fail by chance instead, several in one run, on more threads.
 */
#include "testing.h"

#include "fault.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static const struct {
  const char *name;
  int hidden, told;
} sites[] = {
#define SITE(name, hidden, told) {#name, hidden, told},
    FAULT_SITE_LIST(SITE)
#undef SITE
};

/* ---- What a run may see -------------------------------------------------------------------- */

static int injected; /* the error; 0: one that is not to be seen; -1: any that a site may tell */
static _Atomic int errors;

static bool may_be_told(int e) {
  for (size_t i = 0; injected < 0 && i < sizeof sites / sizeof *sites; i++)
    if (sites[i].told == e)
      return true;
  return injected > 0 && e == injected;
}

/* Whether a call has failed, which it may by what was injected, or as a peer of what did. */
static bool failed(intptr_t r) {
  if (r >= 0)
    return false;
  int e = errno;
  bool consequence = atomic_load(&errors) && (e == EPIPE || e == ECONNRESET || e == ECONNREFUSED);
  if (!may_be_told(e) && !consequence)
    fprintf(stderr, "an error that nobody injected: %s\n", strerror(e));
  CHECK(may_be_told(e) || consequence);
  atomic_fetch_add(&errors, 1);
  return true;
}

static void complete(bool condition) {
  CHECK(condition || atomic_load(&errors));
}

static cfiber_t *start(cfiber_func fn, void *arg, size_t stack_size) {
  struct cfiber_attr attr = {.stack_size = stack_size};
  cfiber_t *f = cfiber_spawn(fn, arg, &attr);
  failed(f ? 0 : -1);
  return f;
}

/* The result; -1 if the fiber could not run. */
static intptr_t end_of(cfiber_t *f) {
  intptr_t r = -1;
  return !f || failed(cfiber_join(f, &r)) ? -1 : r;
}

static void shut(int fd) {
  failed(cfiber_close(fd));
}

/* ---- Transfers ------------------------------------------------------------------------------- */

enum { PIECES = 12, PIECE = 20000, ALL = PIECES * PIECE };

struct end {
  int fd;
  int way; /* of calling */
  char *bytes;
};

static void split(struct iovec *iov, char *bytes) {
  for (int i = 0; i < PIECES; i++)
    iov[i] = (struct iovec){bytes + (size_t)i * PIECE, PIECE};
}

/* Writes all, and closes, come what may: so the reader ends, too. */
static intptr_t writer(void *p) {
  struct end *e = p;
  struct iovec iov[PIECES];
  struct msghdr msg = {.msg_iov = iov, .msg_iovlen = PIECES};
  split(iov, e->bytes);
  ssize_t n = e->way == 0   ? cfiber_writev(e->fd, iov, PIECES)
              : e->way == 1 ? cfiber_send(e->fd, e->bytes, ALL, MSG_NOSIGNAL)
                            : cfiber_sendmsg(e->fd, &msg, MSG_NOSIGNAL);
  if (!failed(n) && n < ALL) { /* it failed halfway, and tells so, as write does */
    CHECK(injected);
    atomic_fetch_add(&errors, 1);
  }
  shut(e->fd);
  return 0;
}

static ssize_t receive(const struct end *e, size_t got) {
  struct iovec iov = {e->bytes + got, ALL - got};
  struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
  return e->way == 0   ? cfiber_readv(e->fd, &iov, 1)
         : e->way == 1 ? cfiber_recv(e->fd, iov.iov_base, iov.iov_len, MSG_WAITALL)
                       : cfiber_recvmsg(e->fd, &msg, MSG_WAITALL);
}

/* Of a fiber that nobody has joined. */
static bool has_ended(cfiber_t *f) {
  return !(atomic_load(&f->wait) & WAIT_LIVE);
}

/* The writer is w's, or NULL: it has been joined, or there was none. A writer that could not run
 * closes nothing. */
static void join_writer(cfiber_t **writer, const struct end *w) {
  if (*writer && end_of(*writer) < 0)
    shut(w->fd);
  *writer = NULL;
}

/* Reads until the end. Looks after the writer, whose end may be what it waits for. */
static size_t reader(const struct end *e, cfiber_t **writer, const struct end *w) {
  size_t got = 0;
  ssize_t n = 1;
  while (got < ALL && n != 0) {
    cfiber_deadline(cfiber_now() + 100 * NS_PER_MS);
    n = receive(e, got);
    bool late = n < 0 && errno == ETIMEDOUT;
    cfiber_deadline(0);
    if (late && *writer && has_ended(*writer))
      join_writer(writer, w);
    else if (!late && failed(n))
      break;
    got += n > 0 ? (size_t)n : 0;
  }
  shut(e->fd);
  return got;
}

/* Through a pair of descriptors, which are closed. */
static void transfer(int from, int to, int way) {
  char *sent = malloc(ALL), *got = calloc(1, ALL);
  for (size_t i = 0; i < ALL; i++)
    sent[i] = (char)(i * 7 + i / 251);
  struct end w = {to, way, sent}, r = {from, way, got};
  cfiber_t *f = start(writer, &w, 0);
  if (!f)
    shut(to);
  size_t n = reader(&r, &f, &w);
  join_writer(&f, &w);
  complete(n == ALL);
  CHECK(memcmp(sent, got, n) == 0);
  free(sent);
  free(got);
}

/* So that it can be told from a transfer that fails. */
static intptr_t nothing(void *p) {
  return (intptr_t)p;
}

static bool can_run(void) {
  cfiber_t *f = start(nothing, (void *)3, 0);
  return end_of(f) == 3;
}

static void pairs(void) {
  int fds[2];
  for (int way = 0; way < 3 && can_run(); way++) {
    CHECK((way == 0 ? pipe(fds) : socketpair(AF_UNIX, SOCK_STREAM, 0, fds)) == 0);
    transfer(fds[0], fds[1], way);
  }
}

/* ---- Connections ---------------------------------------------------------------------------- */

static intptr_t accepter(void *p) {
  int fd = cfiber_accept(*(int *)p, NULL, NULL);
  return failed(fd) ? -1 : fd;
}

/* Connects while another fiber accepts; if either fails the other is told by a close. */
static void connection(void) {
  struct sockaddr_in addr = {.sin_family = AF_INET};
  socklen_t len = sizeof addr;
  int l = socket(AF_INET, SOCK_STREAM, 0), c = socket(AF_INET, SOCK_STREAM, 0);
  addr.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  CHECK(bind(l, (struct sockaddr *)&addr, len) == 0 && listen(l, 1) == 0);
  CHECK(getsockname(l, (struct sockaddr *)&addr, &len) == 0);
  if (!failed(cfiber_connect(c, (struct sockaddr *)&addr, len))) {
    int s = (int)end_of(start(accepter, &l, 0));
    char bytes[10] = "", got[20];
    if (s >= 0 && !failed(cfiber_send(c, bytes, 10, 0))) {
      ssize_t n = cfiber_recv(s, got, sizeof got, 0);
      if (!failed(n))
        complete(n > 0);
      shut(c);
      c = -1;
      do /* the end, behind what may be left */
        n = cfiber_recv(s, got, sizeof got, 0);
      while (n > 0);
      failed(n);
    }
    if (s >= 0)
      shut(s);
  }
  if (c >= 0)
    shut(c);
  shut(l);
}

/* ---- The rest ---------------------------------------------------------------------------------
 */

static intptr_t sleeper(void *p) {
  return failed(cfiber_sleep((intptr_t)p)) ? -1 : 7;
}

static void timers(void) {
  enum { N = 70 }; /* more than a heap begins with */
  cfiber_t *f[N];
  for (int i = 0; i < N; i++)
    f[i] = start(sleeper, (void *)(intptr_t)(1000 + i), 0);
  for (int i = 0; i < N; i++)
    complete(end_of(f[i]) == 7);
}

static void stacks(void) {
  static const size_t sizes[] = {CFIBER_STACK_MIN, 64 * 1024, 1 << 20};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
    complete(end_of(start(nothing, (void *)5, sizes[i])) == 5);
}

static void polls(void) {
  enum { N = 6 }; /* more than fit where they are kept for few */
  int fds[2];
  struct pollfd p[N];
  CHECK(pipe(fds) == 0);
  for (int i = 0; i < N; i++)
    p[i] = (struct pollfd){.fd = i ? -1 : fds[0], .events = POLLIN};
  int n = cfiber_poll(p, N, 1);
  if (!failed(n))
    complete(n == 0);
  CHECK(write(fds[1], "x", 1) == 1);
  n = cfiber_poll(p, N, -1);
  if (!failed(n))
    complete(n == 1 && p[0].revents == POLLIN);
  n = cfiber_wait_fd(fds[1], POLLOUT);
  if (!failed(n))
    complete(n == POLLOUT);
  shut(fds[0]);
  shut(fds[1]);
}

static void file(void) {
  FILE *f = tmpfile();
  char got[8] = "";
  CHECK(f);
  ssize_t n = cfiber_write(fileno(f), "abcdefg", 8);
  if (!failed(n)) {
    complete(n == 8);
    CHECK(lseek(fileno(f), 0, SEEK_SET) == 0);
    n = cfiber_read(fileno(f), got, 8);
    if (!failed(n))
      complete(n > 0 && memcmp(got, "abcdefg", (size_t)n) == 0);
  }
  fclose(f);
}

static intptr_t sleep_long(void *unused) {
  (void)unused;
  int r = cfiber_sleep(INT64_MAX);
  return r && errno == ECANCELED ? 9 : failed(r) ? -1 : 0;
}

static void cancel(void) {
  cfiber_t *f = start(sleep_long, NULL, 0);
  if (f)
    CHECK(cfiber_cancel(f) == 0);
  complete(end_of(f) == 9);
}

/* Where there is no fiber. */
static intptr_t on_thread(void *unused) {
  (void)unused;
  int fds[2];
  char c;
  CHECK(pipe(fds) == 0 && fcntl(fds[0], F_SETFL, O_NONBLOCK) == 0);
  CHECK(cfiber_sleep(1000) == 0);
  if (!failed(cfiber_write(fds[1], "x", 1))) {
    failed(cfiber_wait_fd(fds[0], POLLIN));
    failed(cfiber_read(fds[0], &c, 1));
  }
  shut(fds[0]);
  shut(fds[1]);
  return 0;
}

static intptr_t everything(void *unused) {
  (void)unused;
  pairs();
  if (can_run())
    connection();
  timers();
  stacks();
  polls();
  file();
  cancel();
  CHECK(cfiber_on_native_stack(on_thread, NULL) == 0);
  return 11;
}

/* ---- Runs -------------------------------------------------------------------------------------
 */

static char where[100];

static void hangs(int sig) {
  (void)sig;
  ssize_t ignored = write(STDERR_FILENO, where, strlen(where));
  (void)ignored;
  abort();
}

static void run_everything(unsigned threads, unsigned migrate) {
  struct cfiber_options options = {.threads = threads, .migrate = migrate};
  intptr_t r = 0;
  int before = open_descriptors();
  atomic_store(&errors, 0);
  alarm(PATIENCE);
  if (!failed(cfiber_run(everything, NULL, &options, &r)))
    CHECK(r == 11);
  on_thread(NULL);
  alarm(PATIENCE);
  CHECK(all_closed(before));
}

#ifdef CFIBER_CHAOS

static int all_runs(int argc, char **argv) {
  (void)argc, (void)argv;
  setenv("CFIBER_CHAOS", "fail=0.002", 0);
  injected = -1;
  for (unsigned i = 0; i < 12; i++) {
    snprintf(where, sizeof where, "run %u does not end\n", i);
    run_everything(1 + i % 3, i / 3 % 2);
  }
  return atomic_load(&failures) != 0;
}

#else

/* In pages; 0 where that is not known. A sanitizer keeps freed memory, and an emulator has memory
 * of its own. */
static long mapped(void) {
  long n = 0;
#ifndef CFIBER_SANITIZE
  FILE *f = emulated() ? NULL : fopen("/proc/self/statm", "r");
  if (f) {
    if (fscanf(f, "%ld", &n) != 1)
      n = 0;
    fclose(f);
  }
#endif
  return n;
}

/* A run in which that call fails. False: it was not reached. */
static bool run_failing(int site, uint32_t n, int error, bool told) {
  snprintf(where, sizeof where, "does not end: site %s, call %u\n", sites[site].name, n);
  injected = told ? error : 0;
  int failed_before = atomic_load(&failures);
  cfiber_fault_set((enum fault_site)site, error, n, 1);
  run_everything(1, 0);
  bool reached = cfiber_fault_calls((enum fault_site)site) >= n;
  cfiber_fault_set((enum fault_site)site, 0, 0, 0);
  if (atomic_load(&failures) != failed_before)
    fprintf(stderr, "... at site %s, call %u\n", sites[site].name, n);
  return reached;
}

/* What is mapped after a run varies, but does not grow for ever. */
static void check_leaks(int site, uint32_t n, int error, bool told, long before) {
  enum { TRIES = 16 };
  int grown = 0;
  for (int i = 0; i < TRIES && mapped() > before; i++) {
    before = mapped();
    run_failing(site, n, error, told);
    grown += mapped() > before;
  }
  if (grown == TRIES)
    fprintf(stderr, "a mapping is left, site %s, call %u\n", sites[site].name, n);
  CHECK(grown < TRIES);
}

static uint32_t fail_each(int site, int error, bool told, uint32_t only_call) {
  uint32_t n = only_call ? only_call : 1;
  for (;; n++) {
    long before = mapped();
    bool reached = run_failing(site, n, error, told);
    if (!reached || only_call)
      return n - !reached;
    if (mapped() > before)
      check_leaks(site, n, error, told, before);
    /* Of those that are many, the first ones, and then fewer and fewer. */
    if (n >= 24)
      n += n / 4;
  }
}

static int all_runs(int argc, char **argv) {
  uint32_t only_call = argc > 2 ? (uint32_t)atoi(argv[2]) : 0;
  for (int i = 0; i < 3; i++)
    run_everything(1, 0);
  for (int site = 0; site < FAULT_SITES; site++) {
    if (argc > 1 && strcmp(argv[1], sites[site].name) != 0)
      continue;
    uint32_t hidden = 0, told = 0;
    if (sites[site].hidden)
      hidden = fail_each(site, sites[site].hidden, false, only_call);
    if (sites[site].told)
      told = fail_each(site, sites[site].told, true, only_call);
    printf("%s: %u hidden, %u told\n", sites[site].name, hidden, told);
    fflush(stdout);
  }
  return atomic_load(&failures) != 0;
}

#endif

int main(int argc, char **argv) {
  signal(SIGALRM, hangs);
  signal(SIGPIPE, SIG_IGN);
  return all_runs(argc, argv);
}
