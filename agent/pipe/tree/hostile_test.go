package tree_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"muster/agent/pipe"
	"muster/agent/pipe/tree"
)

// script is a line whose other end says this and nothing else.
type script struct {
	says  []said
	heard []string
}

type said struct {
	kind pipe.FrameKind
	data string
}

func (s *script) Send(kind pipe.FrameKind, data []byte) error {
	s.heard = append(s.heard, fmt.Sprintf("%c %s", kind, data))
	return nil
}

func (s *script) Next() (pipe.FrameKind, []byte, error) {
	if len(s.says) == 0 {
		return 0, nil, io.EOF
	}
	next := s.says[0]
	s.says = s.says[1:]
	return next.kind, []byte(next.data), nil
}

func entry(e tree.Entry) said {
	data, err := json.Marshal(e)
	if err != nil {
		panic(err)
	}
	return said{pipe.FrameEntry, string(data)}
}

func folder(path string) said {
	return entry(tree.Entry{Path: []byte(path), Kind: tree.Folder, Mode: 0o755})
}

func link(path, to string) said {
	return entry(tree.Entry{Path: []byte(path), Kind: tree.Link, Target: []byte(to)})
}

// file is a whole file as a sender says it.
func file(path, content string) []said {
	e := tree.Entry{Path: []byte(path), Kind: tree.File, Mode: 0o644, Size: int64(len(content))}
	return []said{entry(e), {pipe.FrameOutput, content}, {pipe.FrameSum, `{"sha256":"` + sumOf(content) + `"}`}}
}

func sumOf(content string) string {
	sum := sha256.Sum256([]byte(content))
	return hex.EncodeToString(sum[:])
}

var top, over = folder("."), said{pipe.FrameInputEnd, ""}

// received gives what is told, and the error, when a hostile end says this. Outside the folder nothing may change.
func received(t *testing.T, to string, says ...said) (told []string, err error) {
	t.Helper()
	into, err := tree.Open(to, "", "", me())
	if err != nil {
		t.Fatal(err)
	}
	defer into.Close()
	_, err = tree.Receive(t.Context(), tree.Target{Line: &script{says: says}, Top: into, Mask: 0o755, Trouble: func(x tree.Trouble) error {
		told = append(told, fmt.Sprintf("%s: %s", x.Path, x.Why))
		return nil
	}})
	return told, err
}

// precious is a folder beside which something precious is.
func precious(t testing.TB) (to string, untouched func()) {
	t.Helper()
	dir := t.TempDir()
	to = filepath.Join(dir, "to")
	victim := filepath.Join(dir, "victim")
	err := errors.Join(os.Mkdir(to, 0o755), os.Mkdir(filepath.Join(dir, "beside"), 0o755), os.WriteFile(victim, []byte("precious"), 0o600))
	if err != nil {
		t.Fatal(err)
	}
	return to, func() {
		t.Helper()
		got, err := os.ReadFile(victim)
		info, stat := os.Lstat(victim)
		if err != nil || stat != nil || string(got) != "precious" || info.Mode() != 0o600 {
			t.Errorf("beside the folder: %q, %v, %v", got, info, err)
		}
		for name, want := range map[string]int{dir: 3, filepath.Join(dir, "beside"): 0} {
			if all, err := os.ReadDir(name); err != nil || len(all) != want {
				t.Errorf("%s: %v, %v", name, all, err)
			}
		}
	}
}

// TestHostile: what a hostile end can say ends the copy or is told, and nothing outside the folder changes.
func TestHostile(t *testing.T) {
	bad := func(e tree.Entry) []said { return []said{top, entry(e), over} }
	plus := func(says []said, more ...said) []said { return append(append([]said{top}, says...), more...) }
	many := []said{top}
	for i := range tree.Window + 1 {
		many = append(many, file(fmt.Sprint(i), "x")[0])
	}
	name := func(path string) []said { return bad(tree.Entry{Path: []byte(path), Kind: tree.Folder}) }
	for what, c := range map[string]struct {
		says       []said
		fails, say string // the error; what is told. Empty: none is
	}{
		"climbs":                    {says: name("../victim"), fails: "leads out"},
		"climbs in the middle":      {says: name("a/../../victim"), fails: "leads out"},
		"absolute":                  {says: name("/etc/victim"), fails: "leads out"},
		"empty":                     {says: name(""), fails: "leads out"},
		"double slash":              {says: name("a//b"), fails: "leads out"},
		"slash at the end":          {says: name("a/"), fails: "leads out"},
		"a dot":                     {says: name("./a"), fails: "leads out"},
		"NUL":                       {says: name("a\x00b"), fails: "leads out"},
		"very long":                 {says: name(strings.Repeat("a/", 3000) + "a"), fails: "leads out"},
		"longer than a name may be": {says: name(strings.Repeat("a", 300)), say: "file name too long"},
		"a file in the top's place": {says: bad(tree.Entry{Path: []byte("."), Kind: tree.File}), fails: "is not a folder"},
		"a link in the top's place": {says: []said{link(".", "beside")}, fails: "is not a folder"},
		"the top twice":             {says: []said{top, top, over}, say: "it came twice"},
		"no top":                    {says: file("a", "x"), fails: "has to come first"},
		"nothing at all":            {says: []said{over}, fails: "not all of it is here"},
		"setuid":                    {says: bad(tree.Entry{Path: []byte("a"), Kind: tree.File, Mode: 0o4755}), fails: "permissions"},
		"negative permissions":      {says: bad(tree.Entry{Path: []byte("a"), Kind: tree.File, Mode: -1}), fails: "permissions"},
		"negative size":             {says: bad(tree.Entry{Path: []byte("a"), Kind: tree.File, Size: -1}), fails: "size"},
		"a time that cannot be":     {says: bad(tree.Entry{Path: []byte("a"), Kind: tree.File, Time: 1 << 60}), fails: "time"},
		"a link to nothing":         {says: []said{top, link("a", "")}, fails: "no name"},
		"a link to NUL":             {says: []said{top, link("a", "b\x00")}, fails: "no name"},
		"no JSON":                   {says: []said{top, {pipe.FrameEntry, "{"}}, fails: "JSON"},
		"no sum":                    {says: plus(file("a", "x")[:2], said{pipe.FrameSum, "["}), fails: "JSON"},
		"an unknown kind":           {says: bad(tree.Entry{Path: []byte("a"), Kind: "device"}), fails: "kind"},
		"content of nothing":        {says: []said{top, {pipe.FrameOutput, "x"}}, fails: "nobody has asked"},
		"a sum of nothing":          {says: []said{top, {pipe.FrameSum, "{}"}}, fails: "nobody has asked"},
		"an error of nothing":       {says: []said{top, {pipe.FrameSum, `{"error":"x"}`}}, fails: "nobody has asked"},
		"more than it said":         {says: plus(file("a", "x")[:2], said{pipe.FrameOutput, "y"}), fails: "more than 1 bytes"},
		"other bytes": {says: plus(file("a", "x")[:1], said{pipe.FrameOutput, "y"}, file("a", "x")[2], over),
			say: "its SHA-256 is another one"},
		"fewer bytes": {says: plus(file("a", "xy")[:1], said{pipe.FrameOutput, "x"}, file("a", "x")[2], over),
			say: "its SHA-256 is another one"},
		"too many at once":      {says: many, fails: "announced at once"},
		"the end within a file": {says: plus(file("a", "x")[:1], over), fails: "not all of it is here"},
		"through a link to beside": {says: plus([]said{link("l", "../beside")}, append(file("l/a", "x"), over)...),
			say: "escapes", fails: "nobody has asked"},
		"through an absolute link": {says: plus([]said{link("l", "/")}, append(file("l/victim", "x"), over)...),
			say: "escapes", fails: "nobody has asked"},
		"through a link to victim":   {says: plus([]said{link("l", "../victim")}, append(file("l", "x"), over)...)},
		"a folder behind a link":     {says: []said{top, link("l", "../beside"), folder("l/new"), over}, say: "escapes"},
		"a folder in a link's place": {says: []said{top, link("l", "../beside"), folder("l"), over}, say: "in its place: a link"},
		"a link behind a link":       {says: []said{top, link("l", "../beside"), link("l/m", "x"), over}, say: "escapes"},
	} {
		t.Run(what, func(t *testing.T) {
			to, untouched := precious(t)
			told, err := received(t, to, c.says...)
			untouched()
			if c.fails == "" && err != nil || c.fails != "" && (err == nil || !strings.Contains(err.Error(), c.fails)) {
				t.Errorf("ended with %v", err)
			}
			if all := strings.Join(told, "\n"); c.say == "" && all != "" || !strings.Contains(all, c.say) {
				t.Errorf("told: %q", told)
			}
		})
	}
}

// TestPlanted: what others have put in the place of a partial file is not followed, and not written.
func TestPlanted(t *testing.T) {
	for what, plant := range map[string]func(victim, part string) error{
		"a link":      os.Symlink,
		"a hard link": os.Link,
		"a pipe":      func(_, part string) error { return syscall.Mkfifo(part, 0o600) },
	} {
		to, untouched := precious(t)
		says := append(append([]said{top}, file("a", "xyz")[:2]...), said{pipe.FrameSum, `{"error":"it broke"}`}, over)
		if _, err := received(t, to, says...); err != nil {
			t.Fatal(err)
		}
		parts, err := filepath.Glob(filepath.Join(to, ".muster-*"))
		if err != nil || len(parts) != 1 {
			t.Fatalf("%q, %v", parts, err)
		}
		must(t, os.Remove(parts[0]), plant(filepath.Join(filepath.Dir(to), "victim"), parts[0]))
		told, err := received(t, to, append(append([]said{top}, file("a", "xyz")...), over)...)
		if err != nil || len(told) != 1 || !strings.Contains(told[0], "is in the way") {
			t.Errorf("%s: %q, %v", what, told, err)
		}
		untouched()
	}
}

// TestBusyPart: a file that another copy writes is left to that one.
func TestBusyPart(t *testing.T) {
	to, untouched := precious(t)
	says := append(append([]said{top}, file("a", "xyz")[:2]...), said{pipe.FrameSum, `{"error":"it broke"}`}, over)
	if _, err := received(t, to, says...); err != nil {
		t.Fatal(err)
	}
	parts, _ := filepath.Glob(filepath.Join(to, ".muster-*"))
	held, err := os.Open(parts[0])
	must(t, err)
	defer held.Close()
	_, err = lock(held)
	must(t, err)
	told, err := received(t, to, append(append([]said{top}, file("a", "xyz")...), over)...)
	if err != nil || len(told) != 1 || !strings.Contains(told[0], "it is being copied") {
		t.Errorf("%q, %v", told, err)
	}
	untouched()
}

// TestHostileReceiver: a sender does not send what it has not announced, and takes no number for more than it is.
func TestHostileReceiver(t *testing.T) {
	from := t.TempDir()
	put(t, filepath.Join(from, "a"), []byte("xyz"), 0o644)
	want := func(text string) said { return said{pipe.FrameWant, text} }
	for _, c := range []struct {
		says  []said
		fails string
	}{
		{[]said{want(`{"offset":4}`)}, "more of"}, {[]said{want(`{"offset":-1}`)}, "more of"}, {[]said{want(`{`)}, "JSON"}, {nil, "EOF"},
		{[]said{want(`{}`), want(`{}`), want(`{}`)}, ""}, // more than there are files mean nothing, or end it
	} {
		root, err := os.OpenRoot(from)
		must(t, err)
		_, err = tree.Send(t.Context(), tree.Source{Line: &script{says: c.says}, Content: pipe.FrameInput, Root: root,
			Trouble: func(tree.Trouble) error { return nil }})
		root.Close()
		if c.fails != "" && (err == nil || !strings.Contains(err.Error(), c.fails)) {
			t.Errorf("%v: %v", c.says, err)
		}
	}
	flood := make([]said, tree.Window+2)
	for i := range flood {
		flood[i] = want(`{}`)
	}
	root, err := os.OpenRoot(from)
	must(t, err)
	defer root.Close()
	_, err = tree.Send(t.Context(), tree.Source{Line: &script{says: flood}, Content: pipe.FrameInput, Root: root,
		Trouble: func(tree.Trouble) error { return nil }})
	if err == nil || !strings.Contains(err.Error(), "more files than it was told of") && !errors.Is(err, io.EOF) {
		t.Errorf("a flood of answers: %v", err)
	}
}

// FuzzReceive: whatever comes, nothing outside the folder changes.
func FuzzReceive(f *testing.F) {
	f.Add("l", "../beside", "l/a", []byte("xyz"), []byte(`{"path":"Li4=","kind":"folder"}`))
	f.Add("a/b", "/", "a", []byte(""), []byte(`{"path":"YQ==","kind":"file","size":1}`))
	f.Add("..", "b", "../../victim", []byte("x"), []byte(`[]`))
	f.Fuzz(func(t *testing.T, one, target, two string, content, raw []byte) {
		to, untouched := precious(t)
		for _, says := range [][]said{
			{top, {pipe.FrameEntry, string(raw)}, {pipe.FrameOutput, string(content)}, {pipe.FrameSum, string(raw)}, over},
			append(append([]said{top, link(one, target)}, file(two, string(content))...), over),
			append(append([]said{top, folder(one), link(two, target)}, file(one+"/"+two, string(content))...), over),
			append(append(append([]said{top}, file(one, string(content))...), link(two, target), folder(one+"/"+two)), over),
			{top, link(one, target), folder(one), folder(one + "/" + two), over},
		} {
			into, err := tree.Open(to, "", "", me())
			if err != nil {
				t.Fatal(err)
			}
			_, _ = tree.Receive(t.Context(), tree.Target{Line: &script{says: says}, Top: into, Mask: 0o755,
				Trouble: func(tree.Trouble) error { return nil }})
			into.Close()
		}
		untouched()
	})
}

// FuzzSend: whatever the other end answers, it gets what it was told of, and no more than a file has.
func FuzzSend(f *testing.F) {
	f.Add([]byte(`{}`), []byte(`{"offset":2}`))
	f.Add([]byte(`{"same":true}`), []byte(`{"offset":-9223372036854775808}`))
	from := f.TempDir()
	for _, name := range []string{"a", "b"} {
		if err := os.WriteFile(filepath.Join(from, name), []byte("xyz"), 0o600); err != nil {
			f.Fatal(err)
		}
	}
	f.Fuzz(func(t *testing.T, one, two []byte) {
		root, err := os.OpenRoot(from)
		must(t, err)
		defer root.Close()
		line := &script{says: []said{{pipe.FrameWant, string(one)}, {pipe.FrameWant, string(two)}}}
		count, err := tree.Send(t.Context(), tree.Source{Line: line, Content: pipe.FrameInput, Root: root,
			Trouble: func(tree.Trouble) error { return nil }})
		if count.Bytes > 6 || count.Files > 2 || err == nil && strings.Count(strings.Join(line.heard, "\n"), "\nt ") != 2 {
			t.Errorf("%+v, %v, %q", count, err, line.heard)
		}
	})
}
