package engine

import "context"

type freshKey struct{}

// Fresh marks the reads of a context as reads on which the decision of a write stands. In a cluster, a leader that was elected just now may
// answer other reads without rows that were stored just before. These reads wait for such rows. They cost more, so they are for single
// rows.
func Fresh(ctx context.Context) context.Context { return context.WithValue(ctx, freshKey{}, true) }

// IsFresh reports whether Fresh made the context.
func IsFresh(ctx context.Context) bool { return ctx.Value(freshKey{}) != nil }
