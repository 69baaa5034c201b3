package bench

import "cmp"

// A Workload is a kind of work that subjects may know.
type Workload struct{ Name, About string }

// Workloads are all that there are, in the order of a report.
var Workloads = []Workload{
	{"switch", "two bare contexts, one switch one way"},
	{"yield", "one yield through the scheduler"},
	{"spawn", "start one unit and join it"},
	{"tree", "a tree of units with a fan-out of 10, per leaf"},
	{"memory", "what a parked unit occupies"},
	{"wake", "wake another unit, one way"},
	{"call", "C functions that wait, called from goroutines"},
	{"callback", "C calls Go"},
	{"coroutine", "resume a generator"},
	{"seq", "one value of an iteration over a coroutine"},
	{"chan", "one value over an unbuffered channel"},
	{"mutex", "hand a mutex to another unit"},
	{"timers", "sleepers with random times: CPU per wake, lateness"},
	{"echo", "64-byte TCP echo"},
	{"redis", "SET and GET under redis-benchmark"},
	{"idle", "CPU and wake-ups of parked units"},
}

// ours are the subjects that can do the variants under load.
var ours = []string{CFiber, "go", "cgo"}

// Cases returns all cases for a machine with so many CPUs. With quick, they are fewer and shorter.
func Cases(cpus int, quick bool) []Case {
	t := table{cpus: cpus, quick: quick}
	t.crossings()
	t.waiting()
	t.servers()
	t.busy()
	t.scale()
	return t.cases
}

type table struct {
	cpus  int
	quick bool
	cases []Case
}

func (t *table) add(c Case) {
	c.Asks = cmp.Or(c.Asks, c.Workload)
	t.cases = append(t.cases, c)
}

// timed adds a case whose n is chosen; the first round starts with n.
func (t *table) timed(workload string, n int, params Params) {
	t.add(Case{Workload: workload, Params: params, Effort: P("n", n), Calibrate: true})
}

// pick returns few with quick, else many.
func (t *table) pick(many, few int) int { return int(t.choose(float64(many), float64(few))) }

func (t *table) choose(full, quick float64) float64 {
	if t.quick {
		return quick
	}
	return full
}

// sizes returns those of all that quick has time for.
func (t *table) sizes(quickMax int, all ...int) []int {
	var sizes []int
	for _, n := range all {
		if !t.quick || n <= quickMax {
			sizes = append(sizes, n)
		}
	}
	return sizes
}

func (t *table) crossings() {
	t.timed("switch", 100_000, nil)
	t.timed("yield", 100_000, P("fibers", 2))
	t.timed("yield", 100_000, P("fibers", 1000))
	t.timed("spawn", 10_000, P("mode", "warm"))
	t.add(Case{Workload: "spawn", Params: P("mode", "cold"), Effort: P("n", t.pick(20_000, 1000))})
	t.add(Case{Workload: "tree", Params: P("threads", t.cpus),
		Effort: P("n", t.pick(1_000_000, 10_000), "fanout", 10)})
	for _, mode := range []string{"same", "awake", "sleeping"} {
		t.timed("wake", 2000, P("mode", mode))
	}
	t.add(Case{Workload: "wake", Params: P("mode", "goroutine"), Effort: P("n", 2000), Calibrate: true,
		Subjects: []string{CFiber, "eventfd"}})
	t.timed("callback", 10_000, nil)
	t.timed("coroutine", 100_000, nil)
	t.timed("seq", 100_000, nil)
	t.timed("chan", 100_000, nil)
	t.timed("mutex", 100_000, nil)
}

func (t *table) waiting() {
	for _, n := range t.sizes(1000, 1000, 10_000, 100_000, 1_000_000) {
		t.add(Case{Workload: "memory", Kind: Memory, Params: P("n", n), MaxRounds: fewIfMany(n)})
	}
	for _, ms := range []int{0, 1, 100} {
		for _, c := range t.sizes(100, 1, 100, 10_000) {
			t.add(Case{Workload: "call", Params: P("ms", ms, "concurrency", c),
				Effort: P("seconds", t.choose(2, quickSeconds(ms)))})
		}
	}
	for _, n := range t.sizes(1000, 1000, 10_000, 100_000, 1_000_000) {
		t.add(Case{Workload: "timers", Params: P("n", n), Effort: P("seconds", t.choose(window(n), 0.2)), MaxRounds: fewIfMany(n)})
	}
	t.add(Case{Workload: "idle", Asks: "memory", Kind: Idle, Params: P("n", t.pick(100_000, 1000)),
		Effort: t.seconds(10)})
}

// fewIfMany bounds the rounds of cases whose units take most of a minute to start.
func fewIfMany(n int) int {
	if n >= 1_000_000 {
		return 1
	}
	return 0
}

// window is the length of one in timers. A million shall not wake so often that those which are
// still to be started do not get there.
func window(n int) float64 {
	if n >= 1_000_000 {
		return 10
	}
	return 4
}

// seconds is the effort of cases that last a time: full seconds, or a moment with quick.
func (t *table) seconds(full float64) Params {
	return P("seconds", t.choose(full, 0.1))
}

func (t *table) servers() {
	for _, conns := range t.sizes(10, 1, 10, 100, 1000, 10_000) {
		t.add(Case{Workload: "echo", Kind: Echo, Params: P("conns", conns), Effort: t.echo()})
	}
	t.add(Case{Workload: "redis", Kind: Redis, Params: P("conns", 50), Effort: P("requests", t.pick(200_000, 2000))})
}

func (t *table) echo() Params { return t.seconds(2).With(P("threads", t.cpus)) }

// busy has the workloads again while goroutines keep every P busy, and while one connection in
// 100 makes its fiber compute for 5 ms.
func (t *table) busy() {
	add := func(c Case) {
		c.Asks, c.Workload, c.Subjects = c.Workload, "busy/"+c.Workload, ours
		t.add(c)
	}
	load := P("busy", 1)
	add(Case{Workload: "yield", Params: P("fibers", 2).With(load), Effort: P("n", 20), Calibrate: true})
	for _, mode := range []string{"same", "sleeping"} {
		add(Case{Workload: "wake", Params: P("mode", mode).With(load), Effort: P("n", t.pick(1000, 20))})
	}
	add(Case{Workload: "call", Params: P("ms", 1, "concurrency", 100).With(load), Effort: t.seconds(2)})
	add(Case{Workload: "echo", Kind: Echo, Params: P("conns", 100).With(load), Effort: t.echo()})
	for _, crunch := range []int{0, 1} {
		add(Case{Workload: "echo", Kind: Echo, Params: P("conns", 100, "crunch", crunch), Effort: t.echo()})
	}
}

func (t *table) scale() {
	add := func(c Case) {
		c.Asks, c.Workload = c.Workload, "scale/"+c.Workload
		t.add(c)
	}
	for threads := 1; threads <= t.cpus; threads = nextThreads(threads, t.cpus) {
		p := P("threads", threads)
		add(Case{Workload: "yield", Params: P("fibers", 1000).With(p), Effort: P("n", 100_000), Calibrate: true})
		add(Case{Workload: "spawn", Params: P("mode", "warm").With(p), Effort: P("n", 10_000), Calibrate: true})
		add(Case{Workload: "tree", Params: p, Effort: P("n", t.pick(1_000_000, 10_000), "fanout", 10)})
		add(Case{Workload: "echo", Kind: Echo, Params: P("conns", 100).With(p), Effort: t.seconds(2)})
	}
}

// nextThreads doubles, and ends with all.
func nextThreads(threads, cpus int) int {
	if threads < cpus {
		return min(2*threads, cpus)
	}
	return threads + 1
}

// quickSeconds is long enough for a few calls that each take so many ms.
func quickSeconds(ms int) float64 { return max(0.1, 0.003*float64(ms)) }
