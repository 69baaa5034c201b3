#include "decimal.h"

#include <string.h>

bool decimal_parse(const char *s, size_t n, int64_t *value) {
  bool negative = n > 0 && s[0] == '-';
  size_t i = negative;
  if (i == n || n > DECIMAL_MAX)
    return false;
  if (s[i] == '0' && (n > 1))
    return false;

  /* The magnitude's limit is one more below zero than above. */
  uint64_t limit = (uint64_t)INT64_MAX + negative, v = 0;
  for (; i < n; i++) {
    unsigned digit = (unsigned char)s[i] - (unsigned)'0';
    if (digit > 9 || v > (limit - digit) / 10)
      return false;
    v = v * 10 + digit;
  }
  /* Negated as unsigned: -INT64_MIN does not fit an int64_t. */
  *value = (int64_t)(negative ? 0 - v : v);
  return true;
}

size_t decimal_format(char buf[DECIMAL_MAX], int64_t value) {
  char digits[DECIMAL_MAX];
  size_t at = sizeof digits;
  uint64_t v = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
  do
    digits[--at] = (char)('0' + v % 10);
  while ((v /= 10) != 0);
  if (value < 0)
    digits[--at] = '-';
  memcpy(buf, digits + at, sizeof digits - at);
  return sizeof digits - at;
}
