// Package rqlitetest stands in for a node of rqlite in tests, over a database in memory, and fails as a node and the way to it do. What its
// answers look like was read in rqlite's source (http/service.go, db/db.go, command/encoding/json.go). The store's tests run over it and
// over the program itself. No program imports it.
package rqlitetest

import (
	"bytes"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	_ "muster/store/sqlite" // its driver
)

// Node is the way to a node: the http.RoundTripper of its client.
type Node struct {
	DB *sql.DB // what it has

	t     testing.TB
	mu    sync.Mutex
	fault Fault
	paths []string
	last  []byte // the newest request that was done
}

// Again repeats the newest request, as a network does that held back a copy of it. It returns the answer that nobody hears.
func (n *Node) Again(last []byte) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.run("/db/execute", last)
}

// Last returns the body of the newest request that was done.
func (n *Node) Last() []byte {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.last)
}

// Fault is what goes wrong with the next requests.
type Fault int

const (
	None      Fault = iota
	Refused         // the connection
	CutBefore       // the request, before anything is done
	CutAfter        // the answer, after all is done
	Leaderless
	Page      // of a proxy
	Elsewhere // a redirect
	InBody    // status 200 and an error of Raft
	Short     // status 200 and too few results, or half of a backup
	CutBatch  // as CutAfter, of batches alone
	Twice     // a node that passes it to the leader sends it a second time, and its answer is that of the second
	Full      // the disk of the leader is
	TooLarge  // a proxy's word on each batch
	Unauthorized
	BackupText // status 200 and an error's text in place of a backup
)

// New returns a node without a table, for a test.
func New(t testing.TB) *Node {
	t.Helper()
	db, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		t.Fatal(err)
	}
	db.SetMaxOpenConns(1)
	t.Cleanup(func() { db.Close() })
	return &Node{t: t, DB: db}
}

// Set sets what goes wrong from now on.
func (n *Node) Set(f Fault) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.fault = f
}

// Paths returns the paths of all requests so far, with their queries.
func (n *Node) Paths() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.paths)
}

// RoundTrip answers a request without a network.
func (n *Node) RoundTrip(r *http.Request) (*http.Response, error) {
	var body []byte
	if r.Body != nil {
		var err error
		if body, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.paths = append(n.paths, r.URL.RequestURI())
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	switch n.fault {
	case Refused:
		return nil, &net.OpError{Op: "dial", Err: errors.New("connection refused")}
	case CutBefore:
		return nil, io.ErrUnexpectedEOF
	case Leaderless:
		return answer(http.StatusServiceUnavailable, "leader not found\n"), nil
	case Page:
		return answer(http.StatusBadGateway, "<html>bad gateway</html>"), nil
	case Elsewhere:
		moved := answer(http.StatusMovedPermanently, "")
		moved.Header.Set("Location", "http://127.0.0.1:9/db/execute")
		return moved, nil
	case TooLarge:
		if bytes.Contains(body, []byte("INSERT INTO batches")) {
			return answer(http.StatusRequestEntityTooLarge, "<html>too large</html>"), nil
		}
	case Unauthorized:
		return answer(http.StatusUnauthorized, ""), nil
	case InBody:
		return answer(http.StatusOK, `{"results":[],"error":"leadership lost while committing log"}`), nil
	}
	switch r.URL.Path {
	case "/readyz":
		return answer(http.StatusOK, "[+]node ok\n"), nil
	case "/db/backup":
		return n.backup(), nil
	case "/db/load":
		n.load(body)
		if n.fault == CutAfter {
			return nil, io.ErrUnexpectedEOF
		}
		return answer(http.StatusOK, `{"results":[]}`), nil
	}
	if n.fault == Full {
		return answer(http.StatusOK, `{"results":[{"error":"database or disk is full"}]}`), nil
	}
	text := n.run(r.URL.Path, body)
	if n.fault == Twice {
		text = n.run(r.URL.Path, body)
	}
	n.last = body
	switch n.fault {
	case CutAfter:
		return nil, io.ErrUnexpectedEOF
	case CutBatch:
		if bytes.Contains(body, []byte("INSERT INTO batches")) {
			return nil, io.ErrUnexpectedEOF
		}
	case Short:
		return answer(http.StatusOK, `{"results":[]}`), nil
	}
	return answer(http.StatusOK, text), nil
}

func answer(status int, text string) *http.Response {
	w := httptest.NewRecorder()
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text)
	return w.Result()
}

// backup gives the whole database. A follower that does not reach the leader answers with an error's text in its place.
func (n *Node) backup() *http.Response {
	file := filepath.Join(n.t.TempDir(), "copy.db")
	if _, err := n.DB.Exec("VACUUM INTO ?", file); err != nil {
		return answer(http.StatusInternalServerError, err.Error())
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		n.t.Error(err)
	}
	switch n.fault {
	case Short:
		raw = raw[:len(raw)/2]
	case BackupText:
		raw = []byte("dial tcp 127.0.0.1:4002: connect: connection refused\n")
	}
	return answer(http.StatusOK, string(raw))
}

type result map[string]any

// run does a request in one transaction. Like rqlite it ends the list of results at the first error, but for reads.
func (n *Node) run(path string, body []byte) string {
	var statements [][]any
	d := json.NewDecoder(strings.NewReader(string(body)))
	d.UseNumber()
	if err := d.Decode(&statements); err != nil {
		n.t.Errorf("a body that rqlite cannot read: %s", body)
	}
	tx, err := n.DB.Begin()
	if err != nil {
		n.t.Error(err)
		return ""
	}
	results := []result{}
	failed := false
	for _, st := range statements {
		one := n.one(tx, path, st)
		results = append(results, one)
		if one["error"] != nil && !strings.HasPrefix(path, "/db/query") {
			failed = true
			break
		}
	}
	if failed {
		err = tx.Rollback()
	} else {
		err = tx.Commit()
	}
	raw, wrong := json.Marshal(map[string]any{"results": results})
	if err = errors.Join(err, wrong); err != nil {
		n.t.Error(err)
	}
	return string(raw)
}

var blob = regexp.MustCompile(`^\s*[xX]'([0-9a-fA-F]*)'\s*$`)

func (n *Node) one(tx *sql.Tx, path string, st []any) result {
	args := make([]any, 0, len(st)-1)
	for _, arg := range st[1:] {
		switch v := arg.(type) {
		case json.Number:
			whole, err := v.Int64()
			if err != nil {
				n.t.Error(err)
			}
			args = append(args, whole)
		case string:
			if m := blob.FindStringSubmatch(v); m != nil {
				if raw, err := hex.DecodeString(m[1]); err == nil {
					args = append(args, raw)
					continue
				}
			}
			args = append(args, v)
		default:
			args = append(args, v)
		}
	}
	text := fmt.Sprint(st[0])
	if !strings.HasPrefix(path, "/db/query") && !strings.Contains(text, "RETURNING") {
		done, err := tx.Exec(text, args...)
		if err != nil {
			return result{"error": plainText(err)}
		}
		affected, _ := done.RowsAffected()
		if affected == 0 {
			return result{}
		}
		return result{"rows_affected": affected}
	}
	rows, err := tx.Query(text, args...)
	if err != nil {
		return result{"error": plainText(err)}
	}
	defer rows.Close()
	return n.read(rows)
}

// plainText is an error as rqlite has it: without the driver's number behind it.
func plainText(err error) string {
	text := strings.TrimPrefix(err.Error(), "constraint failed: ")
	if at := strings.LastIndex(text, " ("); at > 0 {
		text = text[:at]
	}
	return text
}

func (n *Node) read(rows *sql.Rows) result {
	names, err := rows.Columns()
	if err != nil {
		n.t.Error(err)
	}
	var values [][]any
	for rows.Next() {
		row := make([]any, len(names))
		into := make([]any, len(names))
		for i := range row {
			into[i] = &row[i]
		}
		if err := rows.Scan(into...); err != nil {
			n.t.Error(err)
		}
		values = append(values, row)
	}
	if err := rows.Err(); err != nil {
		return result{"error": plainText(err)}
	}
	return result{"columns": names, "values": values}
}
