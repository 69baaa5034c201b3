//go:build cgo

package server

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// referenceParse is what the C parser has to do, written for clarity: it has all
// input at hand, and looks at it anew for each request.
func referenceParse(input []byte) (requests [][]string, rest int, err error) {
	for len(input) > 0 {
		request, n, err := referenceRequest(input)
		if err == errMore {
			break
		}
		if err != nil {
			return requests, len(input), err
		}
		requests = append(requests, request)
		input = input[n:]
	}
	return requests, len(input), nil
}

var (
	errMore = errors.New("more")
	errBig  = errors.New("too big request")
)

func referenceRequest(input []byte) (request []string, n int, err error) {
	const maxRequest = 2 << 20
	if input[0] != '*' {
		return referenceInline(input)
	}
	count, n, err := referenceLength(input, 0, "multibulk", "mbulk")
	if err == nil && count > 1024 {
		err = errors.New("invalid multibulk length")
	}
	request = []string{}
	for err == nil && len(request) < count {
		var length int
		switch {
		case n == len(input):
			err = errMore
			continue
		case input[n] != '$':
			shown := rune(input[n])
			if shown < ' ' || shown > '~' {
				shown = '?'
			}
			err = fmt.Errorf("expected '$', got '%c'", shown)
			continue
		}
		if length, n, err = referenceLength(input, n, "bulk", "bulk"); err != nil {
			continue
		}
		switch {
		case length < 0 || length > 1<<20:
			err = errors.New("invalid bulk length")
		case n+length+2 > maxRequest:
			err = errBig
		case len(input) < n+length+2:
			err = errMore
		case string(input[n+length:n+length+2]) != "\r\n":
			err = errors.New("expected CRLF after bulk string")
		}
		if err == nil {
			request = append(request, string(input[n:n+length]))
			n += length + 2
		}
	}
	if err == errMore && len(input) >= maxRequest {
		err = errBig
	}
	return request, n, err
}

// referenceLength parses the line at n and returns its number and where it ends.
func referenceLength(input []byte, n int, what, line string) (length, end int, err error) {
	text := input[n+1:]
	cr := bytes.IndexByte(text[:min(len(text), 32)], '\r')
	switch {
	case cr < 0 && len(text) >= 32:
		return 0, n, fmt.Errorf("too big %s count string", line)
	case cr < 0 || cr+1 == len(text):
		return 0, n, errMore
	}
	digits := string(text[:cr])
	v, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || text[cr+1] != '\n' || strconv.FormatInt(v, 10) != digits {
		return 0, n, fmt.Errorf("invalid %s length", what)
	}
	return int(v), n + 1 + cr + 2, nil
}

func referenceInline(input []byte) (request []string, n int, err error) {
	newline := bytes.IndexByte(input[:min(len(input), 64<<10)], '\n')
	if newline < 0 {
		if len(input) >= 64<<10 {
			return nil, 0, errors.New("too big inline request")
		}
		return nil, 0, errMore
	}
	line := string(input[:newline])
	const spaces = " \t\n\v\f\r"
	isSpace := func(i int) bool { return strings.IndexByte(spaces, line[i]) >= 0 }
	request = []string{}
	for i := 0; ; {
		for i < len(line) && isSpace(i) {
			i++
		}
		if i == len(line) {
			return request, newline + 1, nil
		}
		if len(request) == 1024 {
			return nil, 0, errors.New("too many arguments")
		}
		var word []byte
		var quote byte
		closed := false
		for i < len(line) && !closed && (quote != 0 || !isSpace(i)) {
			c := line[i]
			i++
			switch {
			case quote == 0 && (c == '"' || c == '\''):
				quote = c
				continue
			case quote != 0 && c == quote:
				closed = true
				continue
			case quote == '\'' && c == '\\' && i < len(line) && line[i] == '\'':
				c = '\''
				i++
			case quote == '"' && c == '\\' && i < len(line):
				c = line[i]
				i++
				if at := strings.IndexByte("nrtba", c); at >= 0 {
					c = "\n\r\t\b\a"[at]
				} else if c == 'x' && i+2 <= len(line) {
					if v, err := strconv.ParseUint(line[i:i+2], 16, 8); err == nil {
						c = byte(v)
						i += 2
					}
				}
			}
			word = append(word, c)
		}
		if quote != 0 && (!closed || i < len(line) && !isSpace(i)) {
			return nil, 0, errors.New("unbalanced quotes in request")
		}
		request = append(request, string(word))
	}
}

// compare runs the C parser on input cut at random, and checks it.
func compare(t *testing.T, input []byte, rng *rand.Rand) {
	t.Helper()
	if len(input) == 0 {
		return
	}
	want, wantRest, wantErr := referenceParse(input)
	for _, most := range []int{len(input), len(input)/10 + 1, 7, 1} {
		if len(input)/most > 2000 {
			continue // each piece costs a copy of all before it
		}
		var pieces [][]byte
		for left := input; len(left) > 0; {
			n := min(1+rng.IntN(most), len(left))
			if most == len(input) {
				n = most
			}
			pieces = append(pieces, left[:n])
			left = left[n:]
		}
		got, rest, err := parseAll(pieces...)
		if fmt.Sprint(err) != fmt.Sprint(wantErr) {
			t.Fatalf("pieces of %d: error %v, want %v", most, err, wantErr)
		}
		if !slices.EqualFunc(got, want, slices.Equal) {
			t.Fatalf("pieces of %d: requests %.500q, want %.500q", most, got, want)
		}
		if err == nil && rest != wantRest {
			t.Fatalf("pieces of %d: %d bytes are left, want %d", most, rest, wantRest)
		}
	}
}

var parserSeeds = []string{
	"",
	"*1\r\n$4\r\nPING\r\n",
	"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$4\r\na\r\nb\r\n*2\r\n$3\r\nGET\r\n$1\r\nk\r\n",
	"PING\r\nECHO \"a\\x41\\n b\" 'c\\'d' e\"f\"\n",
	"*0\r\n*-1\r\n\r\nGET k\n",
	"*1\r\n$1000000000\r\n",
	"*1025\r\n",
	"*1\r\n$4\r\nPINGPING",
	"*2\r\n$0\r\n\r\n$0\r\n\r\n*",
	"*-9223372036854775808\r\n*9223372036854775808\r\n",
	"*01\r\n",
	"*12345678901234567890123456789012345",
	"\"*1\r\n",
	"\"*1\" x\r\nx\r\n",
	"*1\r\n+OK\r\n",
}

func FuzzParser(f *testing.F) {
	for _, seed := range parserSeeds {
		f.Add([]byte(seed), uint64(1))
	}
	f.Fuzz(func(t *testing.T, input []byte, seed uint64) {
		if len(input) > 1<<16 {
			t.Skip()
		}
		compare(t, input, rand.New(rand.NewPCG(seed, 0)))
	})
}

// Random requests, whole and damaged.
func TestParser(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range scaled(5000) {
		var input []byte
		for range 1 + rng.IntN(4) {
			input = append(input, parserSeeds[rng.IntN(len(parserSeeds))]...)
			args := make([]string, rng.IntN(40))
			for i := range args {
				at := rng.IntN(256)
				args[i] = all[at : at+rng.IntN(min(20, 257-at))]
			}
			input = append(input, request(args...)...)
		}
		for range rng.IntN(3) {
			input[rng.IntN(len(input))] = "*$\r\n\"'\\x0 1-"[rng.IntN(12)]
		}
		compare(t, input, rng)
	}
}

// What the parser must refuse for its size.
func TestParserLimits(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	big := strings.Repeat("x", 1<<20)
	for _, input := range []string{
		request("ECHO", big) + request("PING"),
		request(big, big),
		request(big, big[:len(big)-100]),
		"*2\r\n" + bulk(big) + bulk(big[:len(big)-34]) + "x",
		"*3\r\n" + bulk(big) + bulk(big[:len(big)-34]) + "$",
		"*3\r\n" + bulk(big) + bulk(big[:len(big)-34]) + "$1\r\n",
		request("ECHO", big+"x"),
		big[:64<<10-1] + "\n" + "PING\r\n",
		big[:64<<10] + "\n",
		strings.Repeat("x ", 1024) + "\nPING\n",
		strings.Repeat("x ", 1025) + "\n",
		request(make([]string, 1024)...) + request("PING"),
		request(make([]string, 1025)...),
	} {
		compare(t, []byte(input), rng)
	}
}
