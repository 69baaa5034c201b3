//go:build !race

package cfiber

const raceEnabled = false
