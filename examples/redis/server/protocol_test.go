//go:build cgo

package server

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
)

const (
	mib    = 1 << 20
	ok     = "+OK\r\n"
	null   = "$-1\r\n"
	notInt = "-ERR value is not an integer or out of range\r\n"
)

// all holds every byte.
var all = func() string {
	var b [256]byte
	for i := range b {
		b[i] = byte(i)
	}
	return string(b[:])
}()

func wrongArgs(command string) string {
	return "-ERR wrong number of arguments for '" + command + "' command\r\n"
}

func unknown(text string) string { return "-ERR unknown command " + text + "\r\n" }

// commandTests are run in order, each on a connection of its own. Redis itself
// gives the same replies (TestSameAsRedis), except to those whose names begin
// with "our".
var commandTests = []struct{ name, in, out string }{
	{"ping", request("PING"), "+PONG\r\n"},
	{"ping message", request("PING", "hello there"), bulk("hello there")},
	{"ping empty", request("PING", ""), bulk("")},
	{"ping too many", request("PING", "a", "b"), wrongArgs("ping")},
	{"name in any case", request("pInG"), "+PONG\r\n"},

	{"echo", request("ECHO", "x"), bulk("x")},
	{"echo any byte", request("ECHO", all), bulk(all)},
	{"echo none", request("ECHO"), wrongArgs("echo")},
	{"echo two", request("ECHO", "x", "y"), wrongArgs("echo")},

	{"set get", request("SET", "k", "v") + request("GET", "k"), ok + bulk("v")},
	{"set over", request("SET", "k", "longer than before") + request("GET", "k"), ok + bulk("longer than before")},
	{"set empty", request("SET", "empty", "") + request("GET", "empty"), ok + bulk("")},
	{"empty key", request("SET", "", "v") + request("GET", ""), ok + bulk("v")},
	{"any byte", request("SET", all, all+all) + request("GET", all), ok + bulk(all+all)},
	{"keys are case-sensitive", request("SET", "Case", "1") + request("GET", "case"), ok + null},
	{"set few", request("SET", "k"), wrongArgs("set")},
	{"our set option", request("SET", "k", "v", "NX"), "-ERR syntax error\r\n"},
	{"get none", request("GET", "no such key"), null},
	{"get few", request("GET"), wrongArgs("get")},
	{"get many", request("GET", "a", "b"), wrongArgs("get")},

	{"del", request("SET", "d", "1") + request("DEL", "d") + request("DEL", "d") + request("GET", "d"),
		ok + ":1\r\n:0\r\n" + null},
	{"del several", request("SET", "d1", "1") + request("SET", "d2", "2") + request("DEL", "d1", "none", "d2", "d1"),
		ok + ok + ":2\r\n"},
	{"del few", request("DEL"), wrongArgs("del")},

	{"incr", request("INCR", "n") + request("INCR", "n") + request("GET", "n"), ":1\r\n:2\r\n" + bulk("2")},
	{"incr negative", request("SET", "neg", "-1") + request("INCR", "neg") + request("INCR", "neg"), ok + ":0\r\n:1\r\n"},
	{"incr to the limit", request("SET", "max", "9223372036854775806") + request("INCR", "max") + request("INCR", "max") + request("GET", "max"),
		ok + ":9223372036854775807\r\n-ERR increment or decrement would overflow\r\n" + bulk("9223372036854775807")},
	{"incr from the least", request("SET", "min", "-9223372036854775808") + request("INCR", "min"), ok + ":-9223372036854775807\r\n"},
	{"incr few", request("INCR"), wrongArgs("incr")},

	{"unknown", request("nope"), unknown("'nope', with args beginning with: ")},
	{"unknown with arguments", request("Nope", "a", "b c"), unknown("'Nope', with args beginning with: 'a' 'b c' ")},
	{"unknown with line breaks", request("no\r\npe", "a\r\nb"), unknown("'no  pe', with args beginning with: 'a  b' ")},
	{"unknown and long", request(strings.Repeat("n", 200), strings.Repeat("a", 200)),
		unknown("'" + strings.Repeat("n", 128) + "', with args beginning with: '" + strings.Repeat("a", 128) + "' ")},
	{"unknown with many", request(append([]string{"nope"}, strings.Split(strings.Repeat("a", 100), "")...)...),
		unknown("'nope', with args beginning with: " + strings.Repeat("'a' ", 32))},
	{"prefix of a name", request("PIN") + request("PINGS"),
		unknown("'PIN', with args beginning with: ") + unknown("'PINGS', with args beginning with: ")},
	{"empty name", request(""), unknown("'', with args beginning with: ")},

	{"config get", request("CONFIG", "GET", "save") + request("config", "get", "appendonly"),
		"*2\r\n" + bulk("save") + bulk("") + "*2\r\n" + bulk("appendonly") + bulk("no")},
	{"our config get other", request("CONFIG", "GET", "maxmemory"), "*0\r\n"},
	{"our config set", request("CONFIG", "SET", "save", "x"), "-ERR unknown subcommand 'SET'. Try CONFIG GET.\r\n"},
	{"config few", request("CONFIG") + request("CONFIG", "GET"), wrongArgs("config") + wrongArgs("config|get")},
	{"our command docs", request("COMMAND", "DOCS") + request("COMMAND"), "*0\r\n*0\r\n"},

	{"empty requests", "*0\r\n*-1\r\n\r\n\n  \r\n" + request("PING"), "+PONG\r\n"},

	{"inline", "PING\r\nPING\nECHO x\r\n", "+PONG\r\n+PONG\r\n" + bulk("x")},
	{"inline spaces", " \t SET  i\t1 \r\n GET i\r\n", ok + bulk("1")},
	{"inline quotes", `ECHO "a b"` + "\r\n" + `ECHO 'a b'` + "\r\n", bulk("a b") + bulk("a b")},
	{"inline empty quotes", `ECHO ""` + "\r\n" + `ECHO ''` + "\r\n", bulk("") + bulk("")},
	{"inline escapes", `ECHO "\n\r\t\b\a\\\"\x00\xfF\xg\q"` + "\r\n", bulk("\n\r\t\b\a\\\"\x00\xff" + "xgq")},
	{"inline single escapes", `ECHO 'a\'b\n'` + "\r\n", bulk(`a'b\n`)},
	{"inline quote in a word", `ECHO a"b c"` + "\r\n", bulk("ab c")},
	{"our inline any byte", "ECHO \x01\xff\x00\x7f\r\n", bulk("\x01\xff\x00\x7f")},
	{"inline then array", "PING\r\n" + request("ECHO", "x") + "PING\r\n", "+PONG\r\n" + bulk("x") + "+PONG\r\n"},
	{"inline long", "ECHO " + strings.Repeat("x", 60000) + "\r\n", bulk(strings.Repeat("x", 60000))},

	{"largest value", request("SET", "large", strings.Repeat("x", mib)) + request("GET", "large") + request("GET", "large"),
		ok + strings.Repeat(bulk(strings.Repeat("x", mib)), 2)},
	{"most arguments", request(append([]string{"DEL"}, make([]string, 1023)...)...) + request("PING"), ":1\r\n+PONG\r\n"},
}

func TestCommands(t *testing.T) {
	s := start(t, Options{})
	for _, test := range commandTests {
		t.Run(test.name, func(t *testing.T) {
			c := dial(t, s)
			go c.send(test.in)
			c.expect(test.out)
			c.CloseWrite()
			c.expectEnd()
		})
	}
	waitIdle(t, s)
}

// Only what Redis would print itself is an integer.
func TestIntegers(t *testing.T) {
	c := dial(t, start(t, Options{}))
	for _, value := range []string{
		"", " ", "-", "+1", "01", "-0", "00", " 1", "1 ", "1\x00", "1.0", "1e3", "0x10", "one", "--1",
		"9223372036854775808", "-9223372036854775809", "18446744073709551616", "99999999999999999999",
		"100000000000000000000",
	} {
		c.send(request("SET", "k", value) + request("INCR", "k") + request("GET", "k"))
		c.expect(ok + notInt + bulk(value))
	}
	for _, n := range []int64{0, 1, 8, 9, 10, 99, 1<<31 - 1, 1 << 32, -1, -2, -10, -100, -1 << 31, -1 << 63, 1<<63 - 2} {
		c.send(request("SET", "k", strconv.FormatInt(n, 10)) + request("INCR", "k"))
		c.expect(ok + fmt.Sprintf(":%d\r\n", n+1))
	}
}

// protocolErrors end the connection, after an answer that says why. The messages
// are Redis's own, except where names begin with "our": limits that are ours, and
// checks that Redis does without.
var protocolErrors = []struct{ name, in, message string }{
	{"count is no number", "*x\r\n", "invalid multibulk length"},
	{"count is empty", "*\r\n", "invalid multibulk length"},
	{"our count has no newline", "*1\rx", "invalid multibulk length"},
	{"our count is too large", "*1025\r\n", "invalid multibulk length"},
	{"our count is huge", "*1000000000\r\n", "invalid multibulk length"},
	{"count overflows", "*99999999999999999999\r\n", "invalid multibulk length"},
	{"our count does not end", "*" + strings.Repeat("1", 32), "too big mbulk count string"},
	{"length is no number", "*1\r\n$x\r\n", "invalid bulk length"},
	{"length is negative", "*1\r\n$-1\r\n", "invalid bulk length"},
	{"our length is too large", "*1\r\n$1048577\r\n", "invalid bulk length"},
	{"length is 1 GB", "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1000000000\r\n", "invalid bulk length"},
	{"length overflows", "*1\r\n$18446744073709551617\r\n", "invalid bulk length"},
	{"our length does not end", "*1\r\n$" + strings.Repeat("1", 32), "too big bulk count string"},
	{"no length", "*1\r\nPING\r\n", "expected '$', got 'P'"},
	{"our control character for a length", "*1\r\n\x00", "expected '$', got '?'"},
	{"our value is too long", "*1\r\n$4\r\nPINGS\r\n", "expected CRLF after bulk string"},
	{"our value without CR", "*1\r\n$4\r\nPING\n\n", "expected CRLF after bulk string"},
	{"our request is too large", "*3\r\n" + bulk(strings.Repeat("x", mib)) + "$1048576\r\n", "too big request"},
	{"our inline does not end", strings.Repeat("x", 64<<10), "too big inline request"},
	{"our inline has many words", strings.Repeat("x ", 1025) + "\r\n", "too many arguments"},
	{"double quotes", `ECHO "x` + "\r\n", "unbalanced quotes in request"},
	{"single quotes", `ECHO 'x` + "\r\n", "unbalanced quotes in request"},
	{"text after quotes", `ECHO "x"y` + "\r\n", "unbalanced quotes in request"},
	{"escape at the end", `ECHO "x\` + "\r\n", "unbalanced quotes in request"},
}

func TestProtocolErrors(t *testing.T) {
	s := start(t, Options{})
	for _, test := range protocolErrors {
		t.Run(test.name, func(t *testing.T) {
			c := dial(t, s)
			// What comes before is answered; what comes after is not.
			go c.send(request("ECHO", "before") + test.in + request("ECHO", "after"))
			c.expect(bulk("before") + "-ERR Protocol error: " + test.message + "\r\n")
			c.expectEnd()
			c.Close()
		})
	}
	waitIdle(t, s)
}

func TestQuit(t *testing.T) {
	s := start(t, Options{})
	for _, quit := range []string{request("QUIT"), "quit\r\n", request("QUIT", "now")} {
		c := dial(t, s)
		c.send(request("PING") + quit + request("PING"))
		c.expect("+PONG\r\n" + ok)
		c.expectEnd()
		c.Close()
	}
	waitIdle(t, s)
}

// Replies to all that was sent arrive, even if the client has nothing more to say.
func TestHalfClose(t *testing.T) {
	s := start(t, Options{})
	c := dial(t, s)
	go func() {
		c.send(strings.Repeat(request("PING"), 5000))
		c.CloseWrite()
	}()
	c.expect(strings.Repeat("+PONG\r\n", 5000))
	c.expectEnd()
	waitIdle(t, s)
}

func TestPipeline(t *testing.T) {
	s := start(t, Options{})
	c := dial(t, s)
	var in, out strings.Builder
	for i := range 10_000 {
		key, value := fmt.Sprint("key", i%100), fmt.Sprint("value", i)
		switch i % 4 {
		case 0:
			in.WriteString(request("SET", key, value))
			out.WriteString(ok)
		case 1:
			in.WriteString("INCR counter\r\n")
			fmt.Fprintf(&out, ":%d\r\n", i/4+1)
		case 2:
			in.WriteString(request("ECHO", value))
			out.WriteString(bulk(value))
		case 3:
			in.WriteString(request("GET", fmt.Sprint("key", (i-3)%100)))
			out.WriteString(bulk(fmt.Sprint("value", i-3)))
		}
	}
	go c.send(in.String()) // one write
	c.expect(out.String())
	if n := s.Stats().Commands; n < 10_000-1 {
		t.Errorf("Stats count %d commands", n)
	}
	c.Close()
	waitIdle(t, s)
}

// A request may arrive in two parts, cut anywhere. The PING before it tells
// when the server has seen the first one.
func TestSplits(t *testing.T) {
	s := start(t, Options{})
	c := dial(t, s)
	in := request("SET", "split", "a\r\nb") + `ECHO "\x41 b"` + "\r\n" + request("GET", "split")
	out := ok + bulk("A b") + bulk("a\r\nb")
	for i := range len(in) + 1 {
		c.send("PING\r\n" + in[:i])
		c.expect("+PONG\r\n")
		c.send(in[i:])
		c.expect(out)
	}
	c.Close()
	waitIdle(t, s)
}

func TestByteByByte(t *testing.T) {
	s := start(t, Options{})
	c := dial(t, s) // has TCP_NODELAY, as all of Go's
	in := strings.Repeat(request("SET", "byte", all)+"GET byte\r\n", 2)
	go func() {
		for i := range len(in) {
			c.send(in[i : i+1])
		}
	}()
	c.expect(strings.Repeat(ok+bulk(all), 2))
	c.Close()
	waitIdle(t, s)
}

// More keys than the table starts with, and values of all sizes.
func TestManyKeys(t *testing.T) {
	s := start(t, Options{})
	c := dial(t, s)
	keys := scaled(100_000)
	value := func(i int) string { return strings.Repeat(string(all[i%256]), i%50) }
	key := func(i int) string { return "key:" + strconv.Itoa(i) }

	exchange := func(ask func(i int) string, reply func(i int) string) {
		t.Helper()
		var in, out strings.Builder
		for i := range keys {
			in.WriteString(ask(i))
			out.WriteString(reply(i))
		}
		go c.send(in.String())
		c.expect(out.String())
	}
	exchange(func(i int) string { return request("SET", key(i), value(i)) }, func(int) string { return ok })
	if n := s.Stats().Keys; n != uint64(keys) {
		t.Errorf("there are %d keys, want %d", n, keys)
	}
	exchange(func(i int) string { return request("GET", key(i)) }, func(i int) string { return bulk(value(i)) })
	exchange(func(i int) string { return request("DEL", key(i)) }, func(int) string { return ":1\r\n" })
	if n := s.Stats().Keys; n != 0 {
		t.Errorf("%d keys are left", n)
	}
}
