/*
 * layout.c - the table of what Go shares, checked by layout.go at start-up and
 * by its test.
 */
#include "bridge.h"
#include "core.h"

#define FIELD(type, field)                                                                         \
  { #type "." #field, offsetof(struct type, field), sizeof(((struct type *)0)->field) }
#define WHOLE(type)                                                                                \
  { #type, 0, sizeof(struct type) }

static const struct cfiber_layout_entry table[] = {
    WHOLE(cfiber),
    FIELD(cfiber, wait),
    FIELD(cfiber, next),
    FIELD(cfiber, thread),
    FIELD(cfiber, flags),
    FIELD(cfiber, index),
    FIELD(cfiber, result),
    FIELD(cfiber, error),
    FIELD(cfiber, stack),
    FIELD(cfiber, fn),
    FIELD(cfiber, arg),
    FIELD(cfiber, id),
    FIELD(cfiber, stack_size),
    FIELD(cfiber, deadline),
    FIELD(cfiber, joiner),
    FIELD(cfiber, shield),
    FIELD(cfiber, queued),
    FIELD(cfiber, runtime),
    FIELD(cfiber, name),

    WHOLE(cfiber_thread),
    FIELD(cfiber_thread, ready_queue),
    FIELD(cfiber_thread, ring_head),
    FIELD(cfiber_thread, ring_tail),
    FIELD(cfiber_thread, switches),
    FIELD(cfiber_thread, spawned),
    FIELD(cfiber_thread, finished),
    FIELD(cfiber_thread, steals),
    FIELD(cfiber_thread, wakes),
    FIELD(cfiber_thread, waits),
    FIELD(cfiber_thread, running),
    FIELD(cfiber_thread, index),
    FIELD(cfiber_thread, poller),
    FIELD(cfiber_thread, os_thread_id),

    WHOLE(cfiber_runtime),
    FIELD(cfiber_runtime, idle),
    FIELD(cfiber_runtime, searching),
    FIELD(cfiber_runtime, idle_search_index),
    FIELD(cfiber_runtime, active),
    FIELD(cfiber_runtime, reserved),
    FIELD(cfiber_runtime, allocated),
    FIELD(cfiber_runtime, limit),
    FIELD(cfiber_runtime, stop),
    FIELD(cfiber_runtime, closing),
    FIELD(cfiber_runtime, draining),
    FIELD(cfiber_runtime, threads),
    FIELD(cfiber_runtime, injected),
    FIELD(cfiber_runtime, global_size),
    FIELD(cfiber_runtime, completions),
    FIELD(cfiber_runtime, notified),
    FIELD(cfiber_runtime, watchdog_asleep),
    FIELD(cfiber_runtime, want_thread),
    FIELD(cfiber_runtime, migrate),
    FIELD(cfiber_runtime, stack_size),
    FIELD(cfiber_runtime, guard_kind),

    WHOLE(cfiber_call),
    FIELD(cfiber_call, index),
    FIELD(cfiber_call, args),
    FIELD(cfiber_call, result),
};

const struct cfiber_layout_entry *cfiber_layout(size_t *n) {
  *n = sizeof table / sizeof *table;
  return table;
}
