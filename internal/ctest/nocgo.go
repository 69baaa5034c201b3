//go:build !cgo

package ctest

import "unsafe"

// Without cgo the functions are those of a shared library, see load_purego.go. They are nil, and
// Err says why, if it could not be loaded.

// Functions to spawn. See ctest.c for what each does with its argument.
var (
	Return          = symbol("ct_return")
	SleepNS         = symbol("ct_sleep_ns")
	SleepArray      = symbol("ct_sleep_array")
	SleepThrice     = symbol("ct_sleep_thrice")
	Errno           = symbol("ct_errno")
	CallGo          = symbol("ct_call_go")
	CallGoDeep      = symbol("ct_call_go_deep")
	ReadFD          = symbol("ct_read_fd")
	Recurse         = symbol("ct_recurse")
	Spin            = symbol("ct_spin")
	BlockRead       = symbol("ct_block_read")
	Fib             = symbol("ct_fib")
	ParkForever     = symbol("ct_park_forever")
	Count           = symbol("ct_count")
	YieldPair       = symbol("ct_yield_pair")
	SpawnJoin       = symbol("ct_spawn_join")
	CallGoLoop      = symbol("ct_call_go_loop")
	CloseFD         = symbol("ct_close_fd")
	YieldUntil      = symbol("ct_yield_until")
	ReadUntil       = symbol("ct_read_until")
	SpawnAndSpin    = symbol("ct_spawn_and_spin")
	CountMoves      = symbol("ct_count_moves")
	RecurseAndSleep = symbol("ct_recurse_and_sleep")
	RecurseLarge    = symbol("ct_recurse_large")
	SleepFive       = symbol("ct_sleep_five")
	SleepLate       = symbol("ct_sleep_late")
	YieldLoop       = symbol("ct_yield_loop")
)

var apply = symbol("ct_apply")

// WithNumber returns a function and its argument, to spawn, which make a fiber call fn with n.
func WithNumber(fn unsafe.Pointer, n int) (function, arg unsafe.Pointer) {
	return apply, unsafe.Pointer(&struct {
		fn unsafe.Pointer
		n  int
	}{fn, n})
}

// Functions to spawn. See invariants.c for what each does with its argument.
var (
	ErrnoOverGo       = symbol("ct_errno_over_go")
	ReadByte          = symbol("ct_read_byte")
	SleepAndCount     = symbol("ct_sleep_and_count")
	ShieldedSleep     = symbol("ct_shielded_sleep")
	LeaveBehind       = symbol("ct_leave_behind")
	SpawnWhenCanceled = symbol("ct_spawn_when_canceled")
	RecurseAndPark    = symbol("ct_recurse_and_park")
)

// Functions that call the C function that they are given. See callbacks.c.
var (
	CallSix        = symbol("ct_call_six")
	CallNarrow     = symbol("ct_call_narrow")
	CallFromThread = symbol("ct_call_from_thread")
	CallOverWaits  = symbol("ct_call_over_waits")
	CallLoop       = symbol("ct_call_loop")
	FrameAddress   = symbol("ct_frame_address")
)

// A Case is a test in C: called with nil, it returns 0 or the line that failed.
type Case struct {
	Name     string
	Fn       unsafe.Pointer
	OnThread bool // needs no fiber
}

// Cases are the tests of cases.c.
var Cases = []Case{
	{"pipe", symbol("case_pipe"), false},
	{"stream", symbol("case_stream"), false},
	{"terminal", symbol("case_terminal"), false},
	{"regular file", symbol("case_regular_file"), true},
	{"file_in_part", symbol("case_file_in_part"), true},
	{"flags", symbol("case_flags"), false},
	{"messages", symbol("case_messages"), false},
	{"datagrams", symbol("case_datagrams"), false},
	{"connect", symbol("case_connect"), false},
	{"acceptors", symbol("case_acceptors"), false},
	{"backlog", symbol("case_backlog"), false},
	{"end of stream", symbol("case_end_of_stream"), false},
	{"sleep", symbol("case_sleep"), true},
	{"deadline", symbol("case_deadline"), false},
	{"many timers", symbol("case_many_timers"), false},
	{"poll", symbol("case_poll"), false},
	{"close wakes poll", symbol("case_close_wakes_poll"), false},
	{"poll beside read", symbol("case_poll_beside_read"), false},
	{"urgent", symbol("case_urgent"), false},
	{"duplicates", symbol("case_duplicates"), false},
	{"full duplex", symbol("case_full_duplex"), false},
	{"cancel", symbol("case_cancel"), false},
	{"shield", symbol("case_shield"), false},
	{"fibers", symbol("case_fibers"), false},
	{"host_fiber", symbol("case_host_fiber"), false},
	{"bad io", symbol("case_bad_io"), true},
}

// A GoFunc is called by CallGo, with its argument.
type GoFunc func(arg uintptr) uintptr

// Callback is what C calls; set it before.
var Callback GoFunc
