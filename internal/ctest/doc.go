// Package ctest has the C functions that the tests run on fibers, since test
// files cannot use cgo.
package ctest
