package bench

import "strings"

// A Kind says how a case is measured.
type Kind int

// Kinds of Case.
const (
	Program Kind = iota // the subject prints its own numbers
	Memory              // it parks, and its memory is looked at
	Idle                // it parks, and its CPU and wake-ups are looked at
	Echo                // it serves, and a generator measures
	Redis               // it serves, and redis-benchmark measures
)

// A Case is a workload with parameters, which each subject is measured at.
type Case struct {
	Workload string // as it is called in rows; may have a prefix: "busy/echo"
	Asks     string // what the subject is asked to do; "": Workload
	Kind     Kind
	Params   Params // of which the name is made
	Effort   Params // how much of it to do: not in the name, since -quick changes it
	// Calibrate chooses n so that a round takes as long as rounds should.
	Calibrate bool
	MaxRounds int      // 0: as many as are asked for
	Subjects  []string // the only ones asked; nil: all
}

// Name is how the case is called: what -run matches.
func (c Case) Name() string { return caseName(c.Workload, c.Params) }

func caseName(workload string, p Params) string {
	return strings.Join(append([]string{workload}, p.Args()...), "/")
}
