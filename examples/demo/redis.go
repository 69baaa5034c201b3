//go:build cgo

package main

import (
	"context"
	"fmt"

	"net"
	"syscall"
	"time"

	"github.com/cfiber/cfiber"
	"github.com/cfiber/cfiber/examples/redis/loadgen"
	"github.com/cfiber/cfiber/examples/redis/server"
)

// redisResult is what serving a while came to.
type redisResult struct {
	Load    loadgen.Result // as the client saw it
	Served  uint64         // commands, as the server counted them
	Threads int            // of the server's process, at the most
	Bytes   int64          // resident, of all connections together, at the most
}

// serveRedis runs the server in this process while load drives it.
func serveRedis(load func(addr string) (loadgen.Result, error)) (result redisResult, err error) {
	rt, err := cfiber.New(cfiber.Options{})
	if err != nil {
		return result, err
	}
	defer rt.Close()
	s, err := server.Listen(rt, "127.0.0.1:0", server.Options{})
	if err != nil {
		return result, err
	}
	defer s.Close()
	served := make(chan error, 1)
	go func() { served <- s.Serve(context.Background()) }()

	m := startMeter(func(time.Duration) {})
	result.Load, err = load(s.Addr().String())
	result.Threads, result.Bytes = m.stop()
	if err != nil {
		return result, err
	}

	s.Close()
	stats := s.Stats()
	result.Served = stats.Commands
	switch err := <-served; {
	case err != nil:
		return result, err
	case stats.Commands < result.Load.Requests:
		return result, fmt.Errorf("the server counts %d commands, the client had %d replies", stats.Commands, result.Load.Requests)
	case stats.Keys != 0:
		return result, fmt.Errorf("%d keys are left in the store", stats.Keys)
	}
	return result, nil
}

// driveRedis is the client, in a process of its own.
func driveRedis(addr string, conns int, duration time.Duration, report func(string)) (loadgen.Result, error) {
	if _, _, err := net.SplitHostPort(addr); err != nil {
		return loadgen.Result{}, err
	}
	report(fmt.Sprintf("opening %s connections", count(int64(conns))))
	return loadgen.Run(context.Background(), loadgen.Config{
		Addr:     addr,
		Conns:    conns,
		Duration: duration,
		Seed:     uint64(time.Now().UnixNano()),
		Progress: func(requests uint64, elapsed time.Duration) {
			report(fmt.Sprintf("%s replies checked, %s of %s", count(int64(requests)), seconds(elapsed), seconds(duration)))
		},
	})
}

// connsPossible is how many connections a process can have, up to n. Go has
// raised the limit of open files to the most allowed when the process started.
func connsPossible(n int) int {
	const others = 100 // files
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) == nil && uint64(limit.Cur) < uint64(n+others) {
		return max(int(limit.Cur)-others, 1)
	}
	return n
}
