//go:build cgo

package ctest

// #include "cases.h"
import "C"

import "unsafe"

// A Case is a test in C: called with nil, it returns 0 or the line that failed.
type Case struct {
	Name     string
	Fn       unsafe.Pointer
	OnThread bool // needs no fiber
}

// Cases are the tests of cases.c.
var Cases = []Case{
	{"pipe", unsafe.Pointer(C.case_pipe), false},
	{"stream", unsafe.Pointer(C.case_stream), false},
	{"terminal", unsafe.Pointer(C.case_terminal), false},
	{"regular file", unsafe.Pointer(C.case_regular_file), true},
	{"file_in_part", unsafe.Pointer(C.case_file_in_part), true},
	{"flags", unsafe.Pointer(C.case_flags), false},
	{"messages", unsafe.Pointer(C.case_messages), false},
	{"datagrams", unsafe.Pointer(C.case_datagrams), false},
	{"connect", unsafe.Pointer(C.case_connect), false},
	{"acceptors", unsafe.Pointer(C.case_acceptors), false},
	{"backlog", unsafe.Pointer(C.case_backlog), false},
	{"end of stream", unsafe.Pointer(C.case_end_of_stream), false},
	{"sleep", unsafe.Pointer(C.case_sleep), true},
	{"deadline", unsafe.Pointer(C.case_deadline), false},
	{"many timers", unsafe.Pointer(C.case_many_timers), false},
	{"poll", unsafe.Pointer(C.case_poll), false},
	{"close wakes poll", unsafe.Pointer(C.case_close_wakes_poll), false},
	{"poll beside read", unsafe.Pointer(C.case_poll_beside_read), false},
	{"urgent", unsafe.Pointer(C.case_urgent), false},
	{"duplicates", unsafe.Pointer(C.case_duplicates), false},
	{"full duplex", unsafe.Pointer(C.case_full_duplex), false},
	{"cancel", unsafe.Pointer(C.case_cancel), false},
	{"shield", unsafe.Pointer(C.case_shield), false},
	{"fibers", unsafe.Pointer(C.case_fibers), false},
	{"host_fiber", unsafe.Pointer(C.case_host_fiber), false},
	{"bad io", unsafe.Pointer(C.case_bad_io), true},
}
