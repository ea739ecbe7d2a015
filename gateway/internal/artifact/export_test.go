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

// Usage tells how many bytes the registry keeps, uploads that are under way included, and how many it may keep (0: no limit).
func (r *Registry) Usage(context.Context) (bytes, quota int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.stored + r.uploading, r.config.Quota
}
