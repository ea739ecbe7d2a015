package nodeapi_test

import (
	"bytes"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"strings"
	"testing"
	"time"

	"muster/agent/sign"
	"muster/agent/wire"
	"muster/gateway/api"
	"muster/store"
)

func TestRegister(t *testing.T) {
	s := newSite(t, nil)
	c := s.token(func(q *api.TokenRequest) {
		q.GPUs = 2
		q.Labels = map[string]string{"tier": "sovereign"}
	})
	key := newKey(t)
	q := s.application("box", key)
	a := s.register(c, encode(t, q))
	if a.status != http.StatusCreated {
		t.Fatalf("got %d %s, want 201", a.status, a.body)
	}
	w := s.welcome(a)
	if w.Protocol != 1 || w.NodeID == "" || w.Name != "box" || w.Tenant != "platform" || w.Generation != 1 || w.Roots != s.ca.RootPEM() ||
		w.Epoch != epoch || w.IntervalSeconds != 30 || w.GPUsExpected != 2 || !w.Time.Equal(start) || w.AnswerKey != s.answerKey() ||
		w.TrustKey != sign.EncodeKey(s.ca.TrustKey()) || w.Channel != wire.DefaultChannel || w.ChannelSequence != 0 {
		t.Errorf("got %+v", w)
	}
	var set sign.Envelope
	if err := json.Unmarshal(w.Trust, &set); err != nil {
		t.Fatal(err)
	}
	if _, err := set.Open(s.ca.TrustKey(), sign.RoleTrust); err != nil {
		t.Errorf("the trust set: %v", err)
	}
	s.checkChain(w, key.Public())

	q.Nonce = newNonce()
	again := s.register(c, encode(t, q))
	if again.status != http.StatusOK || s.welcome(again).Certificate != w.Certificate {
		t.Errorf("again: got %d %s, want 200 and the same certificate", again.status, again.body)
	}
	n, err := s.fleet.Node(t.Context(), "", "box")
	if err != nil || n.Labels["tier"] != "sovereign" || n.Address != "127.0.0.1" {
		t.Errorf("got %+v, %v", n, err)
	}
}

// TestSignedRegistration: a machine that proves the key of its node too is that node, also long after the certificate has expired and
// when it does not know the node's present name. A signature that is there must be good.
func TestSignedRegistration(t *testing.T) {
	s := newSite(t, nil)
	was := s.enrol("old")
	s.clock.Forward(90 * 24 * time.Hour)
	if _, err := s.fleet.Rename(t.Context(), "", "old", "new", store.Actor{Name: "ann"}); err != nil {
		t.Fatal(err)
	}
	apply := func(name string, signer sign.Signer, of string, change func(*http.Request)) answer {
		raw := encode(t, s.application(name, newKey(t)))
		return s.register(s.token(nil), raw, func(r *http.Request) {
			if _, err := signer.Sign(r, raw, of, s.clock.Now()); err != nil {
				t.Fatal(err)
			}
			if change != nil {
				change(r)
			}
		})
	}
	stale := apply("old", was.signer, "before", nil)
	s.want("signed for another epoch", stale, 401, wire.CodeStaleNonce)
	var said wire.Error
	if err := json.Unmarshal(stale.body, &said); err != nil || said.Epoch != epoch {
		t.Errorf("the answer %s has no epoch", stale.body)
	}
	forged := sign.Signer{Key: newKey(t), Fingerprint: was.signer.Fingerprint}
	s.want("signed by another key", apply("old", forged, epoch, nil), 401, wire.CodeBadSignature)
	s.want("half a signature", apply("old", was.signer, epoch, func(r *http.Request) { r.Header.Del("Signature") }), 401, wire.CodeBadSignature)
	unknown := sign.Signer{Key: was.signer.Key, Fingerprint: strings.Repeat("ab", 32)}
	if w := s.welcome(apply("third", unknown, epoch, nil)); w.NodeID == was.id || w.Name != "third" {
		t.Errorf("with a key that is not on record: %+v", w)
	}
	if w := s.welcome(apply("old", was.signer, epoch, nil)); w.NodeID != was.id || w.Name != "new" {
		t.Errorf("got the node %s, called %s", w.NodeID, w.Name)
	}
	s.want("the key of the enrolment before", apply("new", was.signer, epoch, nil), 409, wire.CodeNameInUse)
}

func (s *site) checkChain(w wire.Welcome, key any) {
	s.t.Helper()
	c := leaf(s.t, w.Certificate)
	_, rest := pem.Decode([]byte(w.Certificate))
	o := x509.VerifyOptions{
		Roots: x509.NewCertPool(), Intermediates: x509.NewCertPool(), CurrentTime: s.clock.Now(),
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	o.Roots.AppendCertsFromPEM([]byte(w.Roots))
	o.Intermediates.AppendCertsFromPEM(rest)
	if _, err := c.Verify(o); err != nil {
		s.t.Errorf("the chain: %v", err)
	}
	if len(c.URIs) != 1 || c.URIs[0].String() != "spiffe://test/node/"+w.NodeID || !c.NotAfter.Equal(start.Add(24*time.Hour)) {
		s.t.Errorf("got %v until %v", c.URIs, c.NotAfter)
	}
	if k, ok := key.(interface{ Equal(any) bool }); ok && !k.Equal(c.PublicKey) {
		s.t.Error("the certificate is for another key")
	}
}

func TestRegisterWithAPSK(t *testing.T) {
	s := newSite(t, nil)
	secret, id, err := s.bootstrap.GeneratePSK(t.Context(), operator)
	if err != nil {
		t.Fatal(err)
	}
	key, err := sign.PSKKey(secret)
	if err != nil {
		t.Fatal(err)
	}
	a := s.register(credential{id, key}, encode(t, s.application("box", newKey(t))))
	if w := s.welcome(a); a.status != http.StatusCreated || w.Tenant != "default" {
		t.Errorf("got %d %+v", a.status, w)
	}
}

// TestCredentials: wrong, used, expired, revoked and foreign ones.
func TestCredentials(t *testing.T) {
	s := newSite(t, nil)
	foreign := newSite(t, nil).token(nil)
	good := s.token(nil)
	used := s.token(nil)
	expired := s.token(func(q *api.TokenRequest) { q.TTL = api.Duration(time.Second) })
	revoked := s.token(nil)
	s.register(used, encode(t, s.application("holder", newKey(t))))
	if err := s.bootstrap.RevokeToken(t.Context(), "", revoked.id, operator); err != nil {
		t.Fatal(err)
	}
	s.clock.Forward(time.Second)
	body := func() []byte { return encode(t, s.application("box", newKey(t))) }
	s.want("used", s.register(used, body()), http.StatusConflict, wire.CodeTokenUsed)
	s.want("expired", s.register(expired, body()), http.StatusForbidden, wire.CodeTokenExpired)
	s.want("revoked", s.register(revoked, body()), http.StatusForbidden, wire.CodeTokenRevoked)
	events := s.events("enrol.refused")
	if len(events) != 3 || events[0].Address != "127.0.0.1" || events[0].Outcome != wire.CodeTokenRevoked {
		t.Errorf("got events %+v, want three with the address", events)
	}

	raw := body()
	wrong := func(r *http.Request) {
		r.Header.Set("Authorization", sign.Authorization(good.id, make([]byte, 32), raw))
	}
	s.want("a wrong secret", s.register(good, raw, wrong), http.StatusUnauthorized, wire.CodeBadMAC)
	changed := func(r *http.Request) {
		r.Header.Set("Authorization", sign.Authorization(good.id, good.key, append([]byte(" "), raw...)))
	}
	s.want("a body changed on its way", s.register(good, raw, changed), http.StatusUnauthorized, wire.CodeBadMAC)

	r := newRequest(t, http.MethodPost, s.plain.URL+wire.PathRegister, raw)
	r.Header.Set("Authorization", sign.Authorization(foreign.id, foreign.key, raw))
	a := s.do(http.DefaultClient, r)
	s.want("a token of another gateway", a, http.StatusUnauthorized, wire.CodeUnknownCredential)
	if a.header.Get(wire.HeaderProof) != "" {
		t.Error("an answer is proven with a key that nobody has")
	}
}

// TestManyWrongProofs: after many wrong proofs the address is held up, but a right proof from it is not.
func TestManyWrongProofs(t *testing.T) {
	s := newSite(t, nil)
	c := s.token(nil)
	raw := encode(t, s.application("box", newKey(t)))
	wrong := func(r *http.Request) { r.Header.Set("Authorization", sign.Authorization(c.id, make([]byte, 32), raw)) }
	for range 20 {
		s.want("wrong", s.register(c, raw, wrong), http.StatusUnauthorized, wire.CodeBadMAC)
	}
	a := s.register(c, raw, wrong)
	s.want("once too often", a, http.StatusTooManyRequests, wire.CodeTooManyRequests)
	if a.header.Get("Retry-After") == "" {
		t.Error("429 without Retry-After")
	}
	if a := s.register(c, raw); a.status != http.StatusCreated {
		t.Errorf("the right proof: got %d %s", a.status, a.body)
	}
}

func TestRegisterClock(t *testing.T) {
	s := newSite(t, nil)
	c := s.token(nil)
	for _, off := range []time.Duration{wire.EnrollWindow + time.Second, -wire.EnrollWindow - time.Second} {
		q := s.application("box", newKey(t))
		q.Time = q.Time.Add(off)
		s.want(off.String(), s.register(c, encode(t, q)), http.StatusUnauthorized, wire.CodeClockSkew)
	}
	q := s.application("box", newKey(t))
	q.Time = q.Time.Add(wire.EnrollWindow)
	raw := encode(t, q)
	if a := s.register(c, raw); a.status != http.StatusCreated {
		t.Errorf("five minutes: got %d %s", a.status, a.body)
	}
	s.want("the same bytes again", s.register(c, raw), http.StatusUnauthorized, wire.CodeReplayed)
}

// TestPlaintextSecrets: whoever sends the secret itself is told so, and nothing repeats it.
func TestPlaintextSecrets(t *testing.T) {
	s := newSite(t, nil)
	secret, row, err := s.bootstrap.MintToken(t.Context(), api.TokenRequest{}, operator)
	if err != nil {
		t.Fatal(err)
	}
	key, err := sign.EnrollKey(secret.Secret)
	if err != nil {
		t.Fatal(err)
	}
	whole := secret.Reveal()
	good := encode(t, s.application("box", newKey(t)))
	mac := sign.Authorization(row.ID, key, good)
	for _, c := range []struct{ name, query, body, header, value string }{
		{"the trail's header", "", string(good), "X-Cluster-Token", "hunter2hunter2hunter2"},
		{"the trail's header beside a proof", "", string(good), "X-Cluster-Token", whole},
		{"a bearer", "", string(good), "Authorization", "Bearer " + whole},
		{"a bearer of a bootstrap token", "", string(good), "Authorization",
			"Bearer msb_abcdefghijkl_0123456789012345678901." + strings.Repeat("x", 28)},
		{"the token where its id belongs", "", string(good), "Authorization", strings.Replace(mac, row.ID, whole, 1)},
		{"a query", "?token=" + whole, string(good), "Authorization", mac},
		{"a token in the body", "", `{"token":"` + whole + `"}`, "", ""},
		{"a cluster token in the body", "", `{"name":"box","cluster_token":"hunter2"}`, "", ""},
		{"a PSK in the body", "", `{"psk":"hunter2"}`, "", ""},
		{"a bootstrap token in the body", "", `{"bootstrap_token":"hunter2"}`, "", ""},
		{"a token in any member", "", `{"x":[{"y":"` + whole + `"}]}`, "", ""},
		{"a token in a form", "", "t=" + whole, "", ""},
		{"a token in the body beside a bearer", "", `{"token":"` + whole + `"}`, "Authorization", "Bearer x"},
		{"a token in the body beside an unknown one", "", `{"token":"` + whole + `"}`, "Authorization",
			sign.Authorization("msb_none1234", key, nil)},
		{"a bearer in base64", "", string(good), "Authorization", "Bearer " + base64.StdEncoding.EncodeToString([]byte(whole))},
	} {
		r := newRequest(t, http.MethodPost, s.plain.URL+wire.PathRegister+c.query, []byte(c.body))
		if c.header != "" {
			r.Header.Set(c.header, c.value)
		}
		a := s.do(http.DefaultClient, r)
		s.want(c.name, a, http.StatusBadRequest, wire.CodePlaintextSecret)
		if strings.Contains(string(a.body), secret.Secret[:8]) {
			t.Errorf("%s: the answer repeats the secret", c.name)
		}
	}
	body := encode(t, map[string]any{"name": "box", "nonce": newNonce(), "time": start, "token": whole})
	s.want("beside a proof", s.register(credential{row.ID, key}, body), http.StatusBadRequest, wire.CodePlaintextSecret)
	whose := 0
	for _, e := range s.events("bootstrap.refused") {
		if e.Outcome == wire.CodePlaintextSecret && e.Detail["token"] == row.ID && e.Tenant == row.Tenant && e.Address == "127.0.0.1" {
			whose++
		}
	}
	if all := len(s.events("bootstrap.refused")); all != 16 || whose != 11 {
		t.Errorf("%d events, %d of them say whose token it was", all, whose)
	}
}

// TestPlaintextBesideAWrongProof: a wrong proof hides no token.
func TestPlaintextBesideAWrongProof(t *testing.T) {
	s := newSite(t, nil)
	live, row, err := s.bootstrap.MintToken(t.Context(), api.TokenRequest{}, operator)
	if err != nil {
		t.Fatal(err)
	}
	other := s.token(nil)
	body := []byte(`{"nonce":"` + newNonce() + `","token":"` + live.Reveal() + `"}`)
	wrong := func(r *http.Request) {
		r.Header.Set("Authorization", sign.Authorization(other.id, make([]byte, 32), body))
	}
	for _, body := range [][]byte{body, bytes.Replace(body, []byte("mse_"), []byte(`m\u0073e_`), 1)} {
		s.want("a wrong proof", s.register(other, body, wrong), http.StatusUnauthorized, wire.CodeBadMAC)
	}
	e := s.events("bootstrap.refused")
	if len(e) != 2 || e[1].Outcome != wire.CodePlaintextSecret || e[1].Detail["token"] != row.ID || e[1].Tenant != row.Tenant ||
		len(s.events("enrol.refused")) != 1 {
		t.Errorf("events: %+v", e)
	}
	s.want("no secret", s.register(other, []byte(`{"nonce":"`+newNonce()+`"}`), wrong), http.StatusUnauthorized, wire.CodeBadMAC)
	if got := s.events("bootstrap.refused"); len(got) != 2 {
		t.Errorf("events: %+v", got)
	}
}

// on names a provider and its instance in a register request.
func on(provider, instance string) func(*wire.RegisterRequest) {
	return func(q *wire.RegisterRequest) {
		q.Provider = provider
		q.InstanceID = instance
	}
}

// TestTokensAsNames: a token is refused in every field that everybody is shown.
func TestTokensAsNames(t *testing.T) {
	s := newSite(t, nil)
	whole, _, err := s.bootstrap.MintToken(t.Context(), api.TokenRequest{}, operator)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{whole.Public(): wire.CodeBadName, "msb_x": wire.CodeBadName,
		"x-" + whole.Reveal(): wire.CodeBadName} {
		a := s.register(s.token(nil), encode(t, s.application(name, newKey(t))))
		s.want(name, a, http.StatusBadRequest, want)
		if strings.Contains(string(a.body), whole.Secret) {
			t.Errorf("repeated: %s", a.body)
		}
	}
	q := s.application("box", newKey(t))
	q.Labels = map[string]string{"a": whole.Reveal()}
	s.want("a label", s.register(s.token(nil), encode(t, q)), http.StatusBadRequest, wire.CodeBadLabel)
	if e := s.events("bootstrap.refused"); len(e) != 2 || e[0].Outcome != wire.CodePlaintextSecret || e[0].Detail["token"] != whole.Public() {
		t.Errorf("events: %+v", e)
	}
	for name, change := range map[string]func(*wire.RegisterRequest){
		"provider":     on("msb_x", "1"),
		"instance":     on("vast_ai", "mse_ab12"),
		"version":      func(q *wire.RegisterRequest) { q.Agent.Version = "v1-mse_ab12_x" },
		"system":       func(q *wire.RegisterRequest) { q.Agent.OS = "msa_ab12" },
		"architecture": func(q *wire.RegisterRequest) { q.Agent.Arch = "msb_ab12" },
	} {
		q := s.application("box", newKey(t))
		change(&q)
		a := s.register(s.token(nil), encode(t, q))
		if s.want(name, a, http.StatusBadRequest, wire.CodeBadRequest); !strings.Contains(a.Error.Error.Message, "looks like a token") {
			t.Errorf("%s: %s", name, a.body)
		}
	}
	q = s.application("box", newKey(t))
	q.Labels = map[string]string{"joined_by": whole.Public()}
	if a := s.register(s.token(nil), encode(t, q)); a.status != http.StatusCreated {
		t.Errorf("a public part: got %d %s", a.status, a.body)
	}
}

func TestAuthorization(t *testing.T) {
	s := newSite(t, nil)
	c := s.token(nil)
	raw := encode(t, s.application("box", newKey(t)))
	right := sign.Authorization(c.id, c.key, raw)
	for _, values := range [][]string{
		nil, {""}, {"Basic eDp5"}, {"Bearer hunter2"}, {right, right}, {right[:len(right)-3]}, {strings.Replace(right, "mac=", "max=", 1)},
		{`Muster credential="../../etc", mac="AAAA"`},
	} {
		r := newRequest(t, http.MethodPost, s.plain.URL+wire.PathRegister, raw)
		r.Header["Authorization"] = values
		s.want(strings.Join(values, " | "), s.do(http.DefaultClient, r), http.StatusUnauthorized, wire.CodeBadAuthorization)
	}
}

// TestOwnKeySignsToo: a machine that kept its identity takes its own name over, over HTTP.
func TestOwnKeySignsToo(t *testing.T) {
	s := newSite(t, nil)
	n := s.enrol("box")
	stranger := s.enrol("stranger")
	s.plainly(n, wire.HeartbeatPath(n.id), beat(1))
	ask := func(by *node, when time.Time, nonceEpoch string, tamper ...func(*http.Request)) answer {
		body := encode(t, s.application("box", newKey(t)))
		return s.register(s.token(nil), body, append([]func(*http.Request){func(r *http.Request) {
			if by == nil {
				return
			}
			if _, err := by.signer.Sign(r, body, nonceEpoch, when); err != nil {
				t.Fatal(err)
			}
		}}, tamper...)...)
	}
	now := s.clock.Now()
	s.want("without a signature", ask(nil, now, ""), http.StatusConflict, wire.CodeNameInUse)
	s.want("with another node's", ask(&stranger, now, epoch), http.StatusConflict, wire.CodeNameInUse)
	s.want("with a wrong clock", ask(&n, now.Add(time.Hour), epoch), http.StatusUnauthorized, wire.CodeClockSkew)
	s.want("of another start", ask(&n, now, "another"), http.StatusUnauthorized, wire.CodeStaleNonce)
	forged := node{signer: sign.Signer{Key: newKey(t), Fingerprint: n.signer.Fingerprint}}
	s.want("with a forged one", ask(&forged, now, epoch), http.StatusUnauthorized, wire.CodeBadSignature)
	unknown := node{signer: sign.Signer{Key: newKey(t), Fingerprint: strings.Repeat("0", 64)}}
	s.want("with one that is not on record", ask(&unknown, now, epoch), http.StatusConflict, wire.CodeNameInUse)
	garbled := func(r *http.Request) { r.Header.Set("Signature-Input", "muster=(") }
	s.want("with one that cannot be read", ask(&n, now, epoch, garbled), http.StatusUnauthorized, wire.CodeBadSignature)
	other := func(r *http.Request) { r.Header.Set("Content-Digest", sign.ContentDigest(nil)) }
	s.want("over another body", ask(&n, now, epoch, other), http.StatusUnauthorized, wire.CodeBadSignature)
	caught := func(r *http.Request) { // one that is good, for a body that is not this
		if _, err := n.signer.Sign(r, beat(1), epoch, now); err != nil {
			t.Fatal(err)
		}
	}
	s.want("with one of another request", ask(nil, now, "", caught), http.StatusConflict, wire.CodeNameInUse)
	a := ask(&n, now, epoch)
	if w := s.welcome(a); a.status != http.StatusOK || w.NodeID != n.id || w.Generation != 1 {
		t.Errorf("with its own: got %d %s", a.status, a.body)
	}
	s.want("the identity before", s.plainly(n, wire.HeartbeatPath(n.id), beat(2)), http.StatusForbidden, wire.CodeSuperseded)
	s.want("which cannot take it back", ask(&n, now, epoch), http.StatusConflict, wire.CodeNameInUse)
}
