package golang

import (
	"fmt"
	"iter"
	"runtime"
	"sync"
	"time"

	"github.com/cfiber/cfiber/cmd/cfiberbench/internal/subjects"
)

// yield measures from when all have started.
func yield(t *subjects.T) error {
	fibers, n := t.Int("fibers", 2), t.N()
	runtime.GOMAXPROCS(t.Threads(1))
	each := max(n/fibers, 1)
	var begin time.Time
	team(fibers, &begin, func() {
		for range each {
			runtime.Gosched()
		}
	})
	t.PerOp(time.Since(begin), each*fibers)
	return nil
}

// team has n goroutines that call work when all have started, and waits for their end.
func team(n int, begin *time.Time, work func()) {
	var started, ended sync.WaitGroup
	start := make(chan struct{})
	started.Add(n)
	for range n {
		ended.Go(func() {
			started.Done()
			<-start
			work()
		})
	}
	started.Wait()
	*begin = time.Now()
	close(start)
	ended.Wait()
}

func spawn(t *subjects.T) error {
	n := t.N()
	runtime.GOMAXPROCS(t.Threads(1))
	begin := time.Now()
	if t.Text("mode") == "cold" {
		var started time.Time
		team(n, &started, func() {})
	} else {
		var wg sync.WaitGroup
		for range n {
			wg.Add(1)
			go wg.Done()
			wg.Wait()
		}
	}
	t.PerOp(time.Since(begin), n)
	return nil
}

// tree gives each node an array for what its children return, and a WaitGroup: faster than a
// channel for each node.
func tree(t *subjects.T) error {
	n, fanout := t.N(), t.Int("fanout", 10)
	runtime.GOMAXPROCS(t.Threads(runtime.NumCPU()))
	begin := time.Now()
	var sum int
	node(&sum, 0, n, fanout)
	t.PerOp(time.Since(begin), n)
	if want := n * (n - 1) / 2; sum != want {
		return fmt.Errorf("the sum is %d, not %d", sum, want)
	}
	return nil
}

// node stores the sum of the numbers of the leaves from first on, of which there are n.
func node(sum *int, first, n, fanout int) {
	if n == 1 {
		*sum = first
		return
	}
	var wg sync.WaitGroup
	sums := make([]int, fanout)
	for i := range fanout {
		from, to := first+n*i/fanout, first+n*(i+1)/fanout
		if to > from {
			wg.Go(func() { node(&sums[i], from, to-from, fanout) })
		}
	}
	wg.Wait()
	for _, s := range sums {
		*sum += s
	}
}

func memory(t *subjects.T) error {
	n := t.N()
	forever := make(chan struct{})
	var started sync.WaitGroup
	started.Add(n)
	for range n {
		go func() {
			started.Done()
			<-forever
		}()
	}
	started.Wait()
	runtime.GC() // what starting them left behind is not theirs
	t.Say("PARKED")
	t.UntilClosed()
	return nil
}

// wake hands a token to and fro over two channels.
func wake(t *subjects.T) error {
	n := t.N()
	var locked bool
	switch mode := t.Text("mode"); mode {
	case "same":
		runtime.GOMAXPROCS(1)
	case "sleeping":
		// A goroutine that is locked to its thread puts that thread to sleep with it.
		locked = true
	default:
		return subjects.UnsupportedError("Go's scheduler chooses the threads: no mode " + mode)
	}
	ping, pong := make(chan struct{}), make(chan struct{})
	go func() {
		if locked {
			runtime.LockOSThread()
		}
		for range ping {
			pong <- struct{}{}
		}
		close(pong)
	}()
	if locked {
		runtime.LockOSThread()
	}
	begin := time.Now()
	for range n / 2 {
		ping <- struct{}{}
		<-pong
	}
	t.PerOp(time.Since(begin), n/2*2)
	close(ping)
	<-pong
	return nil
}

func channel(t *subjects.T) error {
	n := t.N()
	runtime.GOMAXPROCS(1)
	c := make(chan int)
	begin := time.Now()
	go func() {
		for i := range n {
			c <- i
		}
		close(c)
	}()
	count := 0
	for range c {
		count++
	}
	t.PerOp(time.Since(begin), n)
	if count != n {
		return fmt.Errorf("%d values of %d arrived", count, n)
	}
	return nil
}

// mutex has each of two goroutines hold the mutex while the other comes to wait for it.
func mutex(t *subjects.T) error {
	n := t.N()
	runtime.GOMAXPROCS(1)
	var mu sync.Mutex
	var wg sync.WaitGroup
	begin := time.Now()
	for range 2 {
		wg.Go(func() {
			for range max(n/2, 1) {
				mu.Lock()
				runtime.Gosched()
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	t.PerOp(time.Since(begin), max(n/2, 1)*2)
	return nil
}

func numbers(yield func(int) bool) {
	for i := 0; yield(i); i++ {
		continue
	}
}

func coroutine(t *subjects.T) error {
	n := t.N()
	next, stop := iter.Pull(numbers)
	defer stop()
	begin := time.Now()
	last := 0
	for range n {
		last, _ = next()
	}
	t.PerOp(time.Since(begin), n)
	if last != n-1 {
		return fmt.Errorf("the last number is %d, not %d", last, n-1)
	}
	return nil
}

// seq ranges over a sequence that a goroutine produces: what a producer costs that does not
// run on the consumer's stack.
func seq(t *subjects.T) error {
	n := t.N()
	pulled := func(yield func(int) bool) {
		next, stop := iter.Pull(numbers)
		defer stop()
		for {
			v, ok := next()
			if !ok || !yield(v) {
				return
			}
		}
	}
	begin := time.Now()
	count := 0
	for range pulled {
		if count++; count == n {
			break
		}
	}
	t.PerOp(time.Since(begin), n)
	return nil
}
