//go:build race

package cfiber

const raceEnabled = true
