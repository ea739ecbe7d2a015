package engine

import (
	"fmt"
	"io/fs"
	"strconv"
)

// Migration is one numbered step of the schema. A step that was released is never changed: the next one corrects it.
type Migration struct {
	Number int
	Name   string
	Script string
}

// Migrations returns the steps in a directory of files named 0001_what.sql. The numbers begin at 1 and have no gap.
func Migrations(dir fs.FS) ([]Migration, error) {
	entries, err := fs.ReadDir(dir, ".") // sorted by name
	if err != nil {
		return nil, err
	}
	var steps []Migration
	for _, entry := range entries {
		number, err := strconv.Atoi(entry.Name()[:min(4, len(entry.Name()))])
		if err != nil || number != len(steps)+1 {
			return nil, fmt.Errorf("migration %s: its number should be %04d", entry.Name(), len(steps)+1)
		}
		script, err := fs.ReadFile(dir, entry.Name())
		if err != nil {
			return nil, err
		}
		steps = append(steps, Migration{number, entry.Name(), string(script)})
	}
	return steps, nil
}
