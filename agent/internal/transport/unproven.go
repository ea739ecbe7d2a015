package transport

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"muster/agent/wire"
)

// Unproven is the error for an answer that does not carry the gateway's proof. Nothing in the answer is believed. What describes it for a
// person.
type Unproven struct {
	What   string
	Signed bool   // it carries a signature, perhaps by a key of the gateway that this node has not heard of
	Claim  string // the code of the error that the answer claims to be, such as unknown_credential
	NoCurl bool   // curl might get past what answered, and there is no curl here
}

// needsCurl is the next step where only curl might get through.
const needsCurl = "such networks often let curl through, and there is no curl here: install it (apt-get install curl), the agent then " +
	"uses it by itself"

// wantsTLS is the next step where a server was asked without TLS and refuses that.
const wantsTLS = "if this port speaks TLS, give --gateway with https://"

// Error says what to look at next.
func (u *Unproven) Error() string {
	if u.Claim == wire.CodeUnknownCredential || u.Claim == wire.CodeBadMAC { // a gateway without the node's key cannot prove these
		return "the gateway does not seem to know this token: check that --gateway and the token belong together, and that the token was " +
			"not revoked; the answer was " + u.What
	}
	text := "something between this machine and the gateway answered instead of it: " + u.What
	if u.NoCurl {
		text += "; " + needsCurl
	}
	return text
}

// Refusal is the error for a request that the gateway provably refused.
type Refusal struct {
	Status int
	wire.ErrorDetail
	RetryAfter int // seconds that the gateway asks to wait; 0: it does not say
}

// Error returns the gateway's message with its hint.
func (r *Refusal) Error() string {
	return fmt.Sprintf("the gateway refuses (%s): %s", r.Code, r.ErrorDetail.Error())
}

// Unproven makes the error that describes this answer.
func (a Answer) Unproven() *Unproven {
	parts := []string{fmt.Sprintf("HTTP %d", a.Status)}
	if where := a.Header.Get("Location"); where != "" {
		parts = append(parts, "a redirect to "+wire.Plain(where, 100)+" (if the gateway moved, give that address as --gateway)")
	}
	if a.Status == http.StatusBadRequest && bytes.Contains(a.Body, []byte("HTTPS")) { // what Go's servers, nginx and Apache say
		parts = append(parts, wantsTLS)
	}
	parts = append(parts, a.shape())
	if a.Header.Get("Cf-Mitigated") != "" {
		parts = append(parts, "a Cloudflare challenge (cf-mitigated), so the edge stopped the request")
	}
	if server := a.Header.Get("Server"); server != "" {
		parts = append(parts, "from a server that calls itself "+wire.Plain(server, 40))
	}
	return &Unproven{What: strings.Join(parts, ", "), Signed: a.Header.Get(wire.HeaderAnswer) != "", Claim: a.claim().Code,
		NoCurl: a.noCurl}
}

// shape says what the body looks like. It repeats the words of an error, though nothing proves whose they are. A person needs them where
// the gateway does not know the credential, because then no proof is possible.
func (a Answer) shape() string {
	body := bytes.TrimSpace(a.Body)
	kind := strings.ToLower(a.Header.Get("Content-Type"))
	claim := a.claim()
	switch {
	case len(body) == 0:
		return "with an empty body"
	case strings.Contains(kind, "html") || body[0] == '<':
		return "an HTML page" + title(body)
	case claim.Code != "":
		return fmt.Sprintf("the error %q without the gateway's signature: %s", wire.Plain(claim.Code, 40), wire.Plain(claim.Error(), 200))
	}
	return "without the gateway's proof"
}

// claim is the refusal that the body claims to be. It is zero if it claims none.
func (a Answer) claim() wire.ErrorDetail {
	var claim wire.Error
	if json.Unmarshal(a.Body, &claim) != nil {
		return wire.ErrorDetail{}
	}
	return claim.Error
}

// title is the title of a web page, in words for a person. Such titles often name the product that answered.
func title(page []byte) string {
	lower := bytes.ToLower(page)
	start := bytes.Index(lower, []byte("<title>"))
	end := bytes.Index(lower, []byte("</title>"))
	if start < 0 || end < start || len(lower) != len(page) {
		return ""
	}
	if text := wire.Plain(string(page[start+len("<title>"):end]), 80); text != "" {
		return fmt.Sprintf(" titled %q", text)
	}
	return ""
}
