package histogram

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// Quantiles are at most a bucket's width, 1/32, above the exact ones.
func TestHistogram(t *testing.T) {
	var h Histogram
	if h.Quantile(0.5) != 0 || h.Count() != 0 {
		t.Error("an empty histogram is not")
	}
	random := rand.New(rand.NewPCG(1, 2))
	var all []time.Duration
	for range 10_000 {
		d := time.Duration(1) << random.IntN(40)
		d += time.Duration(random.Int64N(int64(d)))
		h.Add(d, 1)
		all = append(all, d)
	}
	h.Add(-5, 1)
	all = append(all, 0)
	slices.Sort(all)
	for _, q := range []float64{0.001, 0.1, 0.5, 0.99, 0.999, 1} {
		exact := all[max(int(q*float64(len(all))+0.9999)-1, 0)]
		got := h.Quantile(q)
		if got < exact || float64(got) > float64(exact)*(1+1.0/32)+1 {
			t.Errorf("quantile %v is %v, exactly %v", q, got, exact)
		}
	}
	for n := uint64(0); n < 100_000; n++ {
		i := bucketOf(n)
		if n > ceiling(i) || i > 0 && n <= ceiling(i-1) {
			t.Fatalf("%d is in bucket %d, of %d to %d", n, i, ceiling(i-1)+1, ceiling(i))
		}
	}
}

func TestBuckets(t *testing.T) {
	check := func(n uint64) {
		i := bucketOf(n)
		if top := ceiling(i); top < n || bucketOf(top) != i || top-n > n/subBuckets {
			t.Errorf("%d is in bucket %d, whose greatest is %d", n, i, top)
		}
		if next := bucketOf(ceiling(i) + 1); next != i+1 {
			t.Errorf("after bucket %d comes %d", i, next)
		}
	}
	for n := range uint64(1 << 12) {
		check(n)
	}
	for range 10000 {
		check(rand.Uint64() >> (1 + rand.IntN(60)))
	}
}

func TestQuantile(t *testing.T) {
	var h Histogram
	if got := h.Quantile(0.5); got != 0 {
		t.Errorf("of nothing: %v", got)
	}
	for i := 1; i <= 1000; i++ {
		h.Add(time.Duration(i)*time.Microsecond, 2)
	}
	for q, want := range map[float64]time.Duration{
		0: time.Microsecond, 0.5: 500 * time.Microsecond, 0.99: 990 * time.Microsecond, 1: time.Millisecond,
	} {
		if got := h.Quantile(q); got < want || got > want+want/subBuckets {
			t.Errorf("quantile %v is %v, want %v", q, got, want)
		}
	}
}
