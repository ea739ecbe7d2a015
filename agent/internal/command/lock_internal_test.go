package command

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"muster/agent/internal/service"
	"muster/agent/internal/update"
)

// whoever is written to while a version is settled.
type whoever func()

func (w whoever) Write(text []byte) (int, error) {
	w()
	return len(text), nil
}

// TestOneSettles: while one process decides what is started, no other one does.
func TestOneSettles(t *testing.T) {
	j := judge{base: t.TempDir()}
	if err := os.WriteFile(filepath.Join(j.base, "update.json"), []byte("damaged"), 0o600); err != nil {
		t.Fatal(err)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	tried := 0
	j.log = slog.New(slog.NewTextHandler(whoever(func() {
		tried++
		if _, err := service.SettleLock(over, j.base); !errors.Is(err, syscall.EWOULDBLOCK) {
			t.Errorf("another one may decide, too: %v", err)
		}
	}), nil))
	j.settle(t.Context(), update.Settling{})
	if tried == 0 {
		t.Error("nothing was said while it was decided")
	}
	free, err := service.SettleLock(over, j.base)
	if err != nil {
		t.Fatalf("afterwards: %v", err)
	}
	free()
}
