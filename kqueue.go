package cfiber

// The queues that hand fibers from one thread to another, and the wake-ups that
// go with them, from the Go side. The protocol is that of csrc/sched.c; both
// follow docs/design.md, "Hand-over":
//
//   - readyQueue of a thread is readyIdle exactly while the thread is about to
//     wait or waiting in its poller. Whoever replaces that value, with a list or
//     with readyBusy, sends the one wake-up.
//   - A list is newest first, and never contains one of the two values.
//
// Each thread waits in a poller of its own: a kqueue with a user event, or an
// epoll with an eventfd; poller_linux.go and poller_bsd.go make them and trigger
// the event. The event carries no meaning. What it is about stands in memory.

// handOver pushes the chain first ... last, newest first, on the ready queue of
// t, and wakes t if it was idle.
func (rt *Runtime) handOver(t *cThread, first, last *cFiber) {
	for {
		old := t.readyQueue.Load()
		last.next = 0
		if old > readyBusy {
			last.next = old
		}
		chaosDelay("HAND_OVER")
		if t.readyQueue.CompareAndSwap(old, addressOf(first)) {
			chaosDelay("HANDED_OVER")
			if old == readyIdle {
				rt.wakeThread(t)
			}
			return
		}
	}
}

// idleSearch hands the chain (nil: an order to look for work) to one idle
// thread among the next `tries`, from a rotating index, and returns it; the
// caller wakes it.
func (rt *Runtime) idleSearch(first, last *cFiber, tries uint32) *cThread {
	active := rt.c.active.Load()
	start := rt.c.idleSearchIndex.Add(1)
	value := uintptr(readyBusy)
	if first != nil {
		value = addressOf(first)
		last.next = 0
	}
	for i := range min(tries, active) {
		t := rt.thread((start + i) % active)
		chaosDelay("IDLE_FOUND")
		if t.readyQueue.Load() == readyIdle && t.readyQueue.CompareAndSwap(readyIdle, value) {
			return t
		}
	}
	return nil
}

// inject pushes the chain on the queue that any thread takes from.
func (rt *Runtime) inject(first, last *cFiber) {
	for {
		old := rt.c.injected.Load()
		last.next = old
		chaosDelay("INJECT")
		if rt.c.injected.CompareAndSwap(old, addressOf(first)) {
			return
		}
	}
}

// wakeSearcher makes an idle thread look for work, unless one does already: it
// will find what has just been published, since it looks once more after it
// has announced that it no longer does.
func (rt *Runtime) wakeSearcher() {
	for again := true; again; again = rt.anyIdle() {
		chaosDelay("NOBODY")
		if rt.c.searching.Load() != searchingNobody || rt.c.idle.Load() == 0 ||
			!rt.c.searching.CompareAndSwap(searchingNobody, searchingChoosing) {
			return
		}
		chaosDelay("CHOOSING")
		if t := rt.idleSearch(nil, nil, maxThreads); t != nil {
			chaosDelay("CHOSEN")
			// Before the wake: a thread must not fall asleep again as the one who searches.
			announce(&rt.c.searching, t.index+1)
			chaosDelay("CHOICE_NOTED")
			rt.wakeThread(t)
			return
		}
		announce(&rt.c.searching, searchingNobody)
		chaosDelay("NONE_CHOSEN")
		// Others may have relied on the choice meanwhile, and a thread that was passed
		// over may have fallen idle since, before their work was there.
	}
}

func (rt *Runtime) anyIdle() bool {
	for i := range rt.c.active.Load() {
		if rt.thread(i).readyQueue.Load() == readyIdle {
			return true
		}
	}
	return false
}

// takeMovable empties the ready queue of a thread that does not come back for
// it, gives back those fibers that are bound to the thread, in their order, and
// returns the others, newest first.
func (rt *Runtime) takeMovable(t *cThread) (first, last *cFiber) {
	head := t.readyQueue.Load()
	chaosDelay("TAKE_LIST")
	if head <= readyBusy || !t.readyQueue.CompareAndSwap(head, readyBusy) {
		return nil, nil
	}
	var bound, boundLast *cFiber
	for p := head; p != 0; {
		f := pointerTo[cFiber](p)
		p = f.next
		chain, end := &first, &last
		if f.flags&(flagMigratable|flagStarted) == flagStarted {
			chain, end = &bound, &boundLast
		}
		f.next = 0
		if *end == nil {
			*chain = f
		} else {
			(*end).next = addressOf(f)
		}
		*end = f
	}
	chaosDelay("TAKEN")
	if bound != nil {
		rt.handOver(t, bound, boundLast)
	}
	return first, last
}

// wakeThread makes the thread's poller return. One system call.
func (rt *Runtime) wakeThread(t *cThread) {
	rt.wakes.Add(1)
	pollerWake(t.poller)
}
