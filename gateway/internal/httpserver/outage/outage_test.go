package outage_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"muster/gateway/internal/httpserver/outage"
	"muster/store"
)

// TestQuiet: what the parts say of a database that takes no writes is left out, whoever says it; all else is not.
func TestQuiet(t *testing.T) {
	var text bytes.Buffer
	log := slog.New(outage.Quiet(slog.NewTextHandler(&text, nil)))
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
