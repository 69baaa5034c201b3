#define _GNU_SOURCE
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "conn.h"
#include "decimal.h"

#ifndef MSG_NOSIGNAL
#define MSG_NOSIGNAL 0 /* the socket has SO_NOSIGPIPE, see handler.c */
#endif

#define OUT_MIN ((size_t)1024)
#define OUT_MAX ((size_t)16 * 1024)

/* Sends all of it, or marks the connection broken. */
static void send_all(struct conn *c, const char *data, size_t n) {
  if (c->broken)
    return;
  /* A client that does not read its replies must not hold us for ever. */
  cfiber_deadline(cfiber_now() + c->server->options.io_ns);
  if (cfiber_send(c->fd, data, n, MSG_NOSIGNAL) != (ssize_t)n)
    c->broken = true;
}

static void send_out(struct conn *c) {
  if (c->out.end > 0)
    send_all(c, c->out.data, c->out.end);
  c->out.end = 0;
}

void conn_flush(struct conn *c) {
  send_out(c);
  if (c->out.cap > OUT_MIN)
    buffer_free(&c->out); /* most connections are at rest most of the time */
}

/* Makes room for n bytes, at most OUT_MAX, and returns where they go; NULL if broken. */
static char *out_room(struct conn *c, size_t n) {
  if (c->out.end + n > OUT_MAX)
    send_out(c);
  size_t cap = c->out.cap ? c->out.cap : OUT_MIN;
  while (cap < c->out.end + n)
    cap *= 2;
  if (!buffer_reserve(&c->out, cap))
    c->broken = true;
  return c->broken ? NULL : c->out.data + c->out.end;
}

static void out_write(struct conn *c, const char *data, size_t n) {
  if (n > OUT_MAX) { /* a large value goes out from where it is */
    send_out(c);
    send_all(c, data, n);
    return;
  }
  char *room = out_room(c, n);
  if (!room)
    return;
  memcpy(room, data, n);
  c->out.end += n;
}

/* Writes a marker byte, a number, CR LF. */
static void out_number(struct conn *c, char marker, int64_t n) {
  char line[1 + DECIMAL_MAX + 2];
  line[0] = marker;
  size_t len = 1 + decimal_format(line + 1, n);
  line[len++] = '\r';
  line[len++] = '\n';
  out_write(c, line, len);
}

void reply_status(struct conn *c, const char *text) {
  out_write(c, "+", 1);
  out_write(c, text, strlen(text));
  out_write(c, "\r\n", 2);
}

void reply_error(struct conn *c, const char *format, ...) {
  char text[512];
  va_list ap;
  va_start(ap, format);
  vsnprintf(text, sizeof text, format, ap);
  va_end(ap);
  /* What a client sent may be quoted here; a line break would end the reply. */
  for (char *p = text; (p = strpbrk(p, "\r\n")) != NULL;)
    *p = ' ';
  out_write(c, "-", 1);
  out_write(c, text, strlen(text));
  out_write(c, "\r\n", 2);
}

void reply_integer(struct conn *c, int64_t n) {
  out_number(c, ':', n);
}

void reply_bulk(struct conn *c, const void *data, size_t len) {
  out_number(c, '$', (int64_t)len);
  out_write(c, data, len);
  out_write(c, "\r\n", 2);
}

void reply_nil(struct conn *c) {
  out_write(c, "$-1\r\n", 5);
}

void reply_array(struct conn *c, size_t len) {
  out_number(c, '*', (int64_t)len);
}
