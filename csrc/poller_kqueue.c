/*
 * poller_kqueue.c - the poller on macOS, FreeBSD, NetBSD, OpenBSD and
 * DragonFly: kqueue. On Linux, -DCFIBER_KQUEUE builds it against libkqueue,
 * so that it can be run there.
 *
 * A descriptor has two registrations, EVFILT_READ and EVFILT_WRITE, both with
 * EV_CLEAR, which makes them edge triggered. udata holds the generation.
 *
 * The wake event is an EVFILT_USER, registered once, EV_ADD with EV_CLEAR, and
 * triggered with flags 0. Neither may be otherwise: EV_ADD together with
 * NOTE_TRIGGER arms nothing on FreeBSD when the event is new, EV_ONESHOT
 * loses every wake-up after the first, and without EV_CLEAR the event stays
 * ready for ever. OpenBSD has no EVFILT_USER (or only of late), NetBSD since
 * release 10, so there the wake event is a pipe; poller_bsd.go decides likewise.
 *
 * -DCFIBER_KQUEUE_PLAIN uses neither EVFILT_USER nor EV_RECEIPT, as if on an
 * older NetBSD, to test that part elsewhere.
 */
#include "poller.h"

#include "fault.h"

#ifdef CFIBER_POLLER_KQUEUE

#include <fcntl.h>
#include <sys/event.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#if !defined(CFIBER_KQUEUE_PLAIN) && !defined(__NetBSD__) && !defined(__OpenBSD__)
#define HAVE_USER_EVENT 1
#endif
#if !defined(CFIBER_KQUEUE_PLAIN) && defined(EV_RECEIPT)
#define HAVE_RECEIPT 1
#endif

#define WAKE_IDENT 0

/* So many unread bytes in the wake pipe, and they are read; half of the smallest pipe. */
#define WAKE_DRAIN 256

/* Systems differ in the longest time they accept. Who waited for more waits again. */
#define TIMEOUT_MAX (INT64_C(86400) * NS_PER_S)

/*
 * libkqueue takes as many descriptors from its epoll as there is room for
 * events, and loses edges when descriptors that are ready both ways make more
 * events than that. Room for many makes it improbable.
 */
#ifdef __linux__
#define EVENTS 512
#else
#define EVENTS POLLER_EVENTS
#endif

/* The types of filter and udata differ: NetBSD had integers of its own for both. */
static void set(struct kevent *k, int ident, int filter, int flags, uint32_t generation) {
  memset(k, 0, sizeof *k);
  k->ident = (uintptr_t)ident;
  k->filter = (__typeof__(k->filter))filter;
  k->flags = (__typeof__(k->flags))flags;
  k->udata = (__typeof__(k->udata))(uintptr_t)generation;
}

/*
 * Applies n (up to 4) changes, each by itself: one that fails stops no other.
 * errors[i] becomes 0 or what is wrong with change i. Takes no events.
 */
static void apply(int kq, struct kevent *changes, int n, int *errors) {
#ifdef HAVE_RECEIPT
  static const struct timespec none;
  struct kevent receipts[4];
  int done, e = 0;
  for (int i = 0; i < n; i++)
    changes[i].flags |= EV_RECEIPT;
  while ((done = TRY(POLLER_CHANGE, -1, kevent(kq, changes, n, receipts, n, &none))) < 0 &&
         (e = cfiber_errno()) == EINTR)
    continue;
  for (int i = 0; i < n; i++)
    errors[i] = done < 0 ? e : i < done ? (int)receipts[i].data : EIO;
#else
  /* A list ends at its first error where that cannot be returned as an event, and room for
   * events would also be filled with those that are pending. */
  for (int i = 0; i < n; i++) {
    errors[i] = 0;
    while (TRY(POLLER_CHANGE, -1, kevent(kq, &changes[i], 1, NULL, 0, NULL)) < 0 &&
           (errors[i] = cfiber_errno()) == EINTR)
      errors[i] = 0;
  }
#endif
}

/* ---- The kqueue and its wake event --------------------------------------------- */

static int add_wake_event(struct poller *p) {
  struct kevent k;
  int e;
#ifdef HAVE_USER_EVENT
  set(&k, WAKE_IDENT, EVFILT_USER, EV_ADD | EV_CLEAR, 0);
#else
  int fds[2];
  if (TRY(POLLER_OPEN, -1, pipe2(fds, O_CLOEXEC | O_NONBLOCK)))
    return cfiber_errno();
  p->wake_read_fd = fds[0];
  p->wake_fd = fds[1];
  set(&k, p->wake_read_fd, EVFILT_READ, EV_ADD | EV_CLEAR, 0);
#endif
  apply(p->fd, &k, 1, &e);
  return e;
}

int cfiber_poller_open(struct poller *p) {
  p->wake_fd = p->wake_read_fd = -1;
  p->fd = TRY(POLLER_OPEN, -1, kqueue());
  if (p->fd < 0)
    return cfiber_errno();
  /* Forked children do not have it anyway; this is for a direct exec. */
  TRY(INHERIT, -1, fcntl(p->fd, F_SETFD, FD_CLOEXEC));
  int e = add_wake_event(p);
  if (e)
    cfiber_poller_close(p);
  return e;
}

void cfiber_poller_close(struct poller *p) {
  if (p->fd >= 0)
    TRY_DONE(CLOSE, -1, close(p->fd));
  if (p->wake_fd >= 0)
    TRY_DONE(CLOSE, -1, close(p->wake_fd));
  if (p->wake_read_fd >= 0)
    TRY_DONE(CLOSE, -1, close(p->wake_read_fd));
  p->fd = p->wake_fd = p->wake_read_fd = -1;
}

void cfiber_poller_wake(struct poller *p) {
#ifdef HAVE_USER_EVENT
  struct kevent k;
  set(&k, WAKE_IDENT, EVFILT_USER, 0, 0);
  k.fflags = NOTE_TRIGGER;
  while (TRY(POLLER_WAKE, -1, kevent(p->fd, &k, 1, NULL, 0, NULL)) < 0 && cfiber_errno() == EINTR)
    continue;
#else
  /* A full pipe has an event pending, or a reader that is about to look around. */
  while (TRY(POLLER_WAKE, -1, write(p->wake_fd, "", 1)) < 0 && cfiber_errno() == EINTR)
    continue;
#endif
}

/* ---- Descriptors ------------------------------------------------------------------ */

static void set_both(struct kevent *k, int fd, int flags, uint32_t generation) {
  set(&k[DIR_READ], fd, EVFILT_READ, flags, generation);
  set(&k[DIR_WRITE], fd, EVFILT_WRITE, flags, generation);
}

/* What a system says to a filter that it does not have for this kind of file. */
static bool is_refusal(int e) {
  return e == EINVAL || e == ENODEV || e == EOPNOTSUPP || e == ENOTSUP || e == EPERM;
}

static bool lacks_memory(const int *errors) {
  return errors[DIR_READ] == ENOMEM || errors[DIR_WRITE] == ENOMEM;
}

/*
 * What became of the registration as a whole. One direction is enough: the
 * other may not exist, as with the ends of a pipe (EINVAL, or EPIPE or EBADF
 * once the peer is closed), and then nobody will wait for it. But for want of
 * memory a waiter would sleep for ever.
 */
static int outcome(const int *errors) {
  int r = errors[DIR_READ], w = errors[DIR_WRITE];
  if (lacks_memory(errors))
    return ENOMEM;
  if (!r || !w)
    return 0;
  if (is_refusal(r))
    return is_refusal(w) ? EPERM : w;
  return r;
}

static int check(int fd) {
  struct stat st;
  if (TRY(POLLER_ADD, -1, fstat(fd, &st)))
    return cfiber_errno();
  /* kqueue would take these: as ready, but only until the end of the file. */
  return S_ISREG(st.st_mode) || S_ISDIR(st.st_mode) ? EPERM : 0;
}

/*
 * An old registration of the descriptor goes first, if there is one: it has
 * another generation. And libkqueue does not notice that a descriptor was
 * closed; it would take the new one for registered, and never report it.
 */
int cfiber_poller_add(struct poller *p, int fd, uint32_t generation) {
  struct kevent changes[4];
  int errors[4];
  int e = check(fd);
  if (e)
    return e;
  set_both(changes, fd, EV_DELETE, 0);
  set_both(changes + 2, fd, EV_ADD | EV_CLEAR, generation);
  apply(p->fd, changes, 4, errors);
  return lacks_memory(errors) ? ENOMEM : outcome(errors + 2);
}

/*
 * A filter of its own, for those who ask: of the rest, few would ever see an
 * event of it. FreeBSD and NetBSD have none, and EVFILT_READ keeps silent there.
 */
int cfiber_poller_add_urgent(struct poller *p, int fd, uint32_t generation) {
#if defined(EVFILT_EXCEPT) && defined(NOTE_OOB)
  struct kevent k;
  int e;
  set(&k, fd, EVFILT_EXCEPT, EV_ADD | EV_CLEAR, generation);
  k.fflags = NOTE_OOB;
  apply(p->fd, &k, 1, &e);
  return is_refusal(e) ? ENOTSUP : e;
#else
  (void)p, (void)fd, (void)generation;
  return ENOTSUP;
#endif
}

/*
 * To be deleted is what proves that it was there, on all systems, and adding it
 * again what reports its readiness. (libkqueue also deletes what it should have
 * dropped; then the answer is true, and made true by the second step.)
 */
bool cfiber_poller_confirm(struct poller *p, int fd, uint32_t generation) {
  struct kevent changes[2];
  int errors[2];
  if (check(fd))
    return false;
  set_both(changes, fd, EV_DELETE, 0);
  apply(p->fd, changes, 2, errors);
  if ((errors[DIR_READ] && errors[DIR_WRITE]) || lacks_memory(errors))
    return false; /* then it is added anew, which deletes what is left */
  set_both(changes, fd, EV_ADD | EV_CLEAR, generation);
  apply(p->fd, changes, 2, errors);
  return outcome(errors) == 0;
}

/* ---- Waiting ------------------------------------------------------------------------ */

static bool is_wake(struct poller *p, const struct kevent *k) {
#ifdef HAVE_USER_EVENT
  (void)p;
  return k->filter == EVFILT_USER;
#else
  if (k->filter != EVFILT_READ || (int)k->ident != p->wake_read_fd)
    return false;
  /* Each write is an edge, read or not; only a full pipe takes no more of them. */
  char buf[2 * WAKE_DRAIN];
  if (k->data >= WAKE_DRAIN)
    while (TRY(POLLER_WAIT, -1, read(p->wake_read_fd, buf, sizeof buf)) == (ssize_t)sizeof buf)
      continue;
  return true;
#endif
}

static void deliver(struct cfiber_thread *t, const struct kevent *k) {
  /* The end of a file, or an error, is for both directions to find out about. A write filter
   * reports the peer's reset, and the read filter alone may not. */
  bool both = k->flags & (EV_EOF | EV_ERROR);
  enum readiness end = both ? READY_FOR_GOOD : NOT_READY;
  cfiber_fd_event(t, (int)k->ident, (uint32_t)(uintptr_t)k->udata,
                  k->filter != EVFILT_WRITE && !both ? READY : end, /* EVFILT_EXCEPT as well */
                  k->filter == EVFILT_WRITE && !both ? READY : end);
}

int cfiber_poller_wait(struct cfiber_thread *t, int64_t timeout) {
  struct kevent events[EVENTS];
  struct timespec ts;
  if (timeout > TIMEOUT_MAX)
    timeout = TIMEOUT_MAX;
  ts.tv_sec = (time_t)(timeout / NS_PER_S);
  ts.tv_nsec = (long)(timeout % NS_PER_S);
  const struct timespec *most = timeout < 0 ? NULL : &ts;
  int n = TRY(POLLER_WAIT, -1, kevent(t->poller.fd, NULL, 0, events, EVENTS, most));
  if (n < 0)
    return cfiber_errno() == EINTR ? 0 : cfiber_errno();
  for (int i = 0; i < n; i++) {
    if (!is_wake(&t->poller, &events[i]))
      deliver(t, &events[i]);
  }
  return 0;
}

#endif /* CFIBER_POLLER_KQUEUE */
