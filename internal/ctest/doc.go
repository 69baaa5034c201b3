// Package ctest has the C functions that the tests run on fibers, since test
// files cannot use cgo. Without cgo they come from a library, which build.sh
// makes of the same files.
package ctest
