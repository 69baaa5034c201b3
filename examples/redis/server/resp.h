/*
 * resp.h - an incremental parser of Redis requests: RESP2 arrays of bulk
 * strings, and inline commands (a line of words, as typed into telnet).
 *
 * The parser does no I/O and owns no input. Its caller keeps the bytes of the
 * current request in one piece of memory and calls resp_parse whenever there
 * are more of them; what was understood before is not looked at again, so a
 * request costs time proportional to its length however it is cut up.
 */
#ifndef RESP_H
#define RESP_H

#include <stddef.h>
#include <stdint.h>

/*
 * The limits below bound what a connection can make the server hold. A claim
 * beyond them is refused when it is read, not when its bytes arrive.
 */
#define RESP_MAX_ARGS 1024                   /* arguments of a command, its name included */
#define RESP_MAX_BULK ((size_t)1024 * 1024)  /* bytes of an argument */
#define RESP_MAX_INLINE ((size_t)64 * 1024)  /* bytes of an inline command */
#define RESP_MAX_REQUEST (2 * RESP_MAX_BULK) /* bytes of a request, framing included */

enum resp_status {
  RESP_COMMAND, /* a whole request: argc arguments in argv, pos bytes long */
  RESP_MORE,    /* not yet; never with RESP_MAX_REQUEST bytes at hand */
  RESP_INVALID, /* error says why; nothing after it can be understood */
  RESP_NOMEM,
};

/* An argument: a piece of the request. Offsets survive a move of the input. */
struct resp_arg {
  uint32_t off, len;
};

/* All zero is a parser at the start of a request. */
struct resp_parser {
  uint32_t pos;          /* bytes understood so far */
  uint32_t scanned;      /* bytes of an inline command known to hold no newline */
  uint32_t want;         /* arguments announced */
  uint32_t bulk;         /* length announced for the argument at pos */
  uint8_t in_array;      /* want is known */
  uint8_t in_bulk;       /* bulk is known */
  uint32_t argc, cap;    /* arguments complete; room in argv */
  struct resp_arg *argv; /* grows with the arguments that arrive, not with the claim */
  char error[64];        /* after RESP_INVALID, in Redis's words where it has some */
};

/*
 * Goes on parsing the request that starts at data, of which len bytes are at
 * hand. Words of inline commands are unquoted in place. After RESP_COMMAND
 * call resp_next, and go on pos bytes further.
 */
enum resp_status resp_parse(struct resp_parser *p, char *data, size_t len);

/* Makes p ready for the next request. */
void resp_next(struct resp_parser *p);

/* Frees what p has allocated and leaves it all zero. */
void resp_reset(struct resp_parser *p);

#endif
