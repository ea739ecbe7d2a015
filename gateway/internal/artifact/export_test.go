package artifact

import (
	"context"

	"muster/agent/disk"
)

// OpenSteps opens a registry that tells of every change on disk.
func OpenSteps(ctx context.Context, c Config, steps disk.Steps) (*Registry, error) {
	return open(ctx, c, steps)
}

// Sweep is one round of Run.
func (r *Registry) Sweep(ctx context.Context) error {
	_, err := r.sweep(ctx)
	return err
}

// Bounds that tests know.
const (
	Grace      = grace
	UploadLife = uploadLife
	MostOpen   = mostOpen
	MaxTags    = maxTags
)
