//go:build cgo

// Command redis serves a small part of the Redis protocol from C functions on
// fibers, one per connection. Package server says what it can do.
//
//	go run ./examples/redis -addr :6380
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/cfiber/cfiber"
	"github.com/cfiber/cfiber/examples/redis/server"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("redis: ")
	if err := run(); err != nil {
		log.Fatal(err)
	}
}

func run() error {
	var opts server.Options
	addr := flag.String("addr", ":6380", "`address` to listen on")
	threads := flag.Int("threads", 0, "threads that run fibers; 0: as many as there are CPUs")
	flag.IntVar(&opts.MaxConns, "max-conns", 0, "connections served at once; 0: no limit")
	flag.DurationVar(&opts.IdleTimeout, "idle", 0, "close a connection silent for so long; 0: never")
	flag.DurationVar(&opts.IOTimeout, "timeout", 30*time.Second, "time for a request to arrive, and for replies to be taken")
	flag.Parse()
	if flag.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flag.Arg(0))
	}

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends us the hard way

	rt, err := cfiber.New(cfiber.Options{Threads: *threads})
	if err != nil {
		return err
	}
	defer rt.Close()
	s, err := server.Listen(rt, *addr, opts)
	if err != nil {
		return err
	}
	defer s.Close()

	fmt.Printf("listening on %v, process %d; interrupt to stop\n", s.Addr(), os.Getpid())
	if err := s.Serve(ctx); err != nil {
		return err
	}
	stats := s.Stats()
	fmt.Printf("stopped after %d commands on %d connections\n", stats.Commands, stats.Accepted)
	return nil
}
