//go:build !linux

package cfiber

// isRunnable: these systems do not tell cheaply; CPU time alone decides.
func isRunnable(uint32) bool { return false }
