package peers

import (
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/cfiber/cfiber/cmd/cfiberbench/internal/runner"
)

func TestHeader(t *testing.T) {
	for _, test := range []struct {
		source string
		want   Peer
	}{
		{"// cfiberbench: pkg=libboost-fiber-dev flags=-lboost_fiber -lboost_context workloads=yield,spawn\n\nint x;",
			Peer{Packages: []string{"libboost-fiber-dev"}, Flags: []string{"-lboost_fiber", "-lboost_context"}, Workloads: []string{"yield", "spawn"}}},
		{"// cfiberbench: name=a.b pkg=one,two flags=-Wl,-Bstatic\n// -lst workloads=echo\n//\n// More words.\n",
			Peer{Name: "a.b", Packages: []string{"one", "two"}, Flags: []string{"-Wl,-Bstatic", "-lst"}, Workloads: []string{"echo"}}},
		{"// cfiberbench: pkg= flags= workloads=wake", Peer{Workloads: []string{"wake"}}},
	} {
		got, err := parse(header(test.source))
		if err != nil || !reflect.DeepEqual(got, test.want) {
			t.Errorf("%s\ngives %+v, %v", test.source, got, err)
		}
	}
	for source, part := range map[string]string{
		"int main(void);":               "does not begin with",
		"// A program.":                 "does not begin with",
		"// cfiberbench: pkg=x":         "no workloads",
		"// cfiberbench: x workloads=y": `"x" is none of`,
	} {
		if _, err := parse(header(source)); err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%s: error %v, want one with %q", source, err, part)
		}
	}
}

// The peers that are in the tree must say what they can do.
func TestFindAll(t *testing.T) {
	all, err := Find(os.DirFS("../../peers"))
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, p := range all {
		if names[p.Name] {
			t.Errorf("there are two peers %s", p.Name)
		}
		names[p.Name] = true
	}
	for _, v := range variants {
		if len(all) > 0 && !names[v.peer] {
			t.Errorf("a variant is of the peer %s, which there is not", v.peer)
		}
	}
}

var sources = fstest.MapFS{
	"README.md": {Data: []byte("not a source")},
	"good.c": {Data: []byte("// cfiberbench: workloads=yield\n#include \"number.h\"\n#include <stdio.h>\n" +
		"int main(void) { printf(\"time %d ns/op\\n\", NUMBER); return 0; }\n")},
	"number.h":   {Data: []byte("#define NUMBER 7\n")},
	"missing.c":  {Data: []byte("// cfiberbench: pkg=libsuch-dev workloads=yield\n#include <no/such/header.h>\n")},
	"unlinked.c": {Data: []byte("// cfiberbench: pkg=libsuch-dev flags=-lnosuchlibrary workloads=yield\nint main(void) { return 0; }\n")},
}

func subjectsIn(t *testing.T, b *Builder) map[string]*runner.Subject {
	all, err := Find(b.Sources)
	if err != nil {
		t.Fatal(err)
	}
	m := map[string]*runner.Subject{}
	for _, s := range Subjects(b, all) {
		m[s.Name] = s
	}
	return m
}

func TestBuild(t *testing.T) {
	if _, err := exec.LookPath("cc"); err != nil {
		t.Skip("no C compiler")
	}
	dir := t.TempDir()
	all := subjectsIn(t, &Builder{Sources: sources, Dir: dir})
	if len(all) != 3 {
		t.Fatalf("%d peers of 3", len(all))
	}
	for _, name := range []string{"missing", "unlinked"} {
		if a := all[name].Absent; !strings.Contains(a, "install libsuch-dev") || !strings.Contains(a, "such") {
			t.Errorf("%s: %q", name, a)
		}
	}
	out, err := exec.Command(all["good"].Command[0]).Output()
	if err != nil || string(out) != "time 7 ns/op\n" || all["good"].Absent != "" {
		t.Errorf("good: %q, %v, absent %q", out, err, all["good"].Absent)
	}

	// What has been compiled is used again, whatever has become of the compiler.
	t.Setenv("PATH", "")
	again := subjectsIn(t, &Builder{Sources: sources, Dir: dir})["good"]
	if again.Absent != "" || again.Command[0] != all["good"].Command[0] {
		t.Errorf("it has not been kept: %+v", again)
	}
	// But not once a header is another, nor for another compiler.
	changed := fstest.MapFS{}
	for name, f := range sources {
		changed[name] = f
	}
	changed["number.h"] = &fstest.MapFile{Data: []byte("#define NUMBER 8\n")}
	if s := subjectsIn(t, &Builder{Sources: changed, Dir: dir})["good"]; s.Absent == "" {
		t.Error("a program of other sources has been taken")
	}
	if s := subjectsIn(t, &Builder{Sources: sources, Dir: dir, CC: "othercc"})["good"]; s.Absent == "" {
		t.Error("a program of another compiler has been taken")
	}
	left, err := filepath.Glob(filepath.Join(dir, "*-*"))
	if err != nil || len(left) != 1 {
		t.Errorf("left in the cache: %v, %v", left, err)
	}
}
