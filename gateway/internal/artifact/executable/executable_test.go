package executable_test

import (
	"bytes"
	"encoding/binary"
	"os"
	"runtime"
	"strings"
	"testing"

	"muster/gateway/internal/artifact/executable"
)

// TestCheck has a program, and what is wrong with others.
func TestCheck(t *testing.T) {
	good := executable.Least("amd64", "text")
	with := func(at int, value byte) []byte {
		b := bytes.Clone(good)
		b[at] = value
		return b
	}
	long := func(at int, value uint64) []byte {
		b := bytes.Clone(good)
		binary.LittleEndian.PutUint64(b[at:], value)
		return b
	}
	far := append(long(32, executable.Head), make([]byte, executable.Head)...) // its headers lie behind what is read
	for name, c := range map[string]struct {
		content []byte
		arch    string
		want    string
	}{
		"good":               {good, "amd64", ""},
		"of arm64":           {executable.Least("arm64", ""), "arm64", ""},
		"independent":        {with(16, 3), "amd64", ""},
		"of another machine": {executable.Least("arm64", ""), "amd64", "built for another machine: linux/arm64"},
		"of s390x":           {executable.Least("s390x", ""), "amd64", "built for another machine"},
		"nothing":            {nil, "amd64", "no 64-bit ELF"},
		"script":             {[]byte("#!/bin/sh\nexec something-else " + strings.Repeat("x", 64)), "amd64", "no 64-bit ELF"},
		"32 bits":            {with(4, 1), "amd64", "no 64-bit ELF"},
		"big-endian":         {with(5, 2), "amd64", "no 64-bit ELF"},
		"header cut off":     {good[:63], "amd64", "no 64-bit ELF"},
		"an object":          {with(16, 1), "amd64", "a part of one"},
		"no segments":        {with(56, 0), "amd64", "nothing to load"},
		"odd segments":       {with(54, 32), "amd64", "nothing to load"},
		"segments in header": {with(32, 8), "amd64", "nothing to load"},
		"segments cut off":   {good[:100], "amd64", "cut off"},
		"segments far away":  {far, "amd64", "first 4096 bytes"},
		"segments overflow":  {long(32, ^uint64(0)-7), "amd64", "cut off"},
		"body cut off":       {good[:len(good)-1], "amd64", "cut off"},
		"size overflows":     {long(96, ^uint64(0)), "amd64", "cut off"},
		"sections cut off":   {long(40, 1<<20), "amd64", "cut off"},
		"no entry":           {long(24, 0), "amd64", "where it begins"},
		"entry behind":       {long(24, 0x400000+1<<20), "amd64", "where it begins"},
		"nothing runs":       {with(68, 4), "amd64", "where it begins"},
		"nothing is loaded":  {with(64, 4), "amd64", "where it begins"},
	} {
		err := executable.Check(c.content[:min(len(c.content), executable.Head)], int64(len(c.content)), c.arch)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
}

// TestReal: this test's own program is one, and the half of it is none.
func TestReal(t *testing.T) {
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	head := content[:executable.Head]
	if got := executable.Arch(head); got != runtime.GOARCH {
		t.Skipf("agents are not built for this machine: %q", got)
	}
	if err := executable.Check(head, int64(len(content)), runtime.GOARCH); err != nil {
		t.Error(err)
	}
	if err := executable.Check(head, int64(len(content)/2), runtime.GOARCH); err == nil {
		t.Error("half a program is taken")
	}
}

// FuzzCheck: whatever the head says, nothing outside of it is read, and what is taken is of the machine that was asked for.
func FuzzCheck(f *testing.F) {
	f.Add(executable.Least("amd64", ""), int64(121))
	f.Add(executable.Least("arm64", "x")[:70], int64(1<<40))
	f.Fuzz(func(t *testing.T, head []byte, size int64) {
		if executable.Check(head, max(size, int64(len(head))), "arm64") == nil && executable.Arch(head) != "arm64" {
			t.Errorf("%q is taken", head)
		}
	})
}
