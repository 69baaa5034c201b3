//go:build !race

package cfiber

func raceSpawn() {}
func raceEnd()   {}
