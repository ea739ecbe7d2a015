package main

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"muster/agent/sign"
	"muster/agent/wire"
)

// applicant is the wire side of one agent, small enough for a test to run hundreds of them.
type applicant struct {
	client *http.Client
	url    string
	token  sign.Token
	key    *ecdsa.PrivateKey
	csr    string
	name   string

	nodeID, epoch string
	signer        sign.Signer
	certificate   tls.Certificate
}

func newApplicant(t *testing.T, client *http.Client, url, token, name string) *applicant {
	t.Helper()
	parsed, err := sign.ParseToken(token)
	if err != nil {
		t.Fatal(err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: name}}, key)
	if err != nil {
		t.Fatal(err)
	}
	csr := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}))
	return &applicant{client: client, url: url, token: parsed, key: key, csr: csr, name: name}
}

// register tries once and tells whether the gateway acknowledged, with a proof.
func (a *applicant) register() error {
	nonce := make([]byte, 16)
	rand.Read(nonce)
	q := wire.RegisterRequest{Protocol: wire.ProtocolVersion, Name: a.name, Nonce: b64(nonce), Time: time.Now(), CSR: a.csr,
		Agent: wire.AgentInfo{Version: "test", OS: "linux", Arch: "amd64"}}
	body, err := json.Marshal(q)
	if err != nil {
		return err
	}
	key, err := sign.EnrollKey(a.token.Secret)
	if err != nil {
		return err
	}
	r, err := http.NewRequest("POST", a.url+wire.PathRegister, bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Authorization", sign.Authorization(a.token.Public(), key, body))
	status, header, answer, err := a.do(r)
	if err != nil {
		return err
	}
	if err := sign.VerifyWelcome(header.Get(wire.HeaderProof), key, q.Nonce, status, answer); err != nil {
		return err
	}
	if status >= 300 {
		return fmt.Errorf("refused: %s", answer)
	}
	var w wire.Welcome
	if err := json.Unmarshal(answer, &w); err != nil {
		return err
	}
	block, _ := pem.Decode([]byte(w.Certificate))
	sum := sha256.Sum256(block.Bytes)
	a.nodeID = w.NodeID
	a.epoch = w.Epoch
	a.signer = sign.Signer{Key: a.key, Fingerprint: hex.EncodeToString(sum[:])}
	a.certificate = tls.Certificate{Certificate: [][]byte{block.Bytes}, PrivateKey: a.key}
	return nil
}

// beat sends one signed heartbeat; a gateway that was started again gives its new epoch and the next one fits.
func (a *applicant) beat(counter uint64) error {
	body, err := json.Marshal(wire.HeartbeatRequest{RunID: "run-" + a.nodeID, Counter: counter, IntervalSeconds: 1})
	if err != nil {
		return err
	}
	r, err := http.NewRequest("POST", a.url+wire.HeartbeatPath(a.nodeID), bytes.NewReader(body))
	if err != nil {
		return err
	}
	if _, err := a.signer.Sign(r, body, a.epoch, time.Now()); err != nil {
		return err
	}
	status, header, answer, err := a.do(r)
	if err != nil {
		return err
	}
	a.epoch = header.Get(wire.HeaderEpoch)
	if status != http.StatusOK {
		return fmt.Errorf("refused: %s", answer)
	}
	return nil
}

func (a *applicant) do(r *http.Request) (int, http.Header, []byte, error) {
	answer, err := a.client.Do(r)
	if err != nil {
		return 0, nil, nil, err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	return answer.StatusCode, answer.Header, body, err
}

func b64(b []byte) string {
	text, _ := json.Marshal(b)
	return string(text[1 : len(text)-1])
}

// TestKill: the gateway is killed in the middle of 200 concurrent registrations and heartbeats, three times over. Every
// acknowledged registration is there afterwards, no use was taken twice, and everyone goes on with what they have.
func TestKill(t *testing.T) {
	const total = 200
	h := newHouse(t)
	token := h.token("--uses", fmt.Sprint(total))
	real := h.agent("real", h.token(), "--no-gpu")
	h.until("the real agent is online", func() bool { return h.online("real") })
	client := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, MaxIdleConnsPerHost: total, // the handshake proves the gateway
	}}
	var acknowledged, beats atomic.Int64
	var wait sync.WaitGroup
	stop := make(chan struct{})
	applicants := make([]*applicant, total)
	for i := range applicants {
		applicants[i] = newApplicant(t, client, h.url, token, fmt.Sprintf("crash-%03d", i))
	}
	for _, a := range applicants {
		wait.Go(func() { a.live(&acknowledged, &beats, stop) })
	}
	for _, at := range []int64{20, 90, 170} {
		h.until("some are acknowledged", func() bool { return acknowledged.Load() >= at })
		h.gateway.kill()
		h.open()
	}
	h.until("all are acknowledged", func() bool { return acknowledged.Load() == total })
	before := beats.Load()
	h.until("heartbeats go on", func() bool { return beats.Load() > before+total })
	close(stop)
	wait.Wait()
	h.gateway.kill()
	h.open()
	known := map[string]string{}
	for _, n := range h.nodes("--all") {
		known[n.Name] = n.ID
	}
	if len(known) != total+1 {
		t.Errorf("%d nodes, want %d", len(known), total+1)
	}
	for _, a := range applicants {
		if known[a.name] != a.nodeID {
			t.Errorf("%s was acknowledged as %s and is %q now", a.name, a.nodeID, known[a.name])
		}
	}
	late := newApplicant(t, client, h.url, token, "late")
	if err := late.register(); err == nil {
		t.Error("the token gave more uses than it had")
	}
	h.until("the real agent is online again", func() bool { return h.online("real") })
	if !alive(real) {
		t.Error("the real agent ended")
	}
}

// live registers until it is acknowledged, then reports until stop.
func (a *applicant) live(acknowledged, beats *atomic.Int64, stop <-chan struct{}) {
	registered := false
	counter := uint64(0)
	pause := 20 * time.Millisecond
	for {
		select {
		case <-stop:
			return
		case <-time.After(pause): // the other side is a process that is dead for a while
		}
		if !registered {
			if registered = a.register() == nil; registered {
				acknowledged.Add(1)
				pause = 200 * time.Millisecond // all of them are 1,000 heartbeats a second: some are always under way, and others get on
			}
			continue
		}
		counter++
		if a.beat(counter) == nil {
			beats.Add(1)
		}
	}
}
