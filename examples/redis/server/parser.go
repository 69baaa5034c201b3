package server

/*
#include <stdlib.h>
#include "resp.h"
*/
import "C"

import (
	"errors"
	"unsafe"
)

// parseAll runs the C parser over the concatenation of pieces, as it would be
// run if they arrived one by one, and returns the requests that it found. rest
// is the number of bytes of the request that was not whole yet. It is there for
// tests, which cannot use cgo themselves.
//
// The parser sees the bytes at hand in memory of exactly their size, which
// moves each time, so that a sanitizer notices if it reads or keeps more.
func parseAll(pieces ...[]byte) (requests [][]string, rest int, err error) {
	// In C memory, since it holds a pointer to such.
	p := (*C.struct_resp_parser)(C.calloc(1, C.sizeof_struct_resp_parser))
	defer C.free(unsafe.Pointer(p))
	defer C.resp_reset(p)

	var pending []byte
	for _, piece := range pieces {
		pending = append(pending, piece...)
		for {
			frame := C.CBytes(pending)
			status := C.resp_parse(p, (*C.char)(frame), C.size_t(len(pending)))
			var request []string
			if status == C.RESP_COMMAND {
				request = arguments(p, frame)
				pending = pending[p.pos:]
				C.resp_next(p)
			}
			C.free(frame)

			switch status {
			case C.RESP_COMMAND:
				requests = append(requests, request)
				continue
			case C.RESP_INVALID:
				return requests, len(pending), errors.New(C.GoString(&p.error[0]))
			case C.RESP_NOMEM:
				return requests, len(pending), errors.New("out of memory")
			}
			break
		}
	}
	return requests, len(pending), nil
}

func arguments(p *C.struct_resp_parser, frame unsafe.Pointer) []string {
	request := []string{}
	for _, arg := range unsafe.Slice(p.argv, p.argc) {
		request = append(request, C.GoStringN((*C.char)(unsafe.Add(frame, arg.off)), C.int(arg.len)))
	}
	return request
}
