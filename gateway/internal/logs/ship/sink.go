package ship

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/base64"
	"net/http"
	"net/url"
	"strings"
	"time"

	"muster/gateway/internal/httpserver/post"
)

const (
	pushTime     = 30 * time.Second // for one push, its answer included
	longestWords = 120              // characters of an answer that are shown
)

// sink is where a rule's lines go.
type sink struct {
	url    string
	host   string
	header http.Header
	client *post.Client
}

func newSink(s sealed) (*sink, error) {
	u, err := url.Parse(s.To)
	if err != nil {
		return nil, bad("this is no URL to which logs can go", "write it as https://HOST")
	}
	var roots *x509.CertPool
	if s.CA != "" {
		roots = x509.NewCertPool()
		if !roots.AppendCertsFromPEM([]byte(s.CA)) {
			return nil, bad("there is no certificate in the file of --sink-ca", "give the root that vouches for the sink, as PEM")
		}
	}
	return &sink{url: s.To, host: u.Host, header: s.header(), client: post.New(post.Config{
		What: "sink", Takes: "logs", Roots: roots, Time: pushTime, Longest: longest, Control: post.Guard(s.Tenant != ""),
		Untrusted: "give its root with --sink-ca FILE",
		Moved:     "give the URL that it moved to; no redirect is followed",
		Barred:    "check --auth-file, --bearer-file and --tenant-id",
		Nowhere:   "check the path of the URL",
		Wait:      "raise its limits (ingestion_rate_mb), or lower --rate; the gateway tries again by itself",
		Broken:    "look at the log of the sink; the gateway tries again by itself",
	})}, nil
}

func (s *sealed) header() http.Header {
	h := http.Header{"Content-Type": {"application/json"}, "Content-Encoding": {"gzip"}, "User-Agent": {"muster"}}
	switch {
	case s.Basic != "":
		h.Set("Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(s.Basic)))
	case s.Bearer != "":
		h.Set("Authorization", "Bearer "+s.Bearer)
	}
	if s.TenantID != "" {
		h.Set("X-Scope-OrgID", s.TenantID)
	}
	return h
}

func (s *sink) close() { s.client.Close() }

// push sends one body. nil: the sink has the lines.
func (s *sink) push(ctx context.Context, body []byte) *post.Error {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url, bytes.NewReader(body))
	if err != nil {
		return &post.Error{Text: "the address of the sink cannot be used", Next: "create the rule again with another URL"}
	}
	r.Header = s.header.Clone()
	answer, failed := s.client.Send(r)
	if failed != nil {
		return failed
	}
	return s.judge(answer)
}

// judge is nil for 204 alone. Loki answers that for lines that it has, and other numbers, 200 and 260 among them, for lines that it may
// not have.
func (s *sink) judge(a *post.Answer) *post.Error {
	switch {
	case a.Status == http.StatusNoContent:
		return nil
	case a.IsPage():
		return a.Fails(" and a page for people", "check the URL: a login page or a proxy stands at this one")
	case a.Status/100 == 2:
		return a.Fails(", where a Loki that has the lines answers 204", "check the URL; Loki answers 260 where it is told to take no lines")
	case a.Status == http.StatusBadRequest || a.Status == http.StatusRequestEntityTooLarge || a.Status == http.StatusUnprocessableEntity:
		text := ": it refuses lines"
		if words := harmless(a.Said); words != "" {
			text += ": " + words
		}
		e := a.Fails(text, "see what its words say; those lines are dropped and counted")
		e.Refused = true
		return e
	case a.Status == http.StatusMethodNotAllowed:
		return a.Fails(": nothing takes logs there", s.client.Nowhere)
	}
	if e := a.Refusal(time.Now()); e != nil { // a date in an answer is of the real clock
		return e
	}
	return a.Fails("", s.client.Broken)
}

// harmless is the beginning of an answer as it may stand in a log or on a terminal.
func harmless(said []byte) string {
	text := strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return ' '
		}
		return r
	}, string(said))
	text = strings.Join(strings.Fields(text), " ")
	return text[:min(len(text), longestWords)]
}
