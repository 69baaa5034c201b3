// Package server is a small Redis server, written to show what blocking-style C
// on fibers looks like. The accept loop and the handler of a connection are C
// functions that receive, parse, run and send as if each had a thread of its
// own (server.c and handler.c); here is only what starts and stops them.
//
// It serves PING, ECHO, SET, GET, DEL, INCR and QUIT, and as much of CONFIG and
// COMMAND as redis-cli and redis-benchmark ask for when they start. Requests
// may be pipelined, and may be inline commands. Keys and values are binary.
//
// What a client can make it hold is bounded: a request has at most 1,024
// arguments of at most 1 MiB each and is at most 2 MiB long, an inline command
// 64 KiB; replies collect in at most 16 KiB. A connection at rest holds 2 to
// 3 KiB beside its fiber's stack. The store itself has no limit.
package server

/*
#cgo CFLAGS: -Wall -I${SRCDIR}/../../../csrc/include
#include "server.h"
*/
import "C"

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"math"
	"net"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"github.com/cfiber/cfiber"
)

// ErrClosed is returned by Serve on a server that is closed, or served before.
var ErrClosed = errors.New("server: closed")

// Options of a server. The zero value works.
type Options struct {
	// IdleTimeout is how long a connection may be silent between requests.
	// Zero is for ever.
	IdleTimeout time.Duration

	// IOTimeout is how long a request may take from its first byte to its
	// last, and how long the client may take to accept a batch of replies.
	// Zero is 30 seconds.
	IOTimeout time.Duration

	// MaxConns is how many connections are served at once; more are told so
	// and closed. Zero is no limit but those of the system and the runtime.
	MaxConns int
}

// Stats are counters of a server since it was opened.
type Stats struct {
	Conns    int    // connections open now
	Accepted uint64 // connections accepted
	Refused  uint64 // connections closed at once, for want of room
	Commands uint64 // requests run
	Backoffs uint64 // pauses in accepting, for want of descriptors or memory
	Keys     uint64 // keys in the store
}

// A Server is a listening socket, its connections and a store.
type Server struct {
	rt   *cfiber.Runtime
	addr net.Addr
	done chan struct{} // closed when Serve has ended

	mu     sync.Mutex
	c      *C.struct_server // nil once freed
	fiber  *cfiber.Fiber    // runs C.server_run
	closed bool
	last   Stats // once c is freed
}

// Listen opens a server on a TCP address such as ":6380". It accepts
// connections on the runtime's fibers once Serve is called.
func Listen(rt *cfiber.Runtime, addr string, opts Options) (*Server, error) {
	var config net.ListenConfig
	config.SetMultipathTCP(false)
	l, err := config.Listen(context.Background(), "tcp", addr)
	if err != nil {
		return nil, err
	}
	defer l.Close() // the C side has a duplicate by then

	raw, err := l.(*net.TCPListener).SyscallConn()
	if err != nil {
		return nil, err
	}
	options := opts.c()
	s := &Server{rt: rt, addr: l.Addr(), done: make(chan struct{})}
	controlErr := raw.Control(func(fd uintptr) {
		s.c, err = C.server_new(C.int(fd), &options)
	})
	if controlErr != nil {
		return nil, controlErr
	}
	if s.c == nil {
		return nil, fmt.Errorf("server: %w", err)
	}
	return s, nil
}

func (o Options) c() C.struct_server_options {
	if o.IOTimeout <= 0 {
		o.IOTimeout = 30 * time.Second
	}
	c := C.struct_server_options{
		idle_ns:   C.int64_t(max(o.IdleTimeout, 0)),
		io_ns:     C.int64_t(o.IOTimeout),
		max_conns: C.int(min(max(o.MaxConns, 0), math.MaxInt32)),
	}
	rand.Read(unsafe.Slice((*byte)(&c.seed[0]), len(c.seed))) // never fails
	return c
}

// Addr is the address the server listens on.
func (s *Server) Addr() net.Addr { return s.addr }

// Serve serves connections until ctx is done or Close is called, and returns
// nil then, after the last connection has ended. An error says why it stopped
// by itself. It can be called once.
func (s *Server) Serve(ctx context.Context) error {
	fiber, err := s.start()
	if err != nil {
		return err
	}
	defer close(s.done)
	stop := context.AfterFunc(ctx, fiber.Cancel)
	defer stop()
	errno, err := fiber.Wait(context.Background())
	if err != nil && !errors.Is(err, cfiber.ErrCanceled) {
		return err
	}
	if errno != 0 {
		return fmt.Errorf("server: accept: %w", syscall.Errno(errno))
	}
	return nil
}

func (s *Server) start() (*cfiber.Fiber, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.fiber != nil {
		return nil, ErrClosed
	}
	fiber, err := s.rt.Spawn(unsafe.Pointer(C.server_run), unsafe.Pointer(s.c),
		cfiber.Attr{Name: "redis accept"})
	s.fiber = fiber
	return fiber, err
}

// Close stops the server, ends its connections, waits for Serve to return, and
// drops the store. It always returns nil, and can be called more than once.
func (s *Server) Close() error {
	s.mu.Lock()
	s.closed = true
	fiber := s.fiber
	s.mu.Unlock()
	if fiber != nil {
		fiber.Cancel()
		<-s.done
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	if s.c != nil {
		s.last = s.stats()
		C.server_free(s.c)
		s.c = nil
	}
	return nil
}

// Stats returns the counters as they are now.
func (s *Server) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.c == nil {
		return s.last
	}
	return s.stats()
}

func (s *Server) stats() Stats {
	c := C.server_stats(s.c)
	return Stats{
		Conns:    int(c.conns),
		Accepted: uint64(c.accepted),
		Refused:  uint64(c.refused),
		Commands: uint64(c.commands),
		Backoffs: uint64(c.backoffs),
		Keys:     uint64(c.keys),
	}
}
