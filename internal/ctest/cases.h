#ifndef CASES_H
#define CASES_H

#include <stdint.h>

/* Each is a test: 0, or the line that failed. */
intptr_t case_pipe(void *);
intptr_t case_stream(void *);
intptr_t case_terminal(void *);
intptr_t case_regular_file(void *);
intptr_t case_file_in_part(void *);
intptr_t case_flags(void *);
intptr_t case_messages(void *);
intptr_t case_datagrams(void *);
intptr_t case_connect(void *);
intptr_t case_acceptors(void *);
intptr_t case_backlog(void *);
intptr_t case_end_of_stream(void *);
intptr_t case_sleep(void *);
intptr_t case_deadline(void *);
intptr_t case_many_timers(void *);
intptr_t case_poll(void *);
intptr_t case_close_wakes_poll(void *);
intptr_t case_poll_beside_read(void *);
intptr_t case_urgent(void *);
intptr_t case_duplicates(void *);
intptr_t case_full_duplex(void *);
intptr_t case_cancel(void *);
intptr_t case_shield(void *);
intptr_t case_fibers(void *);
intptr_t case_host_fiber(void *);
intptr_t case_bad_io(void *);

#endif
