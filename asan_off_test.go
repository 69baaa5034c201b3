//go:build !asan

package cfiber

const asanEnabled = false
