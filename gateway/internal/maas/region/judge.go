package region

import (
	"net/http"
	"strings"
)

// answer is what a refusal is judged by.
type answer struct {
	status     int
	page       bool // it has HTML
	asksToWait bool
	text       string
}

const (
	textPage    = "a page for people came, and not the answer of MAAS"
	textMoved   = "it sends callers to another place: give the URL of MAAS itself, with /MAAS at its end"
	textNoKey   = "MAAS saw no API key: something before it removes the Authorization header"
	textNobody  = "MAAS gave no reason"
	textBroken  = "MAAS or something before it is broken"
	textLarge   = "the web server before MAAS takes no request of this size"
	textNoPath  = "nothing is there: the URL is not that of MAAS, or MAAS is too old"
	textBarred  = "this user of MAAS may not do it, or the machine is locked"
	nothingSuch = "matches the given query" // of Django, in all versions of MAAS
)

// judge says what an answer means. Only MAAS's own words say that a machine is gone or a key refused: what stands before MAAS answers with
// the same statuses.
func (a answer) judge(r request) (Kind, string) {
	switch a.status {
	case http.StatusBadRequest:
		return a.badRequest(r)
	case http.StatusUnauthorized:
		return a.unauthorized()
	case http.StatusForbidden:
		return a.told(Forbidden, textBarred)
	case http.StatusNotFound:
		if !a.page && strings.Contains(a.text, nothingSuch) {
			return NoSuch, a.text
		}
		return NotMAAS, textNoPath
	case http.StatusConflict:
		return a.conflict(r)
	case http.StatusRequestEntityTooLarge:
		return Refused, textLarge
	case http.StatusRequestTimeout, http.StatusTooManyRequests:
		return Unclear, http.StatusText(a.status)
	}
	switch a.status / 100 {
	case 3:
		return NotMAAS, textMoved
	case 4:
		return a.told(Refused, textNobody)
	}
	if a.page || a.text == "" {
		return Unclear, textBroken
	}
	return Unclear, a.text
}

// told is a kind that MAAS's plain text stands for; other is said where it is empty.
func (a answer) told(kind Kind, other string) (Kind, string) {
	switch {
	case a.page:
		return NotMAAS, textPage
	case a.text == "":
		return kind, other
	}
	return kind, a.text
}

// badRequest tells a key that got lost on the way: MAAS lets strangers ask for little at machines/.
func (a answer) badRequest(r request) (Kind, string) {
	if !a.page && r.path == pathMachines && strings.HasPrefix(a.text, "Unrecognised signature:") {
		return KeyRefused, textNoKey
	}
	return a.told(Refused, textNobody)
}

// unauthorized reads refusals of keys, which are plain text that is called HTML. A nonce that was seen already is ours from a connection
// that broke, or something before MAAS has sent the request twice: the first one may have been done.
func (a answer) unauthorized() (Kind, string) {
	switch {
	case strings.HasPrefix(a.text, "Authorization Error: 'Nonce already used"):
		return Unclear, "MAAS got the same request twice, and tells the answer to the second"
	case strings.HasPrefix(a.text, "Authorization Error: 'Expired timestamp"):
		return Clock, a.text
	case strings.HasPrefix(a.text, "Authorization Error"):
		return KeyRefused, a.text
	case a.page:
		return NotMAAS, textPage
	}
	return KeyRefused, textNoKey
}

// conflict tells the database's conflicts, which pass by themselves, from those of a state.
func (a answer) conflict(r request) (Kind, string) {
	switch {
	case a.page || a.asksToWait:
		return Unclear, "MAAS is busy with something else at the same machine"
	case r.op == opAllocate:
		return a.told(NoMachine, textNobody)
	}
	return a.told(Conflict, textNobody)
}
