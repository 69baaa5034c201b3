#include "resp.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "decimal.h"

/* A length is at most seven digits; a line that goes on is nonsense. */
#define MAX_LENGTH_LINE 32
#define FEW_ARGS 4   /* room made at first */
#define KEPT_ARGS 16 /* room kept from one request to the next */

/* What parsing one part of a request came to. */
enum step { DONE, MORE, INVALID, NOMEM };

__attribute__((format(printf, 2, 3))) static enum step invalid(struct resp_parser *p,
                                                               const char *format, ...) {
  va_list ap;
  va_start(ap, format);
  vsnprintf(p->error, sizeof p->error, format, ap);
  va_end(ap);
  return INVALID;
}

static enum step add_arg(struct resp_parser *p, size_t off, size_t len) {
  if (p->argc == p->cap) {
    uint32_t cap = p->cap ? 2 * p->cap : FEW_ARGS;
    struct resp_arg *argv = realloc(p->argv, cap * sizeof *argv);
    if (!argv)
      return NOMEM;
    p->argv = argv;
    p->cap = cap;
  }
  p->argv[p->argc++] = (struct resp_arg){(uint32_t)off, (uint32_t)len};
  return DONE;
}

/* ---- Arrays of bulk strings ------------------------------------------------ */

/* Parses the line at pos: one marker byte, a length in decimal, CR LF. */
static enum step parse_length(struct resp_parser *p, const char *data, size_t len, const char *what,
                              const char *line, int64_t *n) {
  const char *digits = data + p->pos + 1, *end = data + len;
  size_t span = (size_t)(end - digits);
  const char *cr = memchr(digits, '\r', span < MAX_LENGTH_LINE ? span : MAX_LENGTH_LINE);
  if (!cr)
    return span < MAX_LENGTH_LINE ? MORE : invalid(p, "too big %s count string", line);
  if (cr + 1 == end)
    return MORE;
  if (cr[1] != '\n' || !decimal_parse(digits, (size_t)(cr - digits), n))
    return invalid(p, "invalid %s length", what);
  p->pos = (uint32_t)(cr + 2 - data);
  return DONE;
}

static enum step parse_array_header(struct resp_parser *p, const char *data, size_t len) {
  int64_t n;
  enum step step = parse_length(p, data, len, "multibulk", "mbulk", &n);
  if (step != DONE)
    return step;
  if (n > RESP_MAX_ARGS)
    return invalid(p, "invalid multibulk length");
  p->want = n > 0 ? (uint32_t)n : 0; /* an empty or null array is an empty command */
  p->in_array = 1;
  return DONE;
}

static enum step parse_bulk_header(struct resp_parser *p, const char *data, size_t len) {
  if (p->pos == len)
    return MORE;
  unsigned char marker = (unsigned char)data[p->pos];
  if (marker != '$')
    return invalid(p, "expected '$', got '%c'", marker >= ' ' && marker < 127 ? marker : '?');

  int64_t n;
  enum step step = parse_length(p, data, len, "bulk", "bulk", &n);
  if (step != DONE)
    return step;
  if (n < 0 || n > (int64_t)RESP_MAX_BULK)
    return invalid(p, "invalid bulk length");
  if (p->pos + (size_t)n + 2 > RESP_MAX_REQUEST)
    return invalid(p, "too big request");
  p->bulk = (uint32_t)n;
  p->in_bulk = 1;
  return DONE;
}

static enum step parse_bulk(struct resp_parser *p, const char *data, size_t len) {
  if (!p->in_bulk) {
    enum step step = parse_bulk_header(p, data, len);
    if (step != DONE)
      return step;
  }
  size_t end = p->pos + p->bulk;
  if (len < end + 2)
    return MORE;
  if (data[end] != '\r' || data[end + 1] != '\n')
    return invalid(p, "expected CRLF after bulk string");
  if (add_arg(p, p->pos, p->bulk) != DONE)
    return NOMEM;
  p->pos = (uint32_t)end + 2;
  p->in_bulk = 0;
  return DONE;
}

static enum step parse_array(struct resp_parser *p, const char *data, size_t len) {
  enum step step = DONE;
  if (!p->in_array)
    step = parse_array_header(p, data, len);
  while (step == DONE && p->argc < p->want)
    step = parse_bulk(p, data, len);
  return step;
}

/* ---- Inline commands ----------------------------------------------------- */

static bool is_space(char c) {
  return c == ' ' || (c >= '\t' && c <= '\r');
}

static int hex_digit(char c) {
  if (c >= '0' && c <= '9')
    return c - '0';
  c |= 0x20;
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* A line being unquoted in place: what is written never passes what is read. */
struct line {
  char *data;
  size_t read, write, end;
};

/* Resolves the escape after a backslash that has just been read. */
static char unescape(struct line *l) {
  char c = l->data[l->read++];
  switch (c) {
  case 'n':
    return '\n';
  case 'r':
    return '\r';
  case 't':
    return '\t';
  case 'b':
    return '\b';
  case 'a':
    return '\a';
  case 'x':
    if (l->end - l->read >= 2) {
      int high = hex_digit(l->data[l->read]), low = hex_digit(l->data[l->read + 1]);
      if (high >= 0 && low >= 0) {
        l->read += 2;
        return (char)(high << 4 | low);
      }
    }
    return c;
  default:
    return c;
  }
}

/* Copies up to the closing quote. False if there is none, or no space after it. */
static bool unquote(struct line *l, char quote) {
  while (l->read < l->end) {
    char c = l->data[l->read++];
    if (c == quote)
      return l->read == l->end || is_space(l->data[l->read]);
    if (c == '\\' && l->read < l->end) {
      if (quote == '"')
        c = unescape(l);
      else if (l->data[l->read] == '\'') /* the only escape between single quotes */
        c = l->data[l->read++];
    }
    l->data[l->write++] = c;
  }
  return false;
}

/* Copies one word. False if its quotes do not balance. */
static bool copy_word(struct line *l) {
  while (l->read < l->end && !is_space(l->data[l->read])) {
    char c = l->data[l->read++];
    if (c == '"' || c == '\'')
      return unquote(l, c);
    l->data[l->write++] = c;
  }
  return true;
}

static enum step split_line(struct resp_parser *p, char *data, size_t len) {
  struct line l = {.data = data, .end = len};
  for (;;) {
    while (l.read < l.end && is_space(l.data[l.read]))
      l.read++;
    if (l.read == l.end)
      return DONE;
    if (p->argc == RESP_MAX_ARGS)
      return invalid(p, "too many arguments");
    size_t start = l.write = l.read;
    if (!copy_word(&l))
      return invalid(p, "unbalanced quotes in request");
    if (add_arg(p, start, l.write - start) != DONE)
      return NOMEM;
  }
}

static enum step parse_inline(struct resp_parser *p, char *data, size_t len) {
  size_t limit = len < RESP_MAX_INLINE ? len : RESP_MAX_INLINE;
  char *newline = memchr(data + p->scanned, '\n', limit - p->scanned);
  if (!newline) {
    p->scanned = (uint32_t)limit;
    return limit < RESP_MAX_INLINE ? MORE : invalid(p, "too big inline request");
  }
  p->pos = (uint32_t)(newline + 1 - data);
  return split_line(p, data, (size_t)(newline - data)); /* a CR at its end is a space */
}

/* ---- Both ------------------------------------------------------------------ */

enum resp_status resp_parse(struct resp_parser *p, char *data, size_t len) {
  if (len == 0)
    return RESP_MORE;
  switch (data[0] == '*' ? parse_array(p, data, len) : parse_inline(p, data, len)) {
  case DONE:
    return RESP_COMMAND;
  case MORE:
    if (len < RESP_MAX_REQUEST)
      return RESP_MORE;
    invalid(p, "too big request");
    return RESP_INVALID;
  case INVALID:
    return RESP_INVALID;
  default:
    return RESP_NOMEM;
  }
}

void resp_next(struct resp_parser *p) {
  if (p->cap > KEPT_ARGS) {
    resp_reset(p);
    return;
  }
  *p = (struct resp_parser){.cap = p->cap, .argv = p->argv};
}

void resp_reset(struct resp_parser *p) {
  free(p->argv);
  *p = (struct resp_parser){0};
}
