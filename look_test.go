package cfiber

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/cfiber/cfiber/internal/ctest"
)

// Each look in vain takes twice as many short calls to make good for, and each that pays one less.
func TestLooksPay(t *testing.T) {
	var l looks
	needed := func() (n int) {
		for ; !l.pay(); n++ {
			l.short()
		}
		return n
	}
	if n := needed(); n != 1 {
		t.Errorf("%d short calls until callers look, want 1", n)
	}
	for _, want := range []int{2, 4, 8, 16, 32, 64, 128, 128} {
		l.inVain()
		if l.pay() {
			t.Fatal("callers look on after a look in vain")
		}
		if n := needed(); n != want {
			t.Errorf("%d short calls until callers look, want %d", n, want)
		}
	}
	for range 127 {
		l.paid()
	}
	if l.inVain(); needed() != 2 {
		t.Error("looks that paid have not made good")
	}
}

// Callers that look keep the runtime until they have ended, and are told of its end like others.
func TestLookWhileClosing(t *testing.T) {
	for range 200 {
		rt := openTest(t, Options{Threads: 2})
		var callers sync.WaitGroup
		for range 4 {
			callers.Go(func() {
				for {
					rt.looks.score.Store(1)
					if _, err := rt.Call(context.Background(), ctest.Return, nil); err != nil {
						if !errors.Is(err, ErrClosed) && !errors.Is(err, ErrCanceled) {
							t.Error(err)
						}
						return
					}
				}
			})
		}
		for rt.Stats().Finished < 20 {
			call(t, rt, ctest.Return, nil)
		}
		if err := rt.Close(); err != nil {
			t.Error(err)
		}
		callers.Wait()
	}
}

// A caller that looks in vain waits like others; and while it looks it is the one who is
// told of everything else: other ends, and threads that are wanted.
func TestLookInVain(t *testing.T) {
	rt := openTest(t, Options{Threads: 2})
	for range 100 {
		rt.looks.score.Store(1)
		other, err := rt.Spawn(ctest.Return, nil)
		if err != nil {
			t.Fatal(err)
		}
		call(t, rt, ctest.SleepNS, number(1_000_000))
		if _, err := other.Wait(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	// Not all of them look: those that find that the other has told already do not.
	if rt.looks.penalty.Load() == 0 {
		t.Error("no caller has looked in vain")
	}
}
