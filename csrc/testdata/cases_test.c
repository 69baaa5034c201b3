/*
 * cases_test.c - the cases of internal/ctest, which the Go tests run, on a
 * runtime without Go: so the sanitizers and the other variants see them too.
 */
#include "../../internal/ctest/cases.c"
#include "chaos.h"
#include "patience.h"

#define CASE(name, on_thread)                                                                      \
  { #name, case_##name, on_thread }

static const struct {
  const char *name;
  cfiber_func fn;
  bool on_thread; /* needs no fiber */
} cases[] = {
    CASE(pipe, false),
    CASE(stream, false),
    CASE(terminal, false),
    CASE(regular_file, true),
    CASE(file_in_part, true),
    CASE(flags, false),
    CASE(messages, false),
    CASE(datagrams, false),
    CASE(connect, false),
    CASE(acceptors, false),
    CASE(backlog, false),
    CASE(end_of_stream, false),
    CASE(sleep, true),
    CASE(deadline, false),
    CASE(many_timers, false),
    CASE(poll, false),
    CASE(close_wakes_poll, false),
    CASE(poll_beside_read, false),
    CASE(urgent, false),
    CASE(duplicates, false),
    CASE(full_duplex, false),
    CASE(cancel, false),
    CASE(shield, false),
    CASE(fibers, false),
    CASE(host_fiber, false),
    CASE(bad_io, true),
};

/* ThreadSanitizer clears most of a megabyte for each new fiber: ten thousand take minutes. */
static bool too_many_for_tsan(cfiber_func fn) {
#if defined(__SANITIZE_THREAD__)
  return fn == case_many_timers;
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
  return fn == case_many_timers;
#endif
#endif
  return fn == NULL;
}

int main(void) {
  int failures = 0;
  alarm(PATIENCE);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    CHAOS_TEST(cases[i].name);
    for (unsigned way = 0; way < 4 && !too_many_for_tsan(cases[i].fn); way++) {
      struct cfiber_options options = {.threads = 1 + way % 2, .migrate = way / 2};
      intptr_t line = 0;
      if (cfiber_run(cases[i].fn, NULL, &options, &line) || line) {
        failures++;
        fprintf(stderr, "cases.c:%d: %s failed (%u threads, migrate %u)\n", (int)line,
                cases[i].name, options.threads, options.migrate);
      }
    }
    intptr_t line = cases[i].on_thread ? cases[i].fn(NULL) : 0;
    if (line) {
      failures++;
      fprintf(stderr, "cases.c:%d: %s failed on a plain thread\n", (int)line, cases[i].name);
    }
  }
  return failures != 0;
}
