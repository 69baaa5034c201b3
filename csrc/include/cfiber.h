/*
 * cfiber.h - blocking-style C on fibers.
 *
 * A fiber is a C function running on a small stack of its own. The calls
 * declared here look like their POSIX namesakes, but where POSIX would block
 * the thread they park only the calling fiber, and the thread runs another.
 *
 * Conventions
 *   - Failure is -1 (or NULL) with errno set, as in POSIX. errno belongs to
 *     the fiber: another fiber of the thread cannot change it.
 *   - EINTR never surfaces from a call that waits.
 *   - Called where there is no fiber (a plain thread), every call waits by
 *     blocking the thread, so one C library can serve both.
 *   - Called inside a Go function that a fiber has called, a call also waits
 *     by blocking the thread; where that would wait for ever it fails with
 *     EDEADLK.
 *   - "Waiting call" below means one that can park. Each fails with ECANCELED
 *     once its fiber is cancelled (cfiber_cancel), and with ETIMEDOUT once the
 *     fiber's deadline is past (cfiber_deadline). An operation that has
 *     completed is never reported as either: its result is returned and the
 *     request stays pending for the next waiting call.
 *   - Times are nanoseconds on the monotonic clock, see cfiber_now.
 *
 * A fiber stays on the thread that first ran it unless it is declared
 * migratable, so thread-local state of C libraries behaves as on a thread.
 * Two fibers of one thread do share that state: do not hold a pthread mutex
 * over a waiting call.
 */
#ifndef CFIBER_H
#define CFIBER_H

#include <poll.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>

#ifdef __cplusplus
extern "C" {
#endif

#define CFIBER_VERSION_MAJOR 0
#define CFIBER_VERSION_MINOR 1
#define CFIBER_VERSION_PATCH 0

/*
 * A fiber. The handle is valid until cfiber_join or cfiber_detach, and no longer than
 * the runtime: a plain thread must not use it when cfiber_run, or Close in Go, may return.
 */
typedef struct cfiber cfiber_t;

/* What a fiber runs. Its return value is the fiber's result. */
typedef intptr_t (*cfiber_func)(void *arg);

/* Flags of struct cfiber_attr. */
#define CFIBER_MIGRATABLE 0x1u /* may resume on another thread after any wait */
#define CFIBER_KEEP_FP 0x2u    /* FP control word (MXCSR and x87, FPCR) is the fiber's own */
#define CFIBER_DETACHED 0x4u   /* nobody joins it; cfiber_spawn's handle is only an identity */

#define CFIBER_STACK_MIN ((size_t)16 * 1024)
#define CFIBER_STACK_MAX ((size_t)1024 * 1024 * 1024)
#define CFIBER_NAME_MAX 32 /* bytes kept of a name, with its final zero */

/* Attributes of a fiber to be spawned. All zero means the defaults. */
struct cfiber_attr {
  size_t stack_size; /* usable bytes; 0: the runtime's default. Rounded up to a power of two. */
  const char *name;  /* for messages and dumps; copied, cut to CFIBER_NAME_MAX - 1; NULL: none */
  unsigned flags;    /* CFIBER_MIGRATABLE, CFIBER_KEEP_FP, CFIBER_DETACHED */
};

/* ---- Fibers ------------------------------------------------------------ */

/*
 * Starts fn(arg) on a new fiber of the calling fiber's runtime. Does not wait
 * and does not switch. attr may be NULL. The stack is taken when the fiber
 * first runs.
 *   EINVAL   fn is NULL, the stack size is out of range, or an unknown flag
 *   EPERM    the caller is not on a fiber, or in a forked child: there is no runtime
 *   EAGAIN   the runtime's limit of fibers is reached
 *   ENOMEM   no memory for the fiber or its stack
 *   ECANCELED  the runtime is being closed
 */
cfiber_t *cfiber_spawn(cfiber_func fn, void *arg, const struct cfiber_attr *attr);

/*
 * Waits until f has ended, stores what it returned in *result (if not NULL)
 * and frees the handle. Waiting call; when it fails with ECANCELED, ETIMEDOUT,
 * EDEADLK or EAGAIN the handle is still valid.
 *   EINVAL   f is NULL, detached, not of cfiber_spawn (Go waits for those that
 *            it starts, cfiber_run for its own), or somebody already joins it
 *   EDEADLK  f is the caller, or could only run on the thread this would block
 *   EAGAIN   no memory for the timer of the caller's deadline
 *   ENOMEM   f could not be started: no memory for its stack (the handle is freed)
 */
int cfiber_join(cfiber_t *f, intptr_t *result);

/*
 * Gives f up: it frees itself when it ends. Does not wait.
 *   EINVAL   f is NULL, detached already, not of cfiber_spawn, or being joined
 */
int cfiber_detach(cfiber_t *f);

/*
 * Asks f to end: its current waiting call, and each later one, fails with
 * ECANCELED. Does not wait. Cancelling twice, or a fiber that has ended, does
 * nothing. Callable from any thread while the handle is valid.
 *   EINVAL   f is NULL
 */
int cfiber_cancel(cfiber_t *f);

/* 1 if the calling fiber has been cancelled (shield or not), else 0. */
int cfiber_canceled(void);

/*
 * With on != 0, hides a cancel request from the calling fiber's waiting calls
 * until the shield is lifted with on == 0, so that clean-up may wait. Returns
 * whether a shield was in force before.
 */
int cfiber_shield(int on);

/* The calling fiber, or NULL where there is none. */
cfiber_t *cfiber_self(void);

/* A number that no other fiber of the process has had. 0 for NULL. */
uint64_t cfiber_id(const cfiber_t *f);

/* The name given at spawn, or "". Valid as long as the handle. */
const char *cfiber_name(const cfiber_t *f);

/*
 * Where errno is now. Compilers take the address of errno for constant and keep
 * it over a call, but a migratable fiber may be on another thread after one. C
 * code that runs on migratable fibers must not use errno itself: either it uses
 * *cfiber_errno_address(), or it defines CFIBER_REDEFINE_ERRNO before including
 * this header, which makes errno mean that.
 */
int *cfiber_errno_address(void);

#ifdef CFIBER_REDEFINE_ERRNO
#include <errno.h>
#undef errno
#define errno (*cfiber_errno_address())
#endif

/* Lets other fibers of the thread run; returns when it is this one's turn. */
void cfiber_yield(void);

/*
 * Runs fn(arg) on the thread's native stack and returns what it returns. What
 * fn calls may be deeper than a fiber's stack allows, and may call Go. The
 * thread switches to no other fiber meanwhile. Where there is no fiber it just
 * calls fn. On ELF systems a call of an exported Go function does this by
 * itself.
 */
intptr_t cfiber_on_native_stack(cfiber_func fn, void *arg);

/* ---- Time -------------------------------------------------------------- */

/* Nanoseconds on the monotonic clock. */
int64_t cfiber_now(void);

/*
 * Waits ns nanoseconds. Zero or less yields once and returns. A thread that has nothing
 * to do wakes for timers at most every 0.1 ms, or 0.5 ms where it has more than 40,000 a
 * second: so much later a sleep may end. Waiting call.
 */
int cfiber_sleep(int64_t ns);

/*
 * Sets the deadline of all waiting calls of the calling fiber, in terms of
 * cfiber_now; 0 is none. Returns the deadline before. Where there is no fiber
 * it does nothing and returns 0.
 */
int64_t cfiber_deadline(int64_t abs_ns);

/* ---- I/O --------------------------------------------------------------- */

/*
 * As their POSIX namesakes on a blocking descriptor, whether or not the
 * descriptor is: reads wait for the first byte, and take all that they have room
 * for of a regular file; writes wait until all is written.
 * A write that fails after a part went out returns that part's length. The
 * O_NONBLOCK flag is never left changed. MSG_DONTWAIT in flags is honoured:
 * EAGAIN then surfaces. SO_RCVTIMEO and SO_SNDTIMEO are not: use
 * cfiber_deadline. All are waiting calls, except cfiber_close.
 */
ssize_t cfiber_read(int fd, void *buf, size_t n);
ssize_t cfiber_write(int fd, const void *buf, size_t n);
ssize_t cfiber_readv(int fd, const struct iovec *iov, int iovcnt);
ssize_t cfiber_writev(int fd, const struct iovec *iov, int iovcnt);
ssize_t cfiber_recv(int fd, void *buf, size_t n, int flags);
ssize_t cfiber_send(int fd, const void *buf, size_t n, int flags);
ssize_t cfiber_recvfrom(int fd, void *buf, size_t n, int flags, struct sockaddr *addr,
                        socklen_t *addrlen);
ssize_t cfiber_sendto(int fd, const void *buf, size_t n, int flags, const struct sockaddr *addr,
                      socklen_t addrlen);
ssize_t cfiber_recvmsg(int fd, struct msghdr *msg, int flags);
ssize_t cfiber_sendmsg(int fd, const struct msghdr *msg, int flags);

/* The accepted socket is blocking, as POSIX has it; the calls here do not mind. */
int cfiber_accept(int fd, struct sockaddr *addr, socklen_t *addrlen);

/*
 * 0 means connected. After ECANCELED or ETIMEDOUT the attempt goes on in the
 * background; calling again waits for it, or close the socket.
 */
int cfiber_connect(int fd, const struct sockaddr *addr, socklen_t addrlen);

/*
 * timeout in milliseconds, negative: none. Where the system does not report
 * urgent data (POLLPRI) to kqueue, as on FreeBSD and NetBSD, or not for this
 * kind of file, a wait for POLLPRI alone fails with ENOTSUP; beside other events
 * it is noticed only when one of those comes.
 */
int cfiber_poll(struct pollfd *fds, nfds_t n, int timeout);

/*
 * Waits until fd is ready for one of events (POLLIN, POLLOUT, POLLPRI) and
 * returns those that are, with POLLERR and POLLHUP where they hold. POLLPRI as
 * in cfiber_poll.
 */
int cfiber_wait_fd(int fd, int events);

/*
 * Closes fd and wakes every fiber that waits on it; their calls fail with
 * EBADF. Does not park. An fd that fibers wait on must be closed with this
 * and not with close(2).
 */
int cfiber_close(int fd);

/* ---- A runtime without Go ------------------------------------------------ */

/* How cfiber_run opens its runtime. All zero means the defaults. */
struct cfiber_options {
  unsigned threads;    /* 0: as many as there are CPUs */
  unsigned migrate;    /* 1: every fiber is migratable */
  size_t stack_size;   /* default usable bytes of a stack; 0: 256 KiB */
  uint32_t max_fibers; /* fibers alive at once; 0: 2^24 */
};

/*
 * For programs in C alone: opens a runtime, runs fn(arg) as its first fiber on
 * threads made for it, waits until every fiber has ended, closes the runtime,
 * and stores what fn returned in *result (if not NULL). options may be NULL.
 * Blocks the calling thread, which must not be on a fiber (EDEADLK).
 * Fails with the errno of what could not be made.
 */
int cfiber_run(cfiber_func fn, void *arg, const struct cfiber_options *options, intptr_t *result);

#ifdef __cplusplus
}
#endif

#endif /* CFIBER_H */
