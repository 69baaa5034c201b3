//go:build cgo

package ctest

/*
// gcc's, in a program that counts what is reached (./build.sh cover), else absent.
extern void __gcov_dump(void) __attribute__((weak));
static void dump(void) {
  if (__gcov_dump)
    __gcov_dump();
}
*/
import "C"

// DumpCoverage writes what has been counted of the C code. C does so when a program ends, but Go ends
// it in another way.
func DumpCoverage() { C.dump() }
