package transport

import (
	"bytes"
	"encoding/pem"
	"os"
	"strings"
	"sync"
	"time"
)

// anchors finds the one root, of all that the system trusts, to which the gateway's certificate chains. curl parses its whole file
// of certificates at every start. With the 140 of a Linux system that takes several times as long as the rest of an exchange; with
// one root it takes almost no time.
//
// The search halves the list in a few exchanges: curl itself says which half verifies the gateway. The certificates come from the
// file that the direct way reads too. When that file changes, they are forgotten. It is safe for concurrent use.
type anchors struct {
	mu     sync.Mutex
	file   string
	stamp  time.Time // of the file, when it was read
	size   int64
	known  []string // roots that have verified the gateway, PEM; several where an edge shows several certificates
	search []string // candidates for one more root; nil: no search goes on
	all    int      // how many candidates the search began with
	turn   int      // grows with every change of the search, so that the fences of an older one are recognised
	misses int      // exchanges that no candidate verified
	futile bool     // curl uses another file: nothing in this one verifies the gateway
}

const (
	maxAnchors = 4 // roots that are kept
	maxMisses  = 8 // until the search begins anew
)

// trial is what a fence tries of the system's trust.
type trial int

const (
	noTrial    trial = iota
	tryKnown         // the roots that verified the gateway before
	tryLower         // one half of the candidates
	tryUpper         // the other half
	tryAll           // all candidates: a chain may need roots of both halves
	tryDefault       // what curl takes by itself
)

// bundles are the files that Go reads on Linux (crypto/x509/root_linux.go).
var bundles = [...]string{
	"/etc/ssl/certs/ca-certificates.crt",
	"/etc/pki/tls/certs/ca-bundle.crt",
	"/etc/ssl/ca-bundle.pem",
	"/etc/pki/tls/cacert.pem",
	"/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
	"/etc/ssl/cert.pem",
}

// systemBundle is the file of certificates that the system trusts. It reads the variables that curl reads.
func systemBundle(env []string) string {
	for _, name := range []string{"CURL_CA_BUNDLE", "SSL_CERT_FILE"} {
		for _, pair := range env {
			if value, ok := strings.CutPrefix(pair, name+"="); ok && value != "" {
				return value
			}
		}
	}
	for _, file := range bundles {
		if _, err := os.Stat(file); err == nil {
			return file
		}
	}
	return ""
}

// fences are the system's trust in the order of trying.
func (a *anchors) fences(env []string) []fence {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.refresh(env)
	var list []fence
	add := func(what trial, roots []string) {
		list = append(list, fence{trust: ofSystem, roots: strings.Join(roots, ""), trial: what, turn: a.turn})
	}
	if len(a.known) > 0 {
		add(tryKnown, a.known)
	}
	if n := len(a.search); n > 0 {
		add(tryLower, a.search[:n/2])
		add(tryUpper, a.search[n/2:])
		add(tryAll, a.search)
	}
	add(tryDefault, nil)
	return list
}

// refresh forgets everything where the file has changed.
func (a *anchors) refresh(env []string) {
	file := systemBundle(env)
	info, err := os.Stat(file)
	if err != nil {
		a.file = ""
		a.known = nil
		a.search = nil
		a.futile = true
		a.turn++
		return
	}
	if file == a.file && info.ModTime().Equal(a.stamp) && info.Size() == a.size {
		return
	}
	a.file = file
	a.stamp = info.ModTime()
	a.size = info.Size()
	a.known = nil
	a.search = nil
	a.futile = false
	a.turn++
}

// verified notes which fence let an exchange through. A fence of an older search does not count.
func (a *anchors) verified(f fence) {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := len(a.search)
	switch {
	case f.trial == noTrial, f.trial == tryKnown, f.turn != a.turn:
	case f.trial == tryLower:
		a.narrow(a.search[:n/2])
	case f.trial == tryUpper:
		a.narrow(a.search[n/2:])
	case f.trial == tryAll:
		a.keep(f.roots)
	case n > 0:
		a.missed()
	case !a.futile:
		a.begin()
	}
}

// begin looks for the root among all that the system trusts.
func (a *anchors) begin() {
	a.search = candidates(a.file)
	a.misses = 0
	a.all = len(a.search)
	a.futile = a.all == 0
	a.turn++
}

// narrow goes on with one half of the candidates.
func (a *anchors) narrow(half []string) {
	a.search = half
	a.misses = 0
	a.turn++
	if len(half) == 1 {
		a.keep(half[0])
	}
}

// keep ends a search with the roots that it found.
func (a *anchors) keep(roots string) {
	a.search = nil
	a.turn++
	a.known = append(a.known, strings.Clone(roots))
	if len(a.known) > maxAnchors {
		a.known = a.known[1:]
	}
}

// missed notes that curl's own trust verified the gateway and no candidate did. With an edge that shows several certificates this
// happens now and then. With one that has changed its authority it happens every time, so the search ends after maxMisses.
func (a *anchors) missed() {
	if a.misses++; a.misses < maxMisses {
		return
	}
	a.futile = len(a.search) == a.all
	a.search = nil
	a.turn++
}

// candidates are the certificates of a bundle.
func candidates(file string) (list []string) {
	rest, err := os.ReadFile(file)
	if err != nil {
		return nil
	}
	for {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			return list
		}
		if block.Type == "CERTIFICATE" {
			var text bytes.Buffer
			_ = pem.Encode(&text, &pem.Block{Type: block.Type, Bytes: block.Bytes}) // a buffer takes everything
			list = append(list, text.String())
		}
	}
}
