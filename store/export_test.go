package store

import "io/fs"

// Migrations are the real migrations.
func Migrations() (fs.FS, error) { return migrations() }

// ReadAll reads one column of each kind from the values of a row and returns the row's error.
func ReadAll(values ...any) error {
	r := row{Values: values}
	var document map[string]string
	_ = r.Text()
	_ = r.Number()
	_ = r.Flag()
	_ = r.Time()
	_ = r.Maybe()
	_ = r.Bytes()
	r.Document(&document)
	return r.Err
}
