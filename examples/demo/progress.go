//go:build cgo

package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// progress shows what is going on: on a terminal in one line that is written
// over, elsewhere in a line now and then.
type progress struct {
	terminal bool
	written  time.Time
}

func newProgress() *progress {
	info, err := os.Stdout.Stat()
	return &progress{terminal: err == nil && info.Mode()&os.ModeCharDevice != 0 && os.Getenv("TERM") != "dumb"}
}

func (p *progress) show(text string) {
	switch {
	case p.terminal:
		fmt.Printf("\r   %s\x1b[K", text)
	case time.Since(p.written) >= time.Second:
		p.written = time.Now()
		fmt.Printf("   %s\n", text)
	}
}

// phase says what begins.
func (p *progress) phase(text string) {
	p.written = time.Time{}
	p.show(text)
}

// clear makes room for what stays.
func (p *progress) clear() {
	if p.terminal {
		fmt.Print("\r\x1b[K")
	}
}

// count writes n with its thousands apart.
func count(n int64) string {
	digits := strconv.FormatInt(n, 10)
	var b strings.Builder
	for i, d := range digits {
		if i > 0 && d != '-' && (len(digits)-i)%3 == 0 && digits[i-1] != '-' {
			b.WriteByte(',')
		}
		b.WriteRune(d)
	}
	return b.String()
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.1f s", d.Seconds()) }

func milliseconds(d time.Duration) string {
	return fmt.Sprintf("%.1f ms", float64(d)/float64(time.Millisecond))
}

func kibibytes(n int64) string { return fmt.Sprintf("%.1f KiB", float64(n)/1024) }
