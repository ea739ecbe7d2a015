package console

import (
	"bytes"
	"net/http"
	"time"

	"muster/agent/wire"
)

// asset serves a file. Browsers may keep it, and ask each time whether it has changed.
func (v *visit) asset() (page, error) {
	found, ok := v.assets[v.r.PathValue("file")]
	if !ok {
		return page{}, wire.Refuse(wire.CodeNotFound, "there is no such file", "open the page again")
	}
	h := v.w.Header()
	h.Set("Content-Type", found.Kind)
	h.Set("Cache-Control", "no-cache")
	http.ServeContent(v.w, v.r, "", time.Time{}, bytes.NewReader(found.Choose(v.w, v.r)))
	return page{sent: true}, nil
}
