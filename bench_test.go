//go:build cgo

package cfiber

import (
	"context"
	"runtime"
	"sync"
	"testing"
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
		ctest.CallNoFiber(ctest.CallGoLoop, number(b.N))
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

var _ unsafe.Pointer
