package main

import (
	"bytes"
	"strings"
	"testing"
)

func TestSummary(t *testing.T) {
	for _, c := range []struct {
		name                    string
		in                      []string
		want                    string
		passed, failed, skipped int
		broken                  bool
	}{
		{name: "nothing"},
		{
			name: "a pass is one line for its package",
			in: []string{
				`{"Action":"run","Package":"p","Test":"TestA"}`,
				`{"Action":"output","Package":"p","Test":"TestA","Output":"=== RUN   TestA\n"}`,
				`{"Action":"output","Package":"p","Test":"TestA","Output":"    a_test.go:1: chatter\n"}`,
				`{"Action":"output","Package":"p","Test":"TestA","Output":"--- PASS: TestA (0.00s)\n"}`,
				`{"Action":"pass","Package":"p","Test":"TestA"}`,
				`{"Action":"output","Package":"p","Output":"PASS\n"}`,
				`{"Action":"output","Package":"p","Output":"ok  \tp\t0.1s\n"}`,
				`{"Action":"pass","Package":"p"}`,
			},
			want:   "ok  \tp\t0.1s\n",
			passed: 1,
		},
		{
			name: "a skip says why",
			in: []string{
				`{"Action":"output","Package":"p","Test":"TestA","Output":"    a_test.go:1: no server\n"}`,
				`{"Action":"output","Package":"p","Test":"TestA","Output":"--- SKIP: TestA (0.00s)\n"}`,
				`{"Action":"skip","Package":"p","Test":"TestA"}`,
			},
			want:    "    a_test.go:1: no server\n--- SKIP: TestA (0.00s)\n",
			skipped: 1,
		},
		{
			name: "subtests count, and their parent only for a failure of its own",
			in: []string{
				`{"Action":"run","Package":"p","Test":"TestA"}`,
				`{"Action":"run","Package":"p","Test":"TestA/x"}`,
				`{"Action":"pass","Package":"p","Test":"TestA/x"}`,
				`{"Action":"run","Package":"p","Test":"TestA/y"}`,
				`{"Action":"output","Package":"p","Test":"TestA/y","Output":"wrong\n"}`,
				`{"Action":"fail","Package":"p","Test":"TestA/y"}`,
				`{"Action":"fail","Package":"p","Test":"TestA"}`,
				`{"Action":"run","Package":"p","Test":"TestB"}`,
				`{"Action":"run","Package":"p","Test":"TestB/x"}`,
				`{"Action":"pass","Package":"p","Test":"TestB/x"}`,
				`{"Action":"fail","Package":"p","Test":"TestB"}`,
			},
			want:   "wrong\n",
			passed: 2, failed: 2,
		},
		{
			name: "a process that dies fails the test it was in",
			in: []string{
				`{"Action":"run","Package":"p","Test":"TestA"}`,
				`{"Action":"output","Package":"p","Test":"TestA","Output":"SIGSEGV\n"}`,
				`{"Action":"fail","Package":"p"}`,
			},
			want:   "SIGSEGV\n",
			failed: 1, broken: true,
		},
		{
			name: "what does not build is shown, and so is what is not JSON",
			in: []string{
				`{"ImportPath":"p","Action":"build-output","Output":"# p\n"}`,
				`{"ImportPath":"p","Action":"build-fail"}`,
				`{"Action":"output","Package":"p","Output":"FAIL\tp [build failed]\n"}`,
				`{"Action":"fail","Package":"p","FailedBuild":"p"}`,
				`go: no such package`,
			},
			want:   "# p\nFAIL\tp [build failed]\ngo: no such package",
			broken: true,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out bytes.Buffer
			s := newSummary(&out)
			if err := s.read(strings.NewReader(strings.Join(c.in, "\n"))); err != nil {
				t.Fatal(err)
			}
			if out.String() != c.want {
				t.Errorf("shows %q, want %q", out.String(), c.want)
			}
			if s.passed != c.passed || s.failed != c.failed || s.skipped != c.skipped || s.broken != c.broken {
				t.Errorf("%d passed, %d failed, %d skipped, broken %v; want %d, %d, %d, %v",
					s.passed, s.failed, s.skipped, s.broken, c.passed, c.failed, c.skipped, c.broken)
			}
		})
	}
}
