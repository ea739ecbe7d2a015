package pipe_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"muster/agent/pipe"
)

// TestWriteSparse: zeros take no room, and the file reads as it was written, however it was cut.
func TestWriteSparse(t *testing.T) {
	const size = 8 << 20
	want := make([]byte, size)
	copy(want[100_000:], "something")
	copy(want[5<<20:], bytes.Repeat([]byte("much"), 10_000))
	for _, cut := range []int{1000, 64 << 10, 100_001, size} {
		file, err := os.Create(filepath.Join(t.TempDir(), "f"))
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		for at := 0; at < size; at += cut {
			if err := pipe.WriteSparse(file, want[at:min(at+cut, size)]); err != nil {
				t.Fatal(err)
			}
		}
		info, err := os.Stat(file.Name())
		if err = errors.Join(err, file.Truncate(size)); err != nil || info.Size() >= size {
			t.Fatalf("%d bytes, %v", info.Size(), err)
		}
		got, err := os.ReadFile(file.Name())
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("cut at %d: %d bytes, %v", cut, len(got), err)
		}
		if info, err = os.Stat(file.Name()); err != nil || !pipe.Sparse(info) {
			t.Errorf("cut at %d: it is not sparse, %v", cut, err)
		}
	}
	dense := filepath.Join(t.TempDir(), "dense")
	if err := os.WriteFile(dense, want[5<<20:5<<20+40_000], 0o600); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(dense); err != nil || pipe.Sparse(info) {
		t.Errorf("a file without holes is sparse, %v", err)
	}
}

// refusing fails at one of its methods.
type refusing struct{ seek, write error }

func (r refusing) Seek(int64, int) (int64, error) { return 0, r.seek }

func (r refusing) Write(p []byte) (int, error) { return len(p), r.write }

func TestWriteSparseFails(t *testing.T) {
	full := errors.New("full")
	for _, to := range []io.WriteSeeker{refusing{seek: full}, refusing{write: full}} {
		if err := pipe.WriteSparse(to, append(make([]byte, 4<<10), 'x')); !errors.Is(err, full) {
			t.Errorf("%v", err)
		}
	}
}
