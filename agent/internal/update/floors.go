package update

import (
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"path/filepath"

	"muster/agent/disk"
	"muster/agent/internal/service"
)

// The floors stand on the disk twice: in the record, and in a file of their own, which changes with them alone. So a record that is damaged
// does not make the node obey an older pointer. Of the two the higher number counts.

// floorsPath is the file of their own. It is a Record that has nothing else.
func (f files) floorsPath() string { return filepath.Join(f.Base, service.FloorsFile) }

// loadFloors reads the second copy. It is empty if there is none.
func (f files) loadFloors() (Record, error) {
	raw, err := disk.ReadFile(f.floorsPath(), maxRecord)
	if errors.Is(err, fs.ErrNotExist) {
		return Record{}, nil
	}
	if err != nil {
		return Record{}, err
	}
	r, err := decode(service.FloorsFile, raw)
	return Record{Node: r.Node, Floors: r.Floors}, err
}

// saveFloors writes the second copy where it says something else.
func (f files) saveFloors(r Record) error {
	kept, err := f.loadFloors()
	if err == nil && kept.Node == r.Node && maps.Equal(kept.Floors, r.Floors) {
		return nil
	}
	raw, err := json.Marshal(Record{Node: r.Node, Floors: r.Floors})
	if err != nil {
		return err
	}
	return f.Steps.Replace(f.floorsPath(), append(raw, '\n'), 0o600)
}

// highest takes over what the second copy has more of. unread: the record itself says nothing.
func (r *Record) highest(kept Record, unread bool) {
	if unread {
		r.Node = kept.Node
	}
	if r.Node != kept.Node { // of another enrolment
		return
	}
	for channel, number := range kept.Floors {
		r.raise(channel, number)
	}
}
