// The frame of the workload `echo`: a listening socket, a count of requests,
// and the report when the harness closes stdin.
#ifndef SERVER_H
#define SERVER_H

#include "bench.h"
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/socket.h>

enum { SERVER_BUFFER = 4096, SERVER_MAX_THREADS = 64 };

// Each thread counts on a cache line of its own.
static struct {
  uint64_t requests;
  char padding[128 - sizeof(uint64_t)];
} server_counts[SERVER_MAX_THREADS];

// server_request counts what was read, before it is answered: who has the
// answer finds it counted.
static inline void server_request(unsigned thread) {
  __atomic_fetch_add(&server_counts[thread % SERVER_MAX_THREADS].requests, 1, __ATOMIC_RELAXED);
}

static inline void server_raise_limits(void) {
  struct rlimit files;
  if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
  }
}

// server_bind returns a socket that listens on the loopback; with `shared`
// others may listen there too and the kernel deals out the connections.
static inline int server_bind(uint16_t port, int shared) {
  int fd = socket(AF_INET, SOCK_STREAM, 0), on = 1;
  BENCH_CHECK(fd >= 0);
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (shared)
    BENCH_CHECK(setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on) == 0);
  struct sockaddr_in address;
  memset(&address, 0, sizeof address);
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (bind(fd, (struct sockaddr *)&address, sizeof address) != 0 || listen(fd, 4096) != 0)
    bench_fail(1, "listen on port %u: %s", port, strerror(errno));
  return fd;
}

static inline uint16_t server_port(int fd) {
  struct sockaddr_in address;
  socklen_t length = sizeof address;
  BENCH_CHECK(getsockname(fd, (struct sockaddr *)&address, &length) == 0);
  return ntohs(address.sin_port);
}

static inline void server_no_delay(int fd) {
  int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

static inline double server_resident(void) {
  long long pages = 0;
  FILE *statm = fopen("/proc/self/statm", "r");
  if (statm) {
    if (fscanf(statm, "%*s %lld", &pages) != 1)
      pages = 0;
    fclose(statm);
  }
  return (double)pages * (double)sysconf(_SC_PAGESIZE);
}

static inline void server_report(void) {
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  bench_metric("cpu",
               (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
                   (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6,
               "s");
  double resident = server_resident();
  if (resident > 0)
    bench_metric("rss", resident, "B");
  uint64_t requests = 0;
  for (int i = 0; i < SERVER_MAX_THREADS; i++)
    requests += __atomic_load_n(&server_counts[i].requests, __ATOMIC_RELAXED);
  printf("requests %" PRIu64 " count\n", requests);
  fflush(stdout);
}

static inline void *server_watch(void *unused) {
  char byte;
  while (read(0, &byte, 1) > 0)
    ;
  server_report();
  _exit(0);
  return unused;
}

// server_announce tells the port and has a thread end the process when stdin
// is closed. That thread sleeps all the time: no loop pays for watching stdin,
// and all peers do it in the same way.
static inline void server_announce(int fd) {
  printf("LISTENING %u\n", server_port(fd));
  fflush(stdout);
  pthread_t watcher;
  BENCH_CHECK(pthread_create(&watcher, NULL, server_watch, NULL) == 0);
}

// server_arguments reads `port` and `threads`.
static inline uint16_t server_arguments(unsigned *threads) {
  uint64_t port = bench_number("port", 0);
  *threads = (unsigned)bench_number("threads", 1);
  bench_arguments_done();
  if (port > 65535 || *threads < 1 || *threads > SERVER_MAX_THREADS)
    bench_fail(2, "port or threads out of range");
  server_raise_limits();
  return (uint16_t)port;
}

#endif
