/*
 * exceptions_test.cc - C++ exceptions on fibers: each fiber's are its own,
 * and one that leaves an entry function ends the process (fault 4).
 */
#include "cfiber.h"
#include "patience.h"

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <string>
#include <sys/wait.h>
#include <unistd.h>

static int failures;

#define CHECK(condition)                                                                           \
  do {                                                                                             \
    if (!(condition)) {                                                                            \
      failures++;                                                                                  \
      std::fprintf(stderr, "%s:%d: %s: not so: %s\n", __FILE__, __LINE__, __func__, #condition);   \
    }                                                                                              \
  } while (0)

static void run(cfiber_func fn) {
  cfiber_options options = {};
  options.threads = 1;
  intptr_t result = -1;
  CHECK(cfiber_run(fn, nullptr, &options, &result) == 0 && result == 0);
}

struct Counted {
  int *n;
  ~Counted() {
    ++*n;
  }
};

/* Thrown in one call, caught in another, with others running between try and throw. */
static intptr_t around_yields(void *p) {
  intptr_t id = reinterpret_cast<intptr_t>(p);
  int unwound = 0;
  for (int i = 0; i < 100; i++) {
    try {
      Counted c = {&unwound};
      cfiber_yield();
      throw id * 1000 + i;
    } catch (intptr_t value) {
      CHECK(value == id * 1000 + i);
    }
    cfiber_yield();
  }
  CHECK(unwound == 100);
  return 0;
}

/* Others throw and catch while this fiber is inside its handler. */
static intptr_t inside_handlers(void *p) {
  intptr_t id = reinterpret_cast<intptr_t>(p);
  for (int i = 0; i < 100; i++) {
    try {
      try {
        throw std::to_string(id * 1000 + i);
      } catch (const std::string &) {
        cfiber_yield();
        throw; /* the one of this handler */
      }
    } catch (const std::string &s) {
      for (int k = 0; k < id; k++)
        cfiber_yield();
      CHECK(s == std::to_string(id * 1000 + i));
    }
    CHECK(!std::current_exception());
  }
  return 0;
}

static intptr_t several(cfiber_func fn) {
  cfiber_t *f[5];
  for (intptr_t i = 0; i < 5; i++)
    f[i] = cfiber_spawn(fn, reinterpret_cast<void *>(i), nullptr);
  for (cfiber_t *one : f)
    CHECK(cfiber_join(one, nullptr) == 0);
  return 0;
}

static intptr_t several_around_yields(void *) {
  return several(around_yields);
}

static intptr_t several_inside_handlers(void *) {
  return several(inside_handlers);
}

static intptr_t escapes(void *) {
  throw 5;
}

/* The status of a child process that runs fn as its first fiber, and what it said. */
static int status_of(cfiber_func fn, std::string *said) {
  int fds[2], status = 0;
  if (pipe(fds))
    std::abort();
  pid_t pid = fork();
  if (pid == 0) {
    dup2(fds[1], 2);
    cfiber_run(fn, nullptr, nullptr, nullptr);
    _exit(0);
  }
  close(fds[1]);
  char buf[4096];
  ssize_t n;
  while ((n = read(fds[0], buf, sizeof buf)) > 0)
    said->append(buf, static_cast<size_t>(n));
  close(fds[0]);
  CHECK(waitpid(pid, &status, 0) == pid);
  return status;
}

int main() {
  alarm(PATIENCE);
  std::string said;
  int status = status_of(escapes, &said);
  CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
  CHECK(said.find("terminat") != std::string::npos); /* std::terminate's, of whatever library */
  run(several_around_yields);
  run(several_inside_handlers);
  return failures != 0;
}
