package session

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"muster/agent/pipe"
	"muster/agent/wire"
)

// TestCopyTakenOver: a copy whose operator was killed gives way to the next one of the same file, which goes on where it ended.
func TestCopyTakenOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		data := text(300_000)
		path := filepath.Join(t.TempDir(), "f")
		all := new(copies)
		first := startBeside(t, writing(path, data), me(), all)
		first.send(data[:100_000])
		second := startBeside(t, writing(path, data), me(), all)
		if second.ready.Offset != 100_000 {
			t.Fatalf("%+v, %+v", second.ready, second.end())
		}
		if r := <-first.done; !errors.Is(r.err, errTaken) {
			t.Errorf("the first one ended with %+v", r)
		}
		second.send(data[100_000:])
		if exit := second.sendEnd(); exit.Error != "" {
			t.Errorf("%+v", exit)
		}
		is(t, path, data, 0o644)
		alone(t, path)
		if len(all.all) > 0 {
			t.Errorf("%d copies are known still", len(all.all))
		}
	})
}

// TestCopyBusy: a copy that gets on keeps its place.
func TestCopyBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		data := text(1000)
		path := filepath.Join(t.TempDir(), "f")
		all := new(copies)
		first := startBeside(t, writing(path, data), me(), all)
		sent := make(chan pipe.Exit)
		go func() {
			for _, b := range data[:10] {
				first.send([]byte{b})
				time.Sleep(quietTime - lockPace)
			}
			first.send(data[10:])
			sent <- first.sendEnd()
		}()
		if exit := startBeside(t, writing(path, data), me(), all).end(); !strings.Contains(exit.Error, "being copied there already") {
			t.Errorf("%+v", exit)
		}
		if exit := <-sent; exit.Error != "" {
			t.Errorf("%+v", exit)
		}
		is(t, path, data, 0o644)
	})
}

// hollow is the content of a file whose most bytes are zeros, and the last ones too.
func hollow() []byte {
	data := make([]byte, 3<<20)
	copy(data[1<<20:], "something")
	return data
}

func sparse(t *testing.T, path string) bool {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return pipe.Sparse(info)
}

// TestCopySparse: a file with holes has holes on the other side too, and one without them has none.
func TestCopySparse(t *testing.T) {
	data := hollow()
	for _, holes := range []bool{true, false} {
		path := filepath.Join(t.TempDir(), "f")
		p := writing(path, data)
		p.Sparse = holes
		o := startCopy(t, p, me())
		o.send(data[:2<<20])
		_ = o.sendEnd() // it was cut
		o = startCopy(t, p, me())
		o.send(data[o.ready.Offset:])
		if exit := o.sendEnd(); exit.Error != "" || exit.SHA256 != sumOf(data) {
			t.Errorf("%+v", exit)
		}
		if is(t, path, data, fs.FileMode(0o644)); sparse(t, path) != holes {
			t.Errorf("the file that was written is sparse: %v", !holes)
		}
		o = startCopy(t, wire.CopyParams{Path: path}, me())
		if o.read(); o.ready.Sparse != holes {
			t.Errorf("the file that is read is sparse: %v", !holes)
		}
	}
}
