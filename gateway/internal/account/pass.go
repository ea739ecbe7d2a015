package account

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"muster/agent/sign"
	"muster/store"
)

// Actions in a repository of the registry, as its clients name them.
const (
	ActionPull   = "pull"
	ActionPush   = "push"
	ActionDelete = "delete"
)

const (
	passSecret = "registry/pass" // names the key in the store
	passDomain = "muster registry pass v1\n"
	passLimit  = 16 << 10 // bytes of a pass
	longest    = time.Hour
)

// Grant is what a pass opens in one repository.
type Grant struct {
	Repository string   `json:"r"`
	Actions    []string `json:"a"`
}

// Pass opens some repositories for some minutes. A client shows it instead of an API token, which stays with its owner. The database does
// not have it: a MAC proves it, so that it is good after a restart too.
type Pass struct {
	ID      string  `json:"i"`           // random
	Account string  `json:"u,omitempty"` // the pass ends with this account; empty: it is nobody's, and good for pulling alone
	Grants  []Grant `json:"g,omitempty"`
	Expires int64   `json:"e"` // Unix seconds
	Text    string  `json:"-"` // as it is shown: a secret
}

// opens tells whether the pass grants an action in a repository.
func (p *Pass) opens(repository, action string) bool {
	return slices.ContainsFunc(p.Grants, func(g Grant) bool {
		return g.Repository == repository && slices.Contains(g.Actions, action) && (p.Account != "" || action == ActionPull)
	})
}

// Opens reports whether the caller's pass allows this action in a repository. A caller who shows an API token needs no pass: for that one
// it is always true.
func (c Caller) Opens(repository, action string) bool {
	return c.Pass == nil || c.Pass.opens(repository, action)
}

// Passes makes passes and reads them. It is safe for concurrent use.
type Passes struct {
	key []byte
	now func() time.Time
}

var (
	errNoPass = errors.New("this is no pass")
	errLapsed = errors.New("the pass has run out")
)

// OpenPasses gets the key of all passes from the database, where it is sealed, or makes it. now may be nil: time.Now.
func OpenPasses(ctx context.Context, secrets *store.Store, now func() time.Time) (*Passes, error) {
	if now == nil {
		now = time.Now
	}
	key := make([]byte, sha256.Size)
	rand.Read(key)
	key, err := secrets.SecretOnce(ctx, passSecret, key)
	return &Passes{key: key, now: now}, err
}

// Issue makes a pass of an account.
func (p *Passes) Issue(account string, grants []Grant, ttl time.Duration) Pass {
	pass := Pass{ID: rand.Text()[:16], Account: account, Grants: grants, Expires: p.now().Add(min(ttl, longest)).Unix()}
	body, err := json.Marshal(pass)
	if err != nil {
		panic("account: " + err.Error()) // texts and numbers always encode
	}
	pass.Text = encode(body) + "." + encode(p.mac(body))
	return pass
}

// PullToken makes a pass that pulls from one repository, for a machine that has no account. It lives an hour at most.
func (p *Passes) PullToken(repository string, ttl time.Duration) string {
	return p.Issue("", []Grant{{repository, []string{ActionPull}}}, ttl).Text
}

// read checks the MAC before it looks at anything else. errNoPass is for every text that was not made here, errLapsed for a pass that was.
func (p *Passes) read(text string) (*Pass, error) {
	payload, proof, _ := strings.Cut(text, ".")
	body, err := decode(payload)
	mac, wrong := decode(proof)
	if len(text) > passLimit || err != nil || wrong != nil || !hmac.Equal(mac, p.mac(body)) {
		return nil, errNoPass
	}
	pass := &Pass{Text: text}
	if err := sign.DecodeStrict(body, pass); err != nil {
		return nil, errNoPass
	}
	if p.now().Unix() >= pass.Expires {
		return nil, errLapsed
	}
	return pass, nil
}

func (p *Passes) mac(body []byte) []byte {
	sum := hmac.New(sha256.New, p.key)
	sum.Write([]byte(passDomain))
	sum.Write(body)
	return sum.Sum(nil)
}

// A pass is written in the alphabet of base64 that has no underscore, so that no part of it looks like a token.
func encode(b []byte) string { return base64.RawStdEncoding.EncodeToString(b) }

func decode(text string) ([]byte, error) { return base64.RawStdEncoding.Strict().DecodeString(text) }
