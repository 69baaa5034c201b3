// Package golang is the subject "go": goroutines, channels, timers and net, without any C.
package golang

import "github.com/cfiber/cfiber/cmd/cfiberbench/internal/subjects"

func init() {
	subjects.Register(&subjects.Subject{
		Name:  "go",
		About: "goroutines, channels, time.Sleep and net",
		Workloads: map[string]subjects.Func{
			"yield": yield, "spawn": spawn, "tree": tree, "memory": memory, "wake": wake,
			"chan": channel, "mutex": mutex, "coroutine": coroutine, "seq": seq,
			"timers": timers, "echo": echo,
		},
		Lacks: map[string]string{
			"switch": "goroutines are only switched by their scheduler",
		},
	})
}
