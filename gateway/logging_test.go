package main

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"muster/store"
)

// TestUntold: what the parts say of a database that takes no writes is left out, whoever says it; all else is not.
func TestUntold(t *testing.T) {
	var text bytes.Buffer
	log := newLog(&text, slog.LevelInfo)
	outage := fmt.Errorf("note a beat: %w", &store.Outage{})
	log.Error("hidden", "kind", "x", "error", outage)
	log.With("part", "p").WithGroup("g").Error("hidden", "error", outage)
	log.Error("shown", "error", errors.New("another"))
	log.Info("shown", "n", 1)
	log.Debug("hidden")
	if got := text.String(); strings.Contains(got, "hidden") || strings.Count(got, "shown") != 2 {
		t.Errorf("the log is:\n%s", got)
	}
}
