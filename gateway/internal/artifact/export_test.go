package artifact

import (
	"context"

	"muster/agent/disk/disktest"
)

// OpenSteps opens a registry that calls a function before every change on disk.
func OpenSteps(ctx context.Context, c Config, step func(string) error) (*Registry, error) {
	return open(ctx, c, disktest.Named(step))
}

// Sweep is one round of Run.
func (r *Registry) Sweep(ctx context.Context) error { return r.sweep(ctx) }

// Bounds that tests know.
const (
	Grace      = grace
	UploadLife = uploadLife
	MostOpen   = mostOpen
	MaxTags    = maxTags
)
