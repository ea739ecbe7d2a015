package remote_test

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"muster/agent/pipe"
	"muster/agent/wire"
	"muster/gateway/internal/cli/remote/standin"
)

// TestFolderElsewhere: a new folder holds nothing of an earlier copy that was cut, if that was of another folder of the same name.
func TestFolderElsewhere(t *testing.T) {
	node := &woods{dir: t.TempDir()}
	grove(t, filepath.Join(node.dir, "one/work"))
	mine := grove(t, filepath.Join(t.TempDir(), "work"))
	other := filepath.Join(t.TempDir(), "work")
	for _, folder := range []string{filepath.Join(node.dir, "other/work"), other} {
		if err := errors.Join(os.MkdirAll(folder, 0o755), os.WriteFile(filepath.Join(folder, "alone"), nil, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	h := newTunnels(t, node.play)
	to := filepath.Join(t.TempDir(), "new")
	for _, c := range []struct{ first, second, to, at string }{
		{"gpu-1:/one/work", "gpu-1:/other/work", to, to}, {mine, other, "gpu-1:/new", filepath.Join(node.dir, "new")},
	} {
		node.cut = middle
		h.fails(1, "the node went away", "node", "cp", "-r", c.first, c.to)
		h.gateway.Wait() // the next copy would find the folder in use
		node.cut = 0
		h.done("node", "cp", "-r", c.second, c.to)
		if got, err := os.ReadDir(c.at); err != nil || len(got) != 1 || got[0].Name() != "alone" {
			t.Errorf("%s: %v, %v", c.to, got, err)
		}
	}
	var p wire.CopyParams
	if h.params(&p); len(p.Origin) != 64 {
		t.Errorf("%+v", p)
	}
}

// TestFolderNoEnd: a node that says what cannot be, and then nothing more, does not hold the person.
func TestFolderNoEnd(t *testing.T) {
	for kind, waits := range map[pipe.FrameKind]bool{pipe.FrameTrouble: false, pipe.FrameWant: true} {
		ctx, interrupt := context.WithCancel(t.Context())
		h := newTunnels(t, func(s *standin.Session) {
			_ = pipe.WriteJSON(s.Main, pipe.FrameReady, pipe.Ready{Folder: true, Directory: "/srv/work"})
			_ = pipe.WriteFrame(s.Main, kind, []byte("{"))
			var err error
			for frames := pipe.NewFrames(s.Main); err == nil; {
				var got pipe.FrameKind
				if got, _, err = frames.Next(); got == pipe.FrameInputEnd && waits {
					interrupt()
				}
			}
		})
		code, stderr := h.run(ctx, io.Discard, "node", "cp", "-r", t.TempDir(), "gpu-1:/srv")
		if code == 0 {
			t.Errorf("%c: %s", kind, stderr)
		}
		interrupt()
	}
}
