package peers

import (
	"slices"
	"strings"

	"github.com/cfiber/cfiber/cmd/cfiberbench/internal/bench"
	"github.com/cfiber/cfiber/cmd/cfiberbench/internal/runner"
)

// A variant is a peer asked for something else by a parameter of its own: a subject beside it.
type variant struct {
	peer, suffix, workload string
	params                 bench.Params
}

var variants = []variant{
	{"bare", "-six", "switch", bench.P("variant", "six")},
	{"bare", "-six-ret", "switch", bench.P("variant", "six_ret")},
	{"bare", "-eventfd", "wake", bench.P("via", "eventfd")},
}

// Subjects builds the peers. Those that cannot be built are absent, with the reason.
func Subjects(b *Builder, all []Peer) []*runner.Subject {
	var subjects []*runner.Subject
	for _, p := range all {
		s := &runner.Subject{Name: p.Name, About: p.About(), Workloads: p.Workloads}
		program, err := b.Build(p)
		if err != nil {
			s.Absent = absent(p, err)
		}
		s.Command = []string{program}
		subjects = append(subjects, s)
		for _, v := range variants {
			if v.peer == p.Name && slices.Contains(p.Workloads, v.workload) {
				other := *s
				other.Name += v.suffix
				other.Workloads = []string{v.workload}
				other.Extra = v.params
				subjects = append(subjects, &other)
			}
		}
	}
	return subjects
}

// About says what the peer is made of.
func (p Peer) About() string {
	if len(p.Packages) == 0 {
		return "peer: the C library alone"
	}
	return "peer: " + strings.Join(p.Packages, ", ")
}

func absent(p Peer, err error) string {
	if len(p.Packages) == 0 {
		return err.Error()
	}
	return "install " + strings.Join(p.Packages, " ") + " (./build.sh bench --peers): " + err.Error()
}
