package cfiber

import (
	"context"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/cfiber/cfiber/internal/ctest"
)

// yields runs two fibers on one thread that yield to each other n times in all.
func BenchmarkYield(b *testing.B) {
	rt := openTest(b, Options{Threads: 1})
	call(b, rt, ctest.YieldPair, number(1000))
	b.ResetTimer()
	call(b, rt, ctest.YieldPair, number(b.N))
}

func BenchmarkGosched(b *testing.B) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	var wg sync.WaitGroup
	b.ResetTimer()
	for range 2 {
		wg.Go(func() {
			for range b.N / 2 {
				runtime.Gosched()
			}
		})
	}
	wg.Wait()
}

// BenchmarkSpawnJoin spawns and joins from a fiber, one after the other.
func BenchmarkSpawnJoin(b *testing.B) {
	for _, threads := range []int{1, 2} {
		b.Run(map[int]string{1: "threads=1", 2: "threads=2"}[threads], func(b *testing.B) {
			rt := openTest(b, Options{Threads: threads})
			call(b, rt, ctest.SpawnJoin, number(1000))
			b.ResetTimer()
			call(b, rt, ctest.SpawnJoin, number(b.N))
		})
	}
}

func BenchmarkGoWaitGroup(b *testing.B) {
	for range b.N {
		var wg sync.WaitGroup
		wg.Add(1)
		go func() { wg.Done() }()
		wg.Wait()
	}
}

// BenchmarkCCall is a call of a C function that does nothing: by cgo, or without cgo by purego.
func BenchmarkCCall(b *testing.B) {
	openTest(b, Options{}) // has the core loaded
	for b.Loop() {
		bridgeNothing()
	}
}

// BenchmarkNewCallback calls Go from C on a fiber by NewCallback's functions, with reflection and
// without.
func BenchmarkNewCallback(b *testing.B) {
	for name, fn := range map[string]any{
		"word":    func(a uintptr) uintptr { return a },
		"reflect": func(a int32) int32 { return a },
	} {
		b.Run(name, func(b *testing.B) {
			rt := openTest(b, Options{Threads: 1})
			f := newCallback(b, fn)
			call(b, rt, ctest.CallLoop, unsafe.Pointer(&[]uintptr{uintptr(f), 1000}[0]))
			b.ResetTimer()
			call(b, rt, ctest.CallLoop, unsafe.Pointer(&[]uintptr{uintptr(f), uintptr(b.N)}[0]))
		})
	}
}

// BenchmarkCallback calls Go from C, on a fiber and from a plain cgo call.
func BenchmarkCallback(b *testing.B) {
	ctest.Callback = func(arg uintptr) uintptr { return arg }
	b.Run("fiber", func(b *testing.B) {
		rt := openTest(b, Options{Threads: 1})
		call(b, rt, ctest.CallGoLoop, number(1000))
		b.ResetTimer()
		call(b, rt, ctest.CallGoLoop, number(b.N))
	})
	b.Run("cgo", func(b *testing.B) {
		ctest.CallNoFiber(ctest.WithNumber(ctest.CallGoLoop, b.N))
	})
}

// BenchmarkCall runs a C function that returns at once, from one goroutine.
func BenchmarkCall(b *testing.B) {
	rt := openTest(b, Options{})
	ctx := context.Background()
	for range b.N {
		if _, err := rt.Call(ctx, ctest.Return, nil); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkConcurrentCalls makes 8,000 C calls at once that each sleep five times
// 10 ms: on fibers, and as plain cgo calls, each of which holds a thread. For
// orientation, what remains without any C: as many goroutines that wait on a
// channel for 50 ms each, which is the part of a call that is Go's.
func BenchmarkConcurrentCalls(b *testing.B) {
	const calls = 8000
	defer debug.SetMaxThreads(debug.SetMaxThreads(calls + 1000))
	all := func(b *testing.B, one func() int) {
		for range b.N {
			var wg sync.WaitGroup
			for range calls {
				wg.Go(func() {
					if n := one(); n != 0 {
						b.Error(n)
					}
				})
			}
			wg.Wait()
		}
	}
	b.Run("fiber", func(b *testing.B) {
		rt := openTest(b, Options{})
		ctx := context.Background()
		one := func() int { // no helper of package testing: these take a lock, and look at the stack
			n, err := rt.Call(ctx, ctest.SleepFive, nil)
			if err != nil {
				b.Error(err)
			}
			return n
		}
		all(b, one) // warm
		b.ResetTimer()
		all(b, one)
	})
	b.Run("cgo", func(b *testing.B) {
		all(b, func() int { return ctest.CallNoFiber(ctest.SleepFive, nil) })
		b.ResetTimer()
		all(b, func() int { return ctest.CallNoFiber(ctest.SleepFive, nil) })
	})
	b.Run("channel", func(b *testing.B) {
		wait := func() int {
			done := make(chan int, 1)
			time.AfterFunc(50*time.Millisecond, func() { done <- 0 })
			return <-done
		}
		all(b, wait)
		b.ResetTimer()
		all(b, wait)
	})
}

// BenchmarkSleepBusy reports how late a 1 ms sleep ends (p50, p99) while four
// goroutines per P compute: a loop of cfiber_sleep in C, and the same with the
// wait made in Go.
func BenchmarkSleepBusy(b *testing.B) {
	var stop atomic.Bool
	for range 4 * runtime.GOMAXPROCS(0) {
		go func() {
			for !stop.Load() {
				continue
			}
		}()
	}
	defer stop.Store(true)
	report := func(b *testing.B, late []int64) {
		slices.Sort(late)
		b.ReportMetric(float64(late[len(late)/2])/1e3, "p50-us")
		b.ReportMetric(float64(late[len(late)*99/100])/1e3, "p99-us")
		b.ReportMetric(0, "ns/op")
	}
	const rounds = 500
	b.Run("fiber", func(b *testing.B) {
		rt := openTest(b, Options{})
		late := make([]int64, rounds)
		for range b.N {
			late[0] = rounds
			call(b, rt, ctest.SleepLate, unsafe.Pointer(&late[0]))
		}
		report(b, late)
	})
	b.Run("go", func(b *testing.B) {
		late := make([]int64, rounds)
		for range b.N {
			for i := range late {
				begin := time.Now()
				time.Sleep(time.Millisecond)
				ctest.CallNoFiber(ctest.Return, nil)
				late[i] = int64(time.Since(begin) - time.Millisecond)
			}
		}
		report(b, late)
	})
}

// BenchmarkParked reports what a parked fiber costs.
func BenchmarkParked(b *testing.B) {
	const n = 10_000
	for range b.N {
		runtime.GC()
		mem, ths := residentBytes(b), threads(b)
		rt, err := New(Options{})
		if err != nil {
			b.Fatal(err)
		}
		var started int32
		for range n {
			spawn(b, rt, ctest.ParkForever, unsafe.Pointer(&started))
		}
		parked(b, rt, &started, n)
		b.ReportMetric(float64(residentBytes(b)-mem)/n, "B/fiber")
		b.ReportMetric(float64(threads(b)-ths), "threads")
		if err := rt.Close(); err != nil {
			b.Fatal(err)
		}
	}
}
