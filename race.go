//go:build race

package cfiber

// The race detector does not see what C does between two pieces of Go, but it
// takes each cgo call to order memory with each callback. These calls stand
// where a fiber carries an order that the detector would otherwise miss: from
// the goroutine that spawns to a Go function that the fiber calls, and from
// there to the goroutine that waits.

func raceSpawn() { bridgeNothing() }
func raceEnd()   { bridgeNothing() }
