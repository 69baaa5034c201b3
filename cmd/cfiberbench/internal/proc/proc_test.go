package proc

import (
	"os"
	"testing"
	"time"
)

func TestSelf(t *testing.T) {
	if ErrUnknown != nil {
		t.Skip(ErrUnknown)
	}
	before, err := ReadMemory(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	const size = 64 << 20
	block := make([]byte, size)
	for i := 0; i < size; i += 4096 {
		block[i] = 1
	}
	after, err := ReadMemory(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if grown := after.Resident - before.Resident; grown < size*9/10 || grown > 2*size {
		t.Errorf("by %d bytes it has grown by %d", len(block), grown)
	}
	if after.PageTables <= 0 || after.Mappings <= 0 {
		t.Errorf("%+v", after)
	}

	used, err := CPU(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	sleeps, err := Wakeups(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); ; {
		if now, err := CPU(os.Getpid()); err != nil || now >= used+50*time.Millisecond {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("computing does not count")
		}
	}
	for range 20 {
		time.Sleep(time.Millisecond)
	}
	if now, err := Wakeups(os.Getpid()); err != nil || now < sleeps+10 {
		t.Errorf("20 sleeps counted from %d to %d, %v", sleeps, now, err)
	}
	if _, err := CPU(1 << 30); err == nil {
		t.Error("a process that is not there has used CPU")
	}
}
