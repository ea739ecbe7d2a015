package rqlitetest

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// load takes the tables of a file in the place of its own. A test that holds DB goes on with it.
func (n *Node) load(raw []byte) {
	file := filepath.Join(n.t.TempDir(), "load.db")
	err := os.WriteFile(file, raw, 0o600)
	if err == nil {
		err = n.replace(file)
	}
	if err != nil {
		n.t.Error(err)
	}
}

func (n *Node) replace(file string) error {
	list := func(schema string) (all [][3]string, err error) {
		rows, err := n.DB.Query("SELECT type, name, sql FROM " + schema + `.sqlite_master WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite\_%' ESCAPE '\'
			ORDER BY type = 'trigger', type = 'view', type = 'index', name`)
		if err != nil {
			return nil, err
		}
		defer rows.Close()
		for rows.Next() {
			var one [3]string
			if err := rows.Scan(&one[0], &one[1], &one[2]); err != nil {
				return nil, err
			}
			all = append(all, one)
		}
		return all, rows.Err()
	}
	old, err := list("main")
	if err != nil {
		return err
	}
	statements := []string{"ATTACH '" + file + "' AS loaded"}
	for _, one := range slices.Backward(old) {
		statements = append(statements, "DROP "+one[0]+` IF EXISTS main."`+one[1]+`"`)
	}
	for _, statement := range statements {
		if _, err := n.DB.Exec(statement); err != nil {
			return fmt.Errorf("%s: %w", statement, err)
		}
	}
	fresh, err := list("loaded")
	if err != nil {
		return err
	}
	statements = nil
	for _, one := range fresh {
		if one[0] == "table" {
			statements = append(statements, one[2], `INSERT INTO main."`+one[1]+`" SELECT * FROM loaded."`+one[1]+`"`)
		}
	}
	for _, one := range fresh {
		if one[0] != "table" {
			statements = append(statements, one[2])
		}
	}
	var counted int // numbers of rows that are given once
	if err := n.DB.QueryRow("SELECT count(*) FROM loaded.sqlite_master WHERE name = 'sqlite_sequence'").Scan(&counted); err != nil {
		return err
	}
	if counted > 0 {
		statements = append(statements, "DELETE FROM main.sqlite_sequence",
			"INSERT INTO main.sqlite_sequence SELECT * FROM loaded.sqlite_sequence")
	}
	for _, statement := range append(statements, "DETACH loaded") {
		if _, err := n.DB.Exec(statement); err != nil {
			return fmt.Errorf("%s: %w", statement, err)
		}
	}
	return nil
}
