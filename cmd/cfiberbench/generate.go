package main

import (
	"io"

	"github.com/cfiber/cfiber/cmd/cfiberbench/internal/bench"
	"github.com/cfiber/cfiber/cmd/cfiberbench/internal/generate"
)

func generateLoad(args []string, stdout io.Writer) error {
	if len(args) < 1 || args[0] != "echo" {
		return wrong("generate wants the word echo")
	}
	params, err := bench.ParseParams(args[1:])
	if err != nil {
		return argumentError{err}
	}
	return generate.Echo(params, stdout)
}
