package cfiber

import (
	"runtime"
	"sync/atomic"
	"time"
)

// A call whose function does not wait is over sooner than its goroutine could be put to
// sleep and woken. So while calls turn out to be that short, the caller looks for the end
// by itself for a moment. It is the Go half of what csrc/sched.c calls lingering: between a
// thread and a caller that both are awake, a call needs no system call.
const (
	lookTime    = 50 * time.Microsecond
	lookPolls   = 64 // between two looks at the clock
	lookSamples = 8  // one in so many calls is measured, where callers do not look

	lookPenaltyMax = 127 // at most so many short calls make good for a look in vain
)

// looks decides whether callers look: each short call speaks for it, and each look in vain
// requires twice as many of them, until as many looks have paid. Losing an update to
// somebody else does no harm.
type looks struct {
	score, penalty atomic.Int32
}

func (l *looks) pay() bool { return l.score.Load() > 0 }

func (l *looks) short() {
	if n := l.score.Load(); n < 1 && runtime.NumCPU() > 1 {
		l.score.Store(n + 1)
	}
}

func (l *looks) paid() {
	if n := l.penalty.Load(); n > 0 {
		l.penalty.Store(n - 1)
	}
}

func (l *looks) inVain() {
	n := min(2*l.penalty.Load()+1, lookPenaltyMax)
	l.penalty.Store(n)
	l.score.Store(-n)
}

// look looks for the end of f, for a moment. One caller at a time does, for all. The runtime is not
// freed before it is over; see start.
func (rt *Runtime) look(f *Fiber) {
	defer rt.leave()
	// As if the core had told of a completion: it tells of no other until attend.
	if !rt.c.notified.CompareAndSwap(0, 1) {
		return
	}
	defer rt.attend(false)
	chaosDelay("LOOK")
	for began := time.Now(); time.Since(began) < lookTime; {
		for range lookPolls {
			rt.deliver()
			if len(f.done) > 0 {
				rt.looks.paid()
				return
			}
		}
	}
	rt.looks.inVain()
}

// sampleCall remembers when a call began that nobody looks for, if it is one to be measured.
func (f *Fiber) sampleCall() {
	if f.id%lookSamples == 0 {
		f.began = time.Now()
	}
}

// measureCall notes whether the call was short.
func (f *Fiber) measureCall() {
	if f.began.IsZero() {
		return
	}
	if time.Since(f.began) < 2*lookTime { // two threads had to be woken
		f.rt.looks.short()
	}
	f.began = time.Time{}
}
