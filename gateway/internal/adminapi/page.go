package adminapi

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

// place is where a page ends: name and id of its last node.
type place [2]string

func placeOfRow(g *api.NodeRow) place { return place{g.Name, g.ID} }

func (p place) compare(other place) int { return slices.Compare(p[:], other[:]) }

// readPlace reads from a cursor where the page before ended. A list in another order than by name has one page: values change between
// two pages.
func readPlace(text, sort string) (after place, err error) {
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

// cutPage cuts a page out of the rows. next is its cursor; empty: it is the last.
func cutPage(rows []*api.NodeRow, after place, limit int, order string) (page []*api.NodeRow, next string) {
	from := sort.Search(len(rows), func(i int) bool { return order != "" || placeOfRow(rows[i]).compare(after) > 0 })
	page = rows[from:]
	if len(page) <= limit || limit == 0 {
		return page[:min(len(page), limit)], ""
	}
	page = page[:limit]
	if order != "" {
		return page, ""
	}
	last := placeOfRow(page[limit-1])
	raw, _ := json.Marshal(last) // texts always can be
	return page, base64.RawURLEncoding.EncodeToString(raw)
}

// pagePiece is how many bytes are collected before they are sent.
const pagePiece = 32 << 10

// sendPage encodes and sends node by node: the first are on their way before the last are encoded. No error can be answered any more, so
// one cuts the answer. brief: each node is an api.Brief.
func sendPage(w http.ResponseWriter, view api.FleetView, rows []*api.NodeRow, brief bool) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	out := pageWriter{to: httpserver.Patient(w)}
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

// pageWriter writes an api.FleetView whose nodes come last.
type pageWriter struct {
	to     http.ResponseWriter
	buffer bytes.Buffer
	err    error
}

func (f *pageWriter) begin(view api.FleetView) {
	view.Nodes = nil
	raw, err := json.Marshal(view)
	f.err = err
	f.buffer.Write(bytes.TrimSuffix(raw, []byte(`,"nodes":null}`)))
	f.buffer.WriteString(`,"nodes":[`)
}

func (f *pageWriter) add(row any) {
	if f.err != nil {
		return
	}
	if f.err = json.NewEncoder(&f.buffer).Encode(row); f.buffer.Len() >= pagePiece {
		f.send()
	}
}

func (f *pageWriter) send() {
	if f.err == nil {
		_, f.err = f.buffer.WriteTo(f.to)
	}
}
