package main

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"muster/agent/sign"
	"muster/agent/wire"
)

// lostPause is how long a worker waits after a lost connection before its next request.
const lostPause = 100 * time.Millisecond

// Codes of what went wrong on this side, beside the gateway's own.
const (
	codeNetwork  = "network"  // no connection, or it broke off
	codeUnproven = "unproven" // an answer whose proof does not fit
	codeForeign  = "foreign"  // an answer that is not of the gateway's form
)

// sent is one request as it goes over the wire, and what its answer must prove.
type sent struct {
	raw   []byte
	prove func(a answer) error // nil: the connection is the proof, or this one is not looked at
	from  time.Time            // when it was due; zero: when it is sent
	nonce string               // of a signed one
	again bool                 // a connection was lost before it was answered
}

// send makes one request for a node and counts what comes of it. ok is false for everything but a proven success.
func (w *worker) send(ctx context.Context, n *node, q sent) (a answer, ok bool) {
	for {
		c, err := w.connection(ctx, n)
		if err == nil {
			if q.from.IsZero() {
				q.from = time.Now()
			}
			a, err = c.exchange(q.raw)
		}
		if err == nil {
			return a, w.judge(a, q, time.Since(q.from))
		}
		w.hangUp(n)
		if again := w.lost(ctx, err); !again {
			return answer{}, false
		}
		q.again = true
	}
}

// lost counts a connection that could not be opened or that broke, and tells whether to try again. It waits first, so that a gateway
// that is away has some time to come back.
func (w *worker) lost(ctx context.Context, err error) (again bool) {
	if ctx.Err() != nil {
		return false
	}
	if !w.insist {
		w.tally.refuse(codeNetwork, err.Error())
	}
	pause(ctx, lostPause)
	return w.insist && ctx.Err() == nil
}

// judge counts an answer, and tells whether it is a proven success.
func (w *worker) judge(a answer, q sent, took time.Duration) bool {
	switch {
	case q.prove != nil && q.prove(a) != nil:
		w.tally.refuse(codeUnproven, "an answer's proof does not fit: "+shorten(a.body))
		return false
	case a.status == http.StatusOK || a.status == http.StatusCreated:
		w.tally.latency = append(w.tally.latency, took)
		if q.again {
			w.again.latency = append(w.again.latency, took)
			w.lastAgain = time.Now()
		}
		return true
	}
	var refusal wire.Error
	if json.Unmarshal(a.body, &refusal) != nil || refusal.Error.Code == "" {
		w.tally.refuse(codeForeign, shorten(a.body))
		return false
	}
	beforeRestart := refusal.Error.Code == wire.CodeStaleNonce && !ofEpoch(q.nonce, a.epoch)
	if beforeRestart { // the next nonce names the new epoch, so this refusal does not count
		w.epoch.learn(a.epoch)
		return false
	}
	w.tally.refuse(refusal.Error.Code, refusal.Error.Error())
	return false
}

func shorten(body []byte) string {
	const most = 200
	if len(body) > most {
		return string(body[:most]) + "..."
	}
	return string(body)
}

// signed signs a POST of body and gives its bytes up to the empty line, and the nonce that its answer must prove.
func (s *swarm) signed(n *node, path string, body []byte) (head []byte, nonce string, err error) {
	r, err := http.NewRequest(http.MethodPost, s.gateway.Scheme+"://"+s.gateway.Host+path, nil)
	if err != nil {
		return nil, "", err
	}
	if nonce, err = n.signer().Sign(r, body, s.epoch.String(), time.Now()); err != nil {
		return nil, "", err
	}
	head = appendHead(make([]byte, 0, 800), s.dialer.host, path, len(body))
	for _, name := range [...]string{"Content-Digest", "Signature-Input", "Signature"} {
		head = append(head, name...)
		head = append(head, ": "...)
		head = append(head, r.Header.Get(name)...)
		head = append(head, "\r\n"...)
	}
	return append(head, "\r\n"...), nonce, nil
}

// request is the POST of body that proves the node's key in the node's own way.
func (s *swarm) request(n *node, path string, body []byte) (sent, error) {
	if n.direct {
		raw := append(appendHead(nil, s.dialer.host, path, len(body)), "\r\n"...)
		return sent{raw: append(raw, body...)}, nil
	}
	head, nonce, err := s.signed(n, path, body)
	return sent{raw: append(head, body...), prove: s.proof(nonce), nonce: nonce}, err
}

// ofEpoch says whether a nonce names this epoch.
func ofEpoch(nonce, epoch string) bool {
	named, _, _ := strings.Cut(nonce, ".")
	return named == epoch
}

// proof makes the check of the answer to one signed request, by the answer key that was pinned at enrolment.
func (s *swarm) proof(nonce string) func(a answer) error {
	return func(a answer) error {
		return sign.VerifyAnswer(a.proof, s.pinned.answerKey, nonce, a.status, a.body)
	}
}
