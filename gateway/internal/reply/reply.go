// Package reply turns what a handler has to say into an answer in JSON. Each code has one status, the caller gets no detail that was
// not meant for it, and nothing secret goes to the log.
package reply

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"muster/agent/wire"
	"muster/gateway/internal/account/secret"
)

// Info is what every answer of one gateway process has in common. It is safe for concurrent use.
type Info struct {
	Epoch  string           // of this start; in every refusal and in the header Muster-Epoch
	Now    func() time.Time // nil: time.Now
	Logger *slog.Logger     // nil: slog.Default
}

// Error returns status and body of a refusal, as Answer says.
func (i *Info) Error(err error) (status int, body []byte) {
	status, answer := i.Answer(err)
	return status, JSON(answer)
}

// Answer returns status and content of a refusal. A *wire.ErrorDetail in err's chain is passed on with its own status. A context that ended
// is 503. So is a database that takes no writes, which its owner logs. Anything else is a bare 500: its cause goes to the log alone,
// under the request id that the body names.
func (i *Info) Answer(err error) (status int, answer wire.Error) {
	now := i.now()
	answer = wire.Error{Time: &now, Epoch: i.Epoch}
	var detail *wire.ErrorDetail
	var outage interface{ Unavailable() string }
	switch {
	case errors.As(err, &detail):
		answer.Error = *detail
		answer.Error.Message = secret.Redact(detail.Message) // a refusal may quote what was sent
		answer.Error.Hint = secret.Redact(detail.Hint)
	case errors.As(err, &outage):
		answer.Error = wire.ErrorDetail{Code: wire.CodeUnavailable, Message: "the gateway cannot write to its database",
			Hint: outage.Unavailable()}
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		answer.Error = wire.ErrorDetail{Code: wire.CodeUnavailable, Message: "the gateway did not finish this in time", Hint: "try again"}
	default:
		answer.Error = wire.ErrorDetail{Code: wire.CodeInternal, Message: "something went wrong inside the gateway",
			Hint: "its log has the cause under the request id"}
	}
	status = Status(answer.Error.Code)
	if status == http.StatusInternalServerError {
		answer.RequestID = rand.Text()[:16]
		cmp.Or(i.Logger, slog.Default()).Error("request went wrong", "request_id", answer.RequestID, "error", secret.Redact(err.Error()))
	}
	return status, answer
}

// WriteError answers with Error(err).
func (i *Info) WriteError(w http.ResponseWriter, err error) {
	status, body := i.Error(err)
	Write(w, status, body)
}

func (i *Info) now() time.Time {
	if i.Now != nil {
		return i.Now().UTC()
	}
	return time.Now().UTC()
}

// Write sends a JSON body with the headers that every answer of the gateway's API carries.
func Write(w http.ResponseWriter, status int, body []byte) {
	WriteKind(w, status, "application/json", body)
}

// Begin sets the headers of an answer that is sent piece by piece, and returns them, so that the caller can add more. Nothing on the way
// may keep the answer or change its bytes.
func Begin(w http.ResponseWriter, kind string) http.Header {
	h := w.Header()
	h.Set("Content-Type", kind)
	h.Set("Cache-Control", "no-store, no-transform")
	h.Set("X-Content-Type-Options", "nosniff")
	return h
}

// WriteKind does what Write does, for a body of another media type. Nothing on the way may change its bytes.
func WriteKind(w http.ResponseWriter, status int, kind string, body []byte) {
	h := w.Header()
	h.Set("Content-Type", kind)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = w.Write(body) // the connection is gone: nobody is left to tell
}
