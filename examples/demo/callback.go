package main

// #include <stdint.h>
import "C"

import (
	"fmt"
	"hash/crc32"
	"sync/atomic"
)

// What the C calls have told Go.
var (
	called   atomic.Int64
	calledBy atomic.Uint64 // the sum of the calls' numbers
)

// demoCallback is what each C call calls, from its fiber or from its thread.
// It is ordinary Go, which allocates and whose stack grows.
//
//export demoCallback
func demoCallback(id C.uintptr_t) C.uintptr_t {
	called.Add(1)
	calledBy.Add(uint64(id))
	return C.uintptr_t(answer(uint64(id)))
}

// answer is what call id has to return.
func answer(id uint64) int {
	text := fmt.Sprintf("call %d", id)
	return int(crc32.ChecksumIEEE([]byte(text)) & 0x7fffffff)
}
