// Package page cuts a page out of a list of nodes, and sends it.
package page

import (
	"bufio"
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

// Read reads from a cursor where the previous page ended. A list that is not sorted by name has one page only: values change between two
// pages.
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

// Send encodes and sends node by node: the first are on their way before the last are encoded. After the first byte no error can be
// answered, so an error cuts the answer off. If brief is true, each node is an api.Brief.
func Send(w http.ResponseWriter, view api.FleetView, rows []*api.NodeRow, brief bool) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	out := bufio.NewWriterSize(httpserver.Patient(w), piece) // it keeps its first error, and Flush returns it
	view.Nodes = nil
	begin, err := json.Marshal(view)
	_, _ = out.Write(bytes.TrimSuffix(begin, []byte("null}")))
	encoder := json.NewEncoder(out)
	_ = out.WriteByte('[')
	for i := 0; i < len(rows) && err == nil; i++ {
		if i > 0 {
			_ = out.WriteByte(',')
		}
		var shown any = rows[i]
		if brief {
			shown = api.BriefOf(rows[i])
		}
		err = encoder.Encode(shown)
	}
	_, _ = out.WriteString("]}\n")
	if err == nil {
		err = out.Flush()
	}
	if err != nil {
		panic(http.ErrAbortHandler)
	}
}
