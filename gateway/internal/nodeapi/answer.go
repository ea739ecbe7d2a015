package nodeapi

import (
	"net/http"

	"muster/agent/sign"
	"muster/agent/wire"
	"muster/gateway/internal/reply"
)

// answer writes what a handler gave. The status of a success is 200, or 204 if there is nothing to say.
func (a *API) answer(w http.ResponseWriter, s *sign.Signature, answer any, err error) {
	status := http.StatusOK
	var body []byte
	kind := ""
	plain, isPlain := answer.(Bytes)
	switch {
	case err != nil:
		status, body = a.Info.Error(err)
	case answer == nil:
		status = http.StatusNoContent
	case isPlain:
		body = plain.Data
		kind = plain.Kind
	default:
		body = reply.JSON(answer)
	}
	if s != nil {
		w.Header().Set(wire.HeaderAnswer, sign.SignAnswer(a.Authority.AnswerKey(), s.Nonce, status, body))
	}
	if kind != "" {
		reply.WriteKind(w, status, kind, body)
		return
	}
	write(w, status, body)
}

// write sends an answer. A caller that was too fast is told how long to wait.
func write(w http.ResponseWriter, status int, body []byte) {
	if status == http.StatusTooManyRequests {
		w.Header().Set("Retry-After", "60")
	}
	if status == http.StatusNoContent {
		w.Header().Set("Cache-Control", "no-store")
		w.WriteHeader(status)
		return
	}
	reply.Write(w, status, body)
}
