// Package histogram counts durations.
package histogram

import (
	"math"
	"math/bits"
	"sync/atomic"
	"time"
)

// A Histogram counts durations in buckets 1/32 of their size wide, from many goroutines at
// once. The zero value is empty. C code may count in its Buckets: see bucket_of in timers.c of
// cfiberbench.
type Histogram struct {
	Buckets [64 * subBuckets]atomic.Uint64
}

const (
	subBits    = 5
	subBuckets = 1 << subBits
)

// Add counts a duration so many times; one below zero as zero.
func (h *Histogram) Add(d time.Duration, count int) {
	h.Buckets[bucketOf(uint64(max(d, 0)))].Add(uint64(count))
}

// bucketOf is n itself while that is small; then the number of bits that n has beyond the few
// leading ones, which follow it.
func bucketOf(n uint64) int {
	shift := max(bits.Len64(n)-subBits-1, 0)
	return shift*subBuckets + int(n>>shift)
}

// ceiling is the greatest number in bucket i.
func ceiling(i int) uint64 {
	shift := max(i/subBuckets-1, 0)
	return uint64(i-shift*subBuckets+1)<<shift - 1
}

// Count is how many durations there are.
func (h *Histogram) Count() uint64 {
	total := uint64(0)
	for i := range h.Buckets {
		total += h.Buckets[i].Load()
	}
	return total
}

// Quantile returns a duration that the fraction q of all does not exceed, 0 if there are none.
func (h *Histogram) Quantile(q float64) time.Duration {
	rank := uint64(math.Ceil(q * float64(h.Count())))
	for i := range h.Buckets {
		n := h.Buckets[i].Load()
		if n >= rank && n > 0 {
			return time.Duration(ceiling(i))
		}
		rank -= n
	}
	return 0
}
