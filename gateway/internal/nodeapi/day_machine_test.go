package nodeapi_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"muster/agent/sign"
	"muster/agent/wire"
	"muster/gateway/internal/authority"
	"muster/gateway/internal/fleet"
	"muster/store"
)

// machine is one box: what is on its disk, its clock, its line.
type machine struct {
	*world
	name    string
	random  *rand.Rand
	disk    disk
	line    sync.Mutex
	cut     bool
	off     time.Duration // its clock is off by so much
	mutual  bool          // it shows its certificate instead of signing
	lost    int           // requests that did not get through, or whose answer did not
	stray   int           // requests that arrived after their sender had died
	renewed int
}

// disk outlives the agent.
type disk struct {
	id      string
	current pair
	pending *ecdsa.PrivateKey
}

type pair struct {
	key    *ecdsa.PrivateKey
	chain  string
	issued time.Time
	ends   time.Time
}

func (w *world) machine(i int) *machine {
	w.t.Helper()
	m := &machine{world: w, name: fmt.Sprintf("box%02d", i), random: rand.New(rand.NewPCG(uint64(i), 7)), mutual: i%2 == 0}
	key := newKey(w.t)
	public, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		w.t.Fatal(err)
	}
	token := store.Token{ID: "mse_" + m.name, Tenant: "default", Uses: 1, Key: []byte{1}, CreatedAt: time.Now(),
		ExpiresAt: time.Now().Add(time.Hour)}
	if err := w.store.CreateToken(w.t.Context(), token); err != nil {
		w.t.Fatal(err)
	}
	ad, err := w.fleet.Enrol(w.t.Context(), fleet.Applicant{
		Credential: token, KeyHash: authority.KeyHash(public), Request: &wire.RegisterRequest{Name: m.name},
		Issue: func(ctx context.Context, id string) (store.Certificate, error) {
			return w.ca.Issue(ctx, authority.Request{NodeID: id,
				CSR: &x509.CertificateRequest{PublicKey: &key.PublicKey, RawSubjectPublicKeyInfo: public}})
		},
	})
	if err != nil {
		w.t.Fatal(err)
	}
	m.disk.id = ad.Node.ID
	m.disk.current = newPair(w.t, key, ad.Certificate.Chain)
	return m
}

func newPair(t *testing.T, key *ecdsa.PrivateKey, chain string) pair {
	c := leaf(t, chain)
	return pair{key: key, chain: chain, issued: c.NotBefore.Add(wire.Backdate), ends: c.NotAfter}
}

func (m *machine) clock() time.Time {
	m.line.Lock()
	defer m.line.Unlock()
	return time.Now().Add(m.off)
}

func (m *machine) set(cut bool, off time.Duration) {
	m.line.Lock()
	defer m.line.Unlock()
	m.cut = cut
	m.off = off
}

func (m *machine) down() bool {
	m.line.Lock()
	defer m.line.Unlock()
	return m.cut
}

// agent is one run of the agent on a machine, with the rules of the real one.
type agent struct {
	*machine
	run     string
	counter uint64
	epoch   string
	offset  time.Duration
	renewAt time.Time
	failed  int
}

// work runs an agent until it is killed. A request that is under way then may still arrive, up to a minute later.
func (m *machine) work(ctx context.Context, killed func() bool) {
	a := &agent{machine: m, run: fmt.Sprintf("%s-%08x", m.name, m.random.Uint32())}
	a.plan()
	for ctx.Err() == nil && !killed() {
		wait := dayPace - dayPace/10 + time.Duration(m.random.Int64N(int64(dayPace/5)))
		if err := a.turn(ctx); err != nil {
			a.failed++
			wait = time.Duration(m.random.Int64N(int64(min(2*time.Second<<min(a.failed, 8), 5*time.Minute))))
		} else {
			a.failed = 0
		}
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
	}
	if ctx.Err() == nil && m.random.IntN(2) == 0 {
		m.stray++
		a.late(time.Duration(m.random.Int64N(int64(55 * time.Second))))
	}
}

func (a *agent) plan() {
	life := a.disk.current.ends.Sub(a.disk.current.issued)
	a.renewAt = a.disk.current.issued.Add(life*2/3 - time.Duration(a.random.Int64N(int64(life/20))))
}

// turn renews where that is due, and sends a heartbeat with what there is then.
func (a *agent) turn(ctx context.Context) error {
	if now := a.clock().Add(a.offset); !now.Before(a.renewAt) {
		if err := a.renew(ctx); err != nil {
			return err
		}
	}
	_, err := a.call(ctx, wire.HeartbeatPath(a.disk.id), a.beat())
	return err
}

func (a *agent) beat() []byte {
	a.counter++
	return encode(a.t, wire.HeartbeatRequest{RunID: a.run, Counter: a.counter, IntervalSeconds: dayPace.Seconds(),
		SkewMillis: a.offset.Milliseconds()})
}

func (a *agent) renew(ctx context.Context) error {
	if a.disk.pending == nil {
		a.disk.pending = newKey(a.t)
	}
	body, err := a.call(ctx, wire.RenewPath(a.disk.id),
		encode(a.t, wire.RenewRequest{CSR: newCSR(a.t, a.disk.pending, x509.CertificateRequest{})}))
	if err != nil {
		return err
	}
	var answer wire.RenewAnswer
	if err := json.Unmarshal(body, &answer); err != nil {
		return err
	}
	a.disk.current = newPair(a.t, a.disk.pending, answer.Certificate)
	a.disk.pending = nil
	a.renewed++
	a.plan()
	return nil
}

// call sends a request until the gateway takes it as signed. The line may swallow it, or its answer.
func (a *agent) call(ctx context.Context, path string, body []byte) ([]byte, error) {
	for range 4 {
		if a.down() && a.random.IntN(2) == 0 {
			a.lost++
			return nil, fmt.Errorf("not sent")
		}
		status, answer, err := a.send(ctx, path, body)
		if err != nil {
			return nil, err
		}
		if a.down() || a.random.IntN(200) == 0 {
			a.lost++
			return nil, fmt.Errorf("no answer")
		}
		var said struct {
			wire.Error
			Time  *time.Time `json:"time"`
			Epoch string     `json:"epoch"`
		}
		if err := json.Unmarshal(answer, &said); err != nil {
			return nil, err
		}
		if said.Time != nil {
			a.offset = said.Time.Sub(a.clock())
		}
		if said.Epoch != "" {
			a.epoch = said.Epoch
		}
		switch code := said.Error.Error.Code; {
		case status == http.StatusOK:
			return answer, nil
		case code == wire.CodeClockSkew || code == wire.CodeStaleNonce:
			continue
		case code == wire.CodeExpired:
			a.renewAt = time.Time{}
			return nil, fmt.Errorf("refused: %s", code)
		case code == wire.CodeKeyInUse:
			a.disk.pending = nil
			return nil, fmt.Errorf("refused: %s", code)
		default:
			a.t.Errorf("%s at %s: refused: %s", a.name, time.Now().Format(time.TimeOnly), answer)
			return nil, fmt.Errorf("refused: %s", code)
		}
	}
	return nil, fmt.Errorf("refused four times")
}

// request proves a request as the machine does.
func (a *agent) request(ctx context.Context, path string, body []byte) *http.Request {
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, path, bytes.NewReader(body))
	if a.mutual {
		r.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{leaf(a.t, a.disk.current.chain)}}
		return r
	}
	signer := sign.Signer{Key: a.disk.current.key, Fingerprint: fingerprint(a.t, a.disk.current.chain)}
	if _, err := signer.Sign(r, body, a.epoch, a.clock().Add(a.offset)); err != nil {
		a.t.Error(err)
	}
	return r
}

func (a *agent) send(ctx context.Context, path string, body []byte) (int, []byte, error) {
	handler, _ := a.now()
	if handler == nil {
		a.lost++
		return 0, nil, fmt.Errorf("connection refused")
	}
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, a.request(ctx, path, body))
	return w.Code, w.Body.Bytes(), nil
}

// late delivers a last heartbeat after its sender has died; nobody reads the answer.
func (a *agent) late(after time.Duration) {
	r := a.request(context.Background(), wire.HeartbeatPath(a.disk.id), a.beat())
	time.AfterFunc(after, func() {
		if handler, _ := a.now(); handler != nil {
			handler.ServeHTTP(httptest.NewRecorder(), r)
		}
	})
}

// live is a machine's day: it is restarted, cut off, switched off, and somebody sets its clock.
func (m *machine) live(ctx context.Context) {
	for ctx.Err() == nil {
		switch m.random.IntN(6) {
		case 0:
			m.set(true, m.off)
		case 1:
			m.set(false, time.Duration(m.random.Int64N(int64(6*time.Hour)))-3*time.Hour)
		case 2:
			m.set(false, time.Duration(m.random.Int64N(int64(40*time.Second)))-20*time.Second)
		default:
			m.set(false, m.off)
		}
		until := time.Now().Add(time.Minute + time.Duration(m.random.Int64N(int64(100*time.Minute))))
		m.work(ctx, func() bool { return time.Now().After(until) })
		pause := time.Duration(m.random.Int64N(int64(5 * time.Second)))
		if m.random.IntN(8) == 0 {
			pause = time.Duration(m.random.Int64N(int64(5 * time.Hour)))
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}
