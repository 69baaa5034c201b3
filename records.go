package cfiber

import (
	"sync"
	"sync/atomic"
	"unsafe"
)

// Free records of fibers kept in Go, so that starting a fiber is no cgo call.

// recordBatch records are taken from the core, or given back, at once.
const recordBatch = 64

type records struct {
	mu    sync.Mutex
	batch int
	free  []unsafe.Pointer

	handles sync.RWMutex
	slabs   []*[handlesPerSlab]atomic.Pointer[Fiber]
}

const handlesPerSlab = 1024

// staleLink is an address that nothing is mapped at.
const staleLink = 64

// takeRecord returns a free record.
func (rt *Runtime) takeRecord() (*cFiber, error) {
	r := &rt.records
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.free) == 0 {
		fresh := make([]unsafe.Pointer, r.batch)
		n, err := bridgeFiberAlloc(rt.c, fresh)
		if err != nil {
			return nil, err
		}
		r.free = append(r.free, fresh[:n]...)
	}
	c := r.free[len(r.free)-1]
	r.free = r.free[:len(r.free)-1]
	return (*cFiber)(c), nil
}

// giveRecord takes a record back; of many it returns some to the core.
func (rt *Runtime) giveRecord(c *cFiber) {
	r := &rt.records
	r.mu.Lock()
	defer r.mu.Unlock()
	// Whoever queues the record must set its link. One who forgets is to fault,
	// and not to follow a link of the record's last life.
	c.next = staleLink
	r.free = append(r.free, unsafe.Pointer(c))
	if keep := 4 * r.batch; len(r.free) > keep || r.batch == 1 {
		from := len(r.free) - r.batch
		bridgeFiberFree(rt.c, r.free[from:])
		r.free = r.free[:from]
	}
}

// handle is where the handle of the record with that index stands.
func (rt *Runtime) handle(index uint32) *atomic.Pointer[Fiber] {
	r := &rt.records
	slab, i := int(index/handlesPerSlab), index%handlesPerSlab
	r.handles.RLock()
	if slab < len(r.slabs) {
		h := &r.slabs[slab][i]
		r.handles.RUnlock()
		return h
	}
	r.handles.RUnlock()
	r.handles.Lock()
	defer r.handles.Unlock()
	for slab >= len(r.slabs) {
		r.slabs = append(r.slabs, new([handlesPerSlab]atomic.Pointer[Fiber]))
	}
	return &r.slabs[slab][i]
}

// ids hands out the ids of fibers, from blocks.
type ids struct {
	mu         sync.Mutex
	from, till uint64
}

func (s *ids) next() uint64 {
	const block = 4096
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.from == s.till {
		s.from = bridgeIDBlock(block)
		s.till = s.from + block
	}
	s.from++
	return s.from - 1
}
