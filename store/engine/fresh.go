package engine

import "context"

type freshKey struct{}

// Fresh marks the reads with a context as those that a write's decision stands on. Of a cluster, a leader that was elected just now may
// answer other reads without what was stored just before. These reads wait for it. They are dearer, so they are for single rows.
func Fresh(ctx context.Context) context.Context { return context.WithValue(ctx, freshKey{}, true) }

// IsFresh tells whether Fresh made the context.
func IsFresh(ctx context.Context) bool { return ctx.Value(freshKey{}) != nil }
