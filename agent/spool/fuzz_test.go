package spool

import (
	"bufio"
	"bytes"
	"io"
	"os"
	"path/filepath"
	"testing"
)

// FuzzRecord: whatever is in a segment, reading it ends, and a record that is read is written as the same bytes.
func FuzzRecord(f *testing.F) {
	f.Add(appendRecord(nil, 7, kindData, []byte("a line")))
	f.Add(appendRecord(nil, 9, kindGap, encodeGap(Gap{From: 8, To: 9, Lost: 2, Reason: ReasonFull})))
	f.Add(bytes.Repeat([]byte{0xff}, 40))
	f.Fuzz(func(t *testing.T, content []byte) {
		r := bufio.NewReader(bytes.NewReader(content))
		at := int64(0)
		for {
			record, size, err := readRecord(r)
			if err == io.EOF && at != int64(len(content)) {
				t.Fatalf("the end at %d of %d", at, len(content))
			}
			if err != nil {
				return
			}
			if record.Gap == nil && !bytes.Equal(appendRecord(nil, record.Number, kindData, record.Data), content[at:at+size]) {
				t.Fatalf("%+v", record)
			}
			at += size
		}
	})
}

// FuzzFolder: whatever is in the folder, a spool opens, takes a record, and reads to its end.
func FuzzFolder(f *testing.F) {
	good := append(encodeHead("0123456789abcdef", 3), appendRecord(nil, 3, kindData, []byte("x"))...)
	f.Add(good, good, []byte("0123456789abcdef 3 00000000\n"))
	f.Add(good[:20], good, []byte{})
	f.Fuzz(func(t *testing.T, one, other, cursor []byte) {
		dir := t.TempDir()
		for name, content := range map[string][]byte{segmentName(3): one, segmentName(4): other, cursorName: cursor} {
			if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		s := Open(Config{Dir: dir, Bound: 1 << 20})
		defer s.Close()
		number, err := s.Append([]byte("new"))
		if err != nil {
			t.Fatal(err)
		}
		r := s.Untaken()
		defer r.Close()
		last := Record{}
		for {
			got, err := r.Next(100)
			if err != nil {
				t.Fatal(err)
			}
			if len(got) == 0 {
				break
			}
			last = got[len(got)-1]
		}
		if last.Number != number || string(last.Data) != "new" {
			t.Errorf("the last is %+v, want number %d", last, number)
		}
	})
}
