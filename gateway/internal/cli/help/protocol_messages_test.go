package help_test

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/big"
	"net/url"
	"strings"
	"time"

	"muster/agent/sign"
	"muster/agent/wire"
	"muster/gateway/internal/reply"
)

// identity is a key with its certificate.
type identity struct {
	key  *ecdsa.PrivateKey
	leaf []byte // DER
}

func (id identity) fingerprint() string {
	sum := sha256.Sum256(id.leaf)
	return hex.EncodeToString(sum[:])
}

// chain is the PEM of the certificate and of what is between it and the root.
func (id identity) chain() string {
	return pemOf("CERTIFICATE", id.leaf) + pemOf("CERTIFICATE", intermediate().Raw)
}

// certify makes a certificate whose bytes are always the same.
func certify(template, parent *x509.Certificate, key, by *ecdsa.PrivateKey) *x509.Certificate {
	if parent == nil {
		parent = template
	}
	return must(x509.ParseCertificate(must(x509.CreateCertificate(nil, template, parent, &key.PublicKey, by))))
}

func authorityTemplate(name string, number int64, years int) *x509.Certificate {
	return &x509.Certificate{
		SerialNumber: big.NewInt(number), Subject: pkix.Name{CommonName: name},
		NotBefore: storyTime.AddDate(0, -1, 0), NotAfter: storyTime.AddDate(years, 0, 0),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
}

func root() *x509.Certificate {
	return certify(authorityTemplate("muster root", 1, 10), nil, p256("root"), p256("root"))
}

func intermediate() *x509.Certificate {
	return certify(authorityTemplate("muster intermediate", 2, 1), root(), p256("intermediate"), p256("root"))
}

// identityOf is the node's, of a generation.
func identityOf(generation int64) identity {
	key := p256(fmt.Sprintf("node %d", generation))
	issued := storyTime.Add(time.Duration(generation-1) * 16 * time.Hour)
	leaf := certify(&x509.Certificate{
		SerialNumber: big.NewInt(100 + generation), Subject: pkix.Name{CommonName: storyNode},
		NotBefore: issued.Add(-5 * time.Minute), NotAfter: issued.Add(24 * time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		BasicConstraintsValid: true, URIs: []*url.URL{{Scheme: "spiffe", Host: storyDomain, Path: "/node/" + storyNode}},
	}, intermediate(), key, p256("intermediate"))
	return identity{key: key, leaf: leaf.Raw}
}

func csrOf(key *ecdsa.PrivateKey) string {
	return pemOf("CERTIFICATE REQUEST", must(x509.CreateCertificateRequest(nil, &x509.CertificateRequest{}, key)))
}

func storyAgent() wire.AgentInfo {
	return wire.AgentInfo{Version: "0.1.0", OS: "linux", Arch: "amd64", Digest: "sha256:" + hex.EncodeToString(seed("agent"))}
}

func (s story) register() {
	token := storyToken(sign.EnrollmentToken)
	first := identityOf(1)
	body := encode(wire.RegisterRequest{
		Protocol: 1, Name: "vast-h100-39467543", Nonce: storyNonce, Time: storyTime, CSR: csrOf(first.key),
		Labels: map[string]string{"tier": "spot"}, Provider: "vast_ai", InstanceID: "39467543", Agent: storyAgent(),
	})
	proof := mac(enrollKey(token.Secret), "muster register v1\n"+string(body))
	s.examples["node-key"] = strings.TrimSpace(pemOf("PRIVATE KEY", must(x509.MarshalPKCS8PrivateKey(first.key))))
	s.examples["register-body"] = string(body)
	s.examples["register-request"] = requestHead(wire.PathRegister, body) +
		fmt.Sprintf(`Authorization: Muster credential="mse_%s", mac="%s"`, token.ID, proof)
	s.welcome("welcome-answer", "201 Created", reply.JSON(welcome(first)))
	s.welcome("register-refusal-answer", "401 Unauthorized", reply.JSON(refusal(wire.CodeClockSkew,
		"the request's time is off by 9m0s",
		"the answer carries the gateway's time: the agent corrects its clock and tries again by itself")))
}

// welcome adds an answer to the register request.
func (s story) welcome(name, status string, body []byte) {
	key := enrollKey(storyToken(sign.EnrollmentToken).Secret)
	s.respond(name, status, "Muster-Proof: "+mac(key, "muster welcome v1\n"+storyNonce+"\n"+status[:3]+"\n"+string(body)), body)
}

func welcome(id identity) wire.Welcome {
	return wire.Welcome{
		Protocol: 1, NodeID: storyNode, Enrolment: storyEnrolment, Name: "vast-h100-39467543", Tenant: "platform",
		Certificate: id.chain(), Generation: 1,
		Roots: pemOf("CERTIFICATE", root().Raw), TrustKey: edPublic("trust"), Trust: encode(envelope()), AnswerKey: edPublic("answer"),
		Epoch: storyEpoch, IntervalSeconds: 30, GPUsExpected: 1, Time: storyTime,
	}
}

func trustPayload() []byte {
	return encode(wire.TrustSet{
		Number: 1, IssuedAt: storyTime.AddDate(0, -1, 0), TrustDomain: storyDomain, TrustKey: edPublic("trust"),
		Roots: pemOf("CERTIFICATE", root().Raw), AnswerKeys: []string{edPublic("answer")},
		TaskKeys: []string{edPublic("task")}, ReleaseKeys: []string{edPublic("release")},
	})
}

// trustEncoding is what stands before the payload in what is signed.
func trustEncoding() string {
	const kind = "application/vnd.muster.trust+json"
	return fmt.Sprintf("DSSEv1 %d %s %d ", len(kind), kind, len(trustPayload()))
}

func envelope() sign.Envelope {
	id := sha256.Sum256(edKey("trust").Public().(ed25519.PublicKey))
	return sign.Envelope{
		Role: "trust", Payload: trustPayload(), KeyID: hex.EncodeToString(id[:8]),
		Signature: ed25519.Sign(edKey("trust"), append([]byte(trustEncoding()), trustPayload()...)),
	}
}

func (s story) trust() {
	s.examples["trust-payload"] = string(trustPayload())
	s.examples["trust-encoding"] = trustEncoding() + string(trustPayload()[:12])
	s.examples["trust-envelope"] = string(encode(envelope()))
}

func (s story) heartbeat() {
	body := encode(storyBeat())
	r := s.request("heartbeat", "/nodes/"+storyNode+"/heartbeat", storyEpoch, identityOf(1), body)
	s.examples["heartbeat-body"] = string(body)
	s.examples["heartbeat-base"] = r.base
	expected := 1
	s.examples["heartbeat-answer-text"] = s.answer("heartbeat-answer", r, "200 OK", wire.HeartbeatAnswer{
		IntervalSeconds: 30, State: "active", Epoch: storyEpoch, Time: storyTime, Trust: 1, GPUsExpected: &expected,
		Tasks: 1, Enrolment: storyEnrolment,
	})
}

func storyBeat() wire.HeartbeatRequest {
	rss := int64(9216)
	cpu := int64(340)
	seen := 1
	return wire.HeartbeatRequest{
		RunID: hex.EncodeToString(seed("run")[:16]), Counter: 1, IntervalSeconds: 30, SkewMillis: -12, Agent: storyAgent(),
		Cost: wire.Cost{RSSKiB: &rss, CPUMillis: &cpu}, Notices: []string{"no init system: the agent does not survive a restart"},
		Health: []string{}, GPUsSeen: &seen, Hardware: storyHardware(),
	}
}

func storyHardware() json.RawMessage {
	at := storyTime
	used := int64(39233)
	total := int64(81559)
	heat := 61.5
	driver := "570.86.15"
	return encode(wire.Hardware{
		Probe: wire.Probe{State: wire.ProbeOK, Since: &at, SampledAt: &at}, DriverVersion: &driver,
		GPUs: []wire.GPU{{
			UUID: "GPU-3f1c2a90-0000-4000-8000-0000000000a1", Name: "NVIDIA H100 80GB HBM3", BusID: "00000000:1A:00.0",
			MemoryTotalMiB: &total,
			MemoryUsedMiB:  &used, MemorySource: wire.MemoryDevice, TemperatureCelsius: &heat, Health: []string{},
		}},
	})
}

func (s story) renewal() {
	next := identityOf(2)
	s.at = storyTime.Add(16 * time.Hour)
	body := encode(wire.RenewRequest{CSR: csrOf(next.key)})
	r := s.request("renew", "/internal/v1/nodes/"+storyNode+"/renew", storyEpoch, identityOf(1), body)
	s.examples["renew-body"] = string(body)
	s.answer("renew-answer", r, "200 OK", wire.RenewAnswer{Certificate: next.chain(), Generation: 2, Time: s.at})
}

func (s story) leave() {
	s.examples["leave-body"] = "{}"
	r := s.request("leave", "/nodes/"+storyNode+"/leave", storyEpoch, identityOf(1), []byte("{}"))
	s.answer("leave-answer", r, "200 OK", wire.LeaveAnswer{State: "retired"})
}

func (s story) adopt() {
	s.at = storyTime.Add(17 * time.Hour)
	body := encode(wire.AdoptRequest{Certificate: identityOf(2).chain(), Generation: 2})
	r := s.request("adopt", "/internal/v1/nodes/"+storyNode+"/adopt", storyEpoch, identityOf(2), body)
	s.examples["adopt-body"] = string(body)
	s.answer("adopt-answer", r, "200 OK", wire.AdoptAnswer{Generation: 2, Time: s.at})
}

func (s story) staleNonce() {
	r := s.request("stale-nonce", "/nodes/"+storyNode+"/heartbeat", "0123456789abcdef", identityOf(1), encode(storyBeat()))
	s.answer("stale-nonce-answer", r, "401 Unauthorized", refusal(wire.CodeStaleNonce, "the nonce is of another start of this gateway",
		"the answer carries the right epoch: sign again"))
}
