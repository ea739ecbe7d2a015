package maassim

import (
	"crypto/rand"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

type user struct {
	name                    string
	admin                   bool
	consumer, token, secret string // no consumer: the key was deleted; no token: only its row
}

// Key returns the API key of the user muster, who is an admin.
func (s *Sim) Key() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.users[muster].key()
}

func (u *user) key() string { return u.consumer + ":" + u.token + ":" + u.secret }

// AddUser makes a user, or replaces the key of one, and returns the key.
func (s *Sim) AddUser(name string, admin bool) (key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	u := &user{name, admin, rand.Text()[:18], rand.Text()[:18], rand.Text()}
	s.users[name] = u
	return u.key()
}

// Revoke deletes a user's key, or only the row of its token.
func (s *Sim) Revoke(name string, onlyToken bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.users[name].token = ""; !onlyToken {
		s.users[name].consumer = ""
	}
}

// credentials reads the header. It is nil where one that is needed is not there.
func credentials(header string) map[string]string {
	rest, ok := strings.CutPrefix(header, "OAuth ")
	if !ok {
		return nil
	}
	given := map[string]string{}
	for part := range strings.SplitSeq(rest, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		if text, err := url.PathUnescape(strings.Trim(value, `"`)); err == nil {
			given[name] = text
		}
	}
	for _, name := range []string{"consumer_key", "token", "signature", "signature_method", "timestamp", "nonce"} {
		if given["oauth_"+name] == "" {
			return nil
		}
	}
	return given
}

// admit says whose request it is, in the order of MAAS's checks, or why it is refused. No user and no refusal: a stranger's.
func (s *Sim) admit(header string) (*user, *reply) {
	given := credentials(header)
	if given == nil {
		return nil, nil
	}
	refuse := func(text string) (*user, *reply) {
		r := reply{status: http.StatusUnauthorized, kind: kindHTML, body: []byte("Authorization Error: " + text)}
		r.header = map[string]string{"WWW-Authenticate": `OAuth realm="OAuth"`}
		return nil, &r
	}
	var who *user
	for _, u := range s.users {
		if u.consumer != "" && u.consumer == given["oauth_consumer_key"] {
			who = u
		}
	}
	if who == nil {
		return refuse("Invalid API key.")
	}
	if who.token != given["oauth_token"] {
		return refuse(fmt.Sprintf("'Invalid access token: %s'", given["oauth_token"]))
	}
	at, err := strconv.ParseInt(given["oauth_timestamp"], 10, 64)
	now := s.config.Now()
	switch {
	case err != nil:
		r := text(http.StatusBadRequest, "Bad Request: Invalid timestamp")
		return nil, &r
	case now.Sub(time.Unix(at, 0)) > clockApart:
		return refuse(fmt.Sprintf("'Expired timestamp: given %d and now %d has a greater difference than threshold 300'", at, now.Unix()))
	}
	nonce := given["oauth_nonce"]
	if _, used := s.nonces[nonce]; used {
		return refuse(fmt.Sprintf("'Nonce already used: %s'", nonce))
	}
	s.nonces[nonce] = now
	if given["oauth_signature_method"] != "PLAINTEXT" || given["oauth_signature"] != "&"+who.secret {
		return refuse("'Invalid signature.'")
	}
	return who, nil
}
