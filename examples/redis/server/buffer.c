#include <stdlib.h>
#include <string.h>

#include "conn.h"

bool buffer_reserve(struct buffer *b, size_t cap) {
  if (b->start > 0) {
    b->end -= b->start;
    memmove(b->data, b->data + b->start, b->end);
    b->start = 0;
  }
  if (cap <= b->cap)
    return true;
  char *data = realloc(b->data, cap);
  if (!data)
    return false;
  b->data = data;
  b->cap = cap;
  return true;
}

void buffer_free(struct buffer *b) {
  free(b->data);
  *b = (struct buffer){0};
}
