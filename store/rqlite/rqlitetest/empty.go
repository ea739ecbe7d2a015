package rqlitetest

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"testing"
)

// Empty empties the database of a real node.
func Empty(t testing.TB, address string) {
	t.Helper()
	for range 2 { // a table takes its indexes and triggers with it, and the node's own list of them is from before
		var answer struct {
			Results []struct {
				Values [][]string `json:"values"`
			} `json:"results"`
		}
		const all = `SELECT 'DROP ' || type || ' IF EXISTS "' || name || '"' FROM sqlite_master
			WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite_%' ORDER BY type DESC`
		post(t, "http://"+address+"/db/query", []string{all}, &answer)
		drops := []string{"PRAGMA defer_foreign_keys = ON"}
		for _, row := range answer.Results[0].Values {
			drops = append(drops, row[0])
		}
		post(t, "http://"+address+"/db/execute?transaction", drops, &answer)
	}
}

func post(t testing.TB, address string, statements []string, into any) {
	t.Helper()
	body, err := json.Marshal(statements)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.Post(address, "application/json", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	raw, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK || bytes.Contains(raw, []byte(`"error"`)) {
		t.Fatalf("%s: %s %s %v", address, response.Status, raw, err)
	}
	if err := json.Unmarshal(raw, into); err != nil {
		t.Fatal(err)
	}
}
