package cfiber

import "sync/atomic"

// Stats are counters of a runtime since it was opened, and what there is now.
type Stats struct {
	Threads     int    // OS threads that run fibers
	IdleThreads int    // of those, waiting for events with nothing handed to them
	Live        uint64 // fibers spawned and not ended
	Spawned     uint64 // fibers, from Go and C
	Finished    uint64 // fibers
	Switches    uint64 // to a fiber
	Steals      uint64 // times that a thread took fibers from another
	Wakes       uint64 // wake-ups sent from thread to thread, and from Go
	Waits       uint64 // times that a thread slept
	Rounds      uint64 // of the watchdog
	StackSize   int    // usable bytes of a fiber's stack, by default
	Guards      string // what guards stacks: "install" (MADV_GUARD_INSTALL), "mprotect", "none" (no stack yet)
}

// Stats returns the runtime's counters; after it has been closed, the last ones.
func (rt *Runtime) Stats() Stats {
	rt.statsMu.Lock()
	defer rt.statsMu.Unlock()
	if s := rt.state.Load(); s == stateClosed || s == stateUnopened {
		return rt.final
	}
	return rt.stats()
}

func (rt *Runtime) stats() Stats {
	s := Stats{
		Threads:   int(rt.c.active.Load()),
		Wakes:     rt.wakes.Load(),
		Rounds:    rt.rounds.Load(),
		StackSize: int(rt.c.stackSize),
		Guards:    [...]string{"none", "install", "mprotect"}[pointerTo[atomic.Uint32](rt.guardKind).Load()],
	}
	s.Finished = rt.unstarted.Load()
	for i := range uint32(s.Threads) {
		s.Finished += rt.thread(i).finished.Load() // before spawned: Live is not too small
	}
	for i := range uint32(s.Threads) {
		t := rt.thread(i)
		s.Spawned += t.spawned.Load()
		s.Switches += t.switches.Load()
		s.Steals += t.steals.Load()
		s.Wakes += t.wakes.Load()
		s.Waits += t.waits.Load()
		if t.readyQueue.Load() == readyIdle {
			s.IdleThreads++
		}
	}
	s.Spawned += rt.spawned.Load()
	s.Live = s.Spawned - s.Finished
	return s
}
