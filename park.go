package cfiber

// The wait word, seen from Go. csrc/park.c and docs/design.md ("Park and wake")
// state the protocol; Go takes part in it as one more who may end a wait.

const (
	waitState   = 0x3
	waitRunning = 0
	waitArmed   = 1
	waitParked  = 2
	waitWoken   = 3

	waitCancel      = 0x4
	waitShielded    = 0x8
	waitReason      = 0x70
	waitReasonShift = 4
	waitLive        = 0x80
	waitMigratable  = 0x100
	waitEpochShift  = 9

	wakeCancel = 3
)

// requestCancel sets the fiber's cancel flag and ends its wait, if it is in
// one that cancel may end. It reports whether it did, and the word before. (A migratable
// fiber that was armed and not parked is made ready by the thread that is leaving it.)
func requestCancel(f *cFiber) (ended bool, before uint64) {
	for {
		old := f.wait.Load()
		if old&waitCancel != 0 || old&waitLive == 0 {
			return false, old
		}
		state := old & waitState
		ended = (state == waitArmed || state == waitParked) && old&waitShielded == 0
		word := old | waitCancel
		if ended {
			word = word&^(waitState|waitReason) | waitWoken | wakeCancel<<waitReasonShift
		}
		chaosDelay("CANCEL")
		if f.wait.CompareAndSwap(old, word) {
			return ended, old
		}
	}
}

// cancelFiber is cfiber_cancel. The caller vouches that f has not been freed. It reports whether
// f was alive.
func (rt *Runtime) cancelFiber(f *cFiber) bool {
	ended, before := requestCancel(f)
	if ended {
		chaosDelay("WOKEN")
		if before&waitMigratable == 0 {
			rt.handOver((*cThread)(f.thread), f, f)
		} else if before&waitState == waitParked {
			rt.schedule(f, f)
		}
	}
	return before&waitLive != 0
}
