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
	"errors"

	"muster/store"
	"muster/store/engine"
)

// Records is the database, for placement. Its methods may be called from any number of goroutines.
type Records struct{ db store.Records }

// New makes Records.
func New(db store.Records) Records { return Records{db} }

// notFound is what a guard's ErrConflict means for a write whose one condition is that the row is there.
func notFound(err error) error {
	if errors.Is(err, store.ErrConflict) {
		return store.ErrNotFound
	}
	return err
}

// texts is the parameter for a list of texts. A statement reads it with json_each.
func texts(list []string) string {
	if list == nil {
		list = []string{}
	}
	return engine.JSON(list)
}
