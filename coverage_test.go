//go:build cgo

package cfiber

import (
	"os"
	"testing"

	"github.com/cfiber/cfiber/internal/ctest"
)

func TestMain(m *testing.M) {
	code := m.Run()
	ctest.DumpCoverage() // for ./build.sh cover
	os.Exit(code)
}
