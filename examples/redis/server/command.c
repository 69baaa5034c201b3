#include <string.h>

#include "conn.h"

/* A request's arguments, its name at 0. */
struct args {
  const char *frame;
  const struct resp_arg *argv;
  unsigned n;
};

struct slice {
  const char *data;
  size_t len;
};

static struct slice arg(const struct args *a, unsigned i) {
  return (struct slice){a->frame + a->argv[i].off, a->argv[i].len};
}

static char lower(char c) {
  return c >= 'A' && c <= 'Z' ? (char)(c | 0x20) : c;
}

/* Whether s is the lower-case name, in any case. */
static bool is_name(struct slice s, const char *name) {
  size_t i = 0;
  while (i < s.len && name[i] && lower(s.data[i]) == name[i])
    i++;
  return i == s.len && !name[i];
}

/* ---- Commands ---------------------------------------------------------------- */

static void wrong_arguments(struct conn *c, const char *name) {
  reply_error(c, "ERR wrong number of arguments for '%s' command", name);
}

static void cmd_ping(struct conn *c, const struct args *a) {
  if (a->n > 2)
    wrong_arguments(c, "ping");
  else if (a->n == 2)
    reply_bulk(c, arg(a, 1).data, arg(a, 1).len);
  else
    reply_status(c, "PONG");
}

static void cmd_echo(struct conn *c, const struct args *a) {
  reply_bulk(c, arg(a, 1).data, arg(a, 1).len);
}

static void cmd_set(struct conn *c, const struct args *a) {
  if (a->n > 3) { /* EX, NX and the like are not served */
    reply_error(c, "ERR syntax error");
    return;
  }
  struct slice key = arg(a, 1), data = arg(a, 2);
  struct value *v = value_new(data.data, data.len);
  if (v && store_set(c->server->store, key.data, key.len, v))
    reply_status(c, "OK");
  else
    reply_error(c, "ERR out of memory");
}

static void cmd_get(struct conn *c, const struct args *a) {
  struct slice key = arg(a, 1);
  struct value *v = store_get(c->server->store, key.data, key.len);
  if (!v) {
    reply_nil(c);
    return;
  }
  reply_bulk(c, v->data, v->len); /* may wait; our reference keeps v */
  value_unref(v);
}

static void cmd_del(struct conn *c, const struct args *a) {
  int64_t deleted = 0;
  for (unsigned i = 1; i < a->n; i++)
    deleted += store_del(c->server->store, arg(a, i).data, arg(a, i).len);
  reply_integer(c, deleted);
}

static void cmd_incr(struct conn *c, const struct args *a) {
  struct slice key = arg(a, 1);
  int64_t sum = 0;
  switch (store_incr(c->server->store, key.data, key.len, 1, &sum)) {
  case INCR_OK:
    reply_integer(c, sum);
    break;
  case INCR_NOT_INTEGER:
    reply_error(c, "ERR value is not an integer or out of range");
    break;
  case INCR_OVERFLOW:
    reply_error(c, "ERR increment or decrement would overflow");
    break;
  case INCR_NOMEM:
    reply_error(c, "ERR out of memory");
    break;
  }
}

static void cmd_quit(struct conn *c, const struct args *a) {
  (void)a;
  reply_status(c, "OK");
  c->closing = true;
}

/* redis-cli asks for the documentation of commands when it starts: there is none. */
static void cmd_command(struct conn *c, const struct args *a) {
  (void)a;
  reply_array(c, 0);
}

/* redis-benchmark asks for these two when it starts, and complains without an answer. */
static void cmd_config(struct conn *c, const struct args *a) {
  static const char *const settings[][2] = {{"save", ""}, {"appendonly", "no"}};
  if (!is_name(arg(a, 1), "get")) {
    reply_error(c, "ERR unknown subcommand '%.*s'. Try CONFIG GET.",
                (int)(arg(a, 1).len < 128 ? arg(a, 1).len : 128), arg(a, 1).data);
    return;
  }
  if (a->n < 3) {
    wrong_arguments(c, "config|get");
    return;
  }
  for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
    if (a->n == 3 && is_name(arg(a, 2), settings[i][0])) {
      reply_array(c, 2);
      reply_bulk(c, settings[i][0], strlen(settings[i][0]));
      reply_bulk(c, settings[i][1], strlen(settings[i][1]));
      return;
    }
  }
  reply_array(c, 0);
}

/* ---- Dispatch ---------------------------------------------------------------- */

/* arity counts the name; negative means at least so many. */
static const struct command {
  const char *name;
  int arity;
  void (*run)(struct conn *c, const struct args *a);
} commands[] = {
    {"get", 2, cmd_get},          {"set", -3, cmd_set},       {"incr", 2, cmd_incr},
    {"ping", -1, cmd_ping},       {"echo", 2, cmd_echo},      {"del", -2, cmd_del},
    {"command", -1, cmd_command}, {"config", -2, cmd_config}, {"quit", -1, cmd_quit},
};

static const struct command *find_command(struct slice name) {
  for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
    if (is_name(name, commands[i].name))
      return &commands[i];
  return NULL;
}

/* Quotes the first arguments as Redis does: up to 128 bytes in all. */
static void unknown_command(struct conn *c, const struct args *a) {
  enum { MAX = 128 };
  char shown[MAX + 4 + 1]; /* two quotes, a space and a zero more than MAX */
  size_t len = 0;
  for (unsigned i = 1; i < a->n && len < MAX; i++) {
    struct slice s = arg(a, i);
    size_t n = s.len < MAX - len ? s.len : MAX - len;
    shown[len++] = '\'';
    memcpy(shown + len, s.data, n);
    len += n;
    shown[len++] = '\'';
    shown[len++] = ' ';
  }
  shown[len] = '\0';
  struct slice name = arg(a, 0);
  reply_error(c, "ERR unknown command '%.*s', with args beginning with: %s",
              (int)(name.len < MAX ? name.len : MAX), name.data, shown);
}

void command_run(struct conn *c, const char *frame) {
  struct args a = {frame, c->parser.argv, c->parser.argc};
  if (a.n == 0)
    return; /* an empty array or line has no reply */
  const struct command *command = find_command(arg(&a, 0));
  if (!command)
    unknown_command(c, &a);
  else if (command->arity > 0 ? (int)a.n != command->arity : (int)a.n < -command->arity)
    wrong_arguments(c, command->name);
  else
    command->run(c, &a);
}
