// Package page cuts a page out of a list of nodes, and sends it.
package page

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"slices"
	"sort"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/httpserver"
)

// Place is where a page ends: name and id of its last node.
type Place [2]string

func placeOf(g *api.NodeRow) Place { return Place{g.Name, g.ID} }

func (p Place) compare(other Place) int { return slices.Compare(p[:], other[:]) }

// Read reads from a cursor where the page before ended. A list in another order than by name has one page: values change between
// two pages.
func Read(text, sort string) (after Place, err error) {
	if text == "" {
		return after, nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err == nil {
		err = json.Unmarshal(raw, &after)
	}
	if err != nil || sort != "" {
		return after, wire.Refuse(wire.CodeBadRequest, "this cursor does not come from a list of nodes by name", "begin again without a cursor")
	}
	return after, nil
}

// Cut cuts a page out of the rows. next is its cursor; empty: it is the last.
func Cut(rows []*api.NodeRow, after Place, limit int, order string) (page []*api.NodeRow, next string) {
	from := sort.Search(len(rows), func(i int) bool { return order != "" || placeOf(rows[i]).compare(after) > 0 })
	page = rows[from:]
	if len(page) <= limit || limit == 0 {
		return page[:min(len(page), limit)], ""
	}
	page = page[:limit]
	if order != "" {
		return page, ""
	}
	last := placeOf(page[limit-1])
	raw, _ := json.Marshal(last) // texts always can be
	return page, base64.RawURLEncoding.EncodeToString(raw)
}

// piece is how many bytes are collected before they are sent.
const piece = 32 << 10

// Send encodes and sends node by node: the first are on their way before the last are encoded. No error can be answered any more, so
// one cuts the answer. brief: each node is an api.Brief.
func Send(w http.ResponseWriter, view api.FleetView, rows []*api.NodeRow, brief bool) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	out := writer{to: httpserver.Patient(w)}
	out.begin(view)
	for i, row := range rows {
		if i > 0 {
			out.buffer.WriteByte(',')
		}
		if brief {
			out.add(api.BriefOf(row))
		} else {
			out.add(row)
		}
	}
	out.buffer.WriteString("]}\n")
	out.send()
	if out.err != nil {
		panic(http.ErrAbortHandler)
	}
}

// writer writes an api.FleetView whose nodes come last.
type writer struct {
	to     http.ResponseWriter
	buffer bytes.Buffer
	err    error
}

func (f *writer) begin(view api.FleetView) {
	view.Nodes = nil
	raw, err := json.Marshal(view)
	f.err = err
	f.buffer.Write(bytes.TrimSuffix(raw, []byte(`,"nodes":null}`)))
	f.buffer.WriteString(`,"nodes":[`)
}

func (f *writer) add(row any) {
	if f.err != nil {
		return
	}
	if f.err = json.NewEncoder(&f.buffer).Encode(row); f.buffer.Len() >= piece {
		f.send()
	}
}

func (f *writer) send() {
	if f.err == nil {
		_, f.err = f.buffer.WriteTo(f.to)
	}
}
