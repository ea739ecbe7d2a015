package adminapi

import (
	"net/http"
	"strconv"

	"muster/gateway/api"
	"muster/gateway/internal/httpserver"
	"muster/gateway/internal/reply"
)

// playSession sends what the terminal of a session showed. All of it was verified before. Nobody looks at it unseen.
func (c *call) playSession() (any, error) {
	v, err := c.session()
	if err != nil {
		return nil, err
	}
	p, err := c.Recordings.Find(v.ID)
	if err != nil {
		return nil, err
	}
	defer p.Close()
	e := c.event("session.played")
	e.NodeID = v.NodeID
	e.Detail = map[string]string{"session": v.ID, "recording": p.State}
	if err := c.Store.AddEvents(c.Context(), e); err != nil {
		return nil, err
	}
	if p.Why != nil {
		c.Logger.Warn("a recording is not all there", "session", v.ID, "error", p.Why)
	}
	w := httpserver.Patient(c.W)
	h := reply.Begin(w, api.RecordingType)
	h.Set(api.HeaderRecording, p.State)
	h.Set("Content-Length", strconv.FormatInt(p.Bytes, 10))
	h.Set("Content-Disposition", attachment(v.ID+".cast"))
	w.WriteHeader(http.StatusOK)
	if _, err := p.WriteTo(w); err != nil {
		panic(http.ErrAbortHandler)
	}
	return streamed{}, nil
}
