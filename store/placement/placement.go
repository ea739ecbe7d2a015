// Package placement keeps the records of who has which GPUs until when: the profiles of nodes, the evidence of what nodes are, the slots
// that follow from it, and the allocations that hold them.
//
// A unit is one GPU, or one part of a divided GPU. What keeps it from being given twice is an index of the database, which allows one hold
// of a unit that is not freed. A claim is one batch that either holds every unit it wants, under all its conditions, or leaves nothing.
// Only a cleaning that ended well, or the end of the node, frees a unit; what is observed of a node never does.
//
// The conditions of every write stand in its SQL. A write whose condition is not true is store.ErrConflict and changes nothing.
package placement

import (
	"muster/store"
)

// Records is the database, for placement. Its methods may be called from any number of goroutines.
type Records struct{ db store.Records }

// New makes Records.
func New(db store.Records) Records { return Records{db} }
