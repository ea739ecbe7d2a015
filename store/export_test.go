package store

import "io/fs"

// Migrations are the real migrations.
func Migrations() (fs.FS, error) { return migrations() }

// ReadAll reads one column of each kind from the values of a row and returns the row's error.
func ReadAll(values ...any) error {
	r := row{values: values}
	var document map[string]string
	_ = r.text()
	_ = r.number()
	_ = r.flag()
	_ = r.time()
	_ = r.maybe()
	_ = r.bytes()
	r.document(&document)
	return r.err
}

// The queries of the sweeps, for their plans.
const (
	DueRenewals       = dueRenewals
	ExpiredNodesQuery = expiredNodes
	LongEnded         = longEnded
)
