package main

import "io"

func makeReport(args []string) error                     { return wrong("not yet") }
func generateLoad(args []string, stdout io.Writer) error { return wrong("not yet") }
