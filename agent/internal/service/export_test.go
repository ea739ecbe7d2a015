package service

import (
	"context"
	"log/slog"
	"time"

	"muster/agent/disk/disktest"
)

// WithStep returns a layout that calls step before every change.
func (l Layout) WithStep(step func(string)) Layout {
	l.Steps = disktest.Named(func(name string) error { step(name); return nil })
	return l
}

// Names that the tests outside of the package use.
var (
	UnitText   = unitText
	OpenRCText = openRCText
)

// WithLine is withLine.
func (m Manager) WithLine(text, line string, script bool) string {
	return m.withLine(text, line, script)
}

// WithoutLine is withoutLine.
func (m Manager) WithoutLine(text string) string { return m.withoutLine(text) }

// BootLine is bootLine.
func (m Manager) BootLine() string { return m.bootLine() }

// EndRuns is what a guard does to a version that it went back from.
func (l Layout) EndRuns(ctx context.Context, build string) error {
	return end(ctx, guardGrace, func() []int { return l.runs(build) })
}

// Budget is what the parts of the way back may take.
type Budget struct{ Restart, Start, Stop, Watchdog, Guard, Grace, Pause time.Duration }

// TheBudget is the one that the unit and the guard have.
func TheBudget() Budget {
	return Budget{unitRestart, unitStart, unitStop, unitWatchdog, guardTime + guardLook, guardGrace, firstPause}
}

// Name is the name of the socket.
func (w *Watch) Name() string { return w.name }

// Hangs is hangs.
func (w *Watch) Hangs(ctx context.Context, patience time.Duration) bool {
	return w.hangs(ctx, patience)
}

// EndHung is endHung.
func (w *Watch) EndHung(ctx context.Context, log *slog.Logger) { w.endHung(ctx, log) }

// Hear is hear.
func (w *Watch) Hear() (time.Duration, error) { return w.hear() }

// Allows is allows, as the unit has it.
func Allows(text string) time.Duration { return (&Watch{Patience: Patience{}.orUnits()}).allows(text) }
