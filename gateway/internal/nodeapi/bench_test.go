package nodeapi_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"muster/agent/sign"
	"muster/agent/wire"
	"muster/gateway/api"
)

// BenchmarkHeartbeat is what one heartbeat over mTLS costs behind the connection.
func BenchmarkHeartbeat(b *testing.B) {
	for _, gpus := range []int{1, 8} {
		b.Run(fmt.Sprintf("%d GPUs", gpus), func(b *testing.B) { benchHeartbeat(b, gpus) })
	}
}

func benchHeartbeat(b *testing.B, gpus int) {
	s := newSite(b, nil)
	n := s.enrol("box")
	proof := &tls.ConnectionState{PeerCertificates: []*x509.Certificate{leaf(b, n.chain)}}
	hardware := encode(b, healthy(gpus))
	b.ReportAllocs()
	for counter := 1; b.Loop(); counter++ {
		body := fmt.Sprintf(`{"run_id":"0123456789abcdef","counter":%d,"interval_seconds":30,"skew_ms":0,`+
			`"agent":{"version":"v1","os":"linux","arch":"amd64"},`+
			`"cost":{"rss_kib":6400,"cpu_ms":250,"probe_ms":41},"health":[],"gpus_seen":%d,"hardware":%s}`, counter, gpus, hardware)
		r := newRequest(b, http.MethodPost, wire.HeartbeatPath(n.id), []byte(body))
		r.RemoteAddr = "127.0.0.1:1"
		r.TLS = proof
		w := httptest.NewRecorder()
		if s.handler.ServeHTTP(w, r); w.Code != http.StatusOK {
			b.Fatalf("got %d: %s", w.Code, w.Body)
		}
	}
}

// healthy is a healthy reading as an agent sends it.
func healthy(gpus int) wire.Hardware {
	used := int64(39233)
	percent := 99.0
	cpus := 64
	state := 0
	ok := true
	sampled := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	h := wire.Hardware{Probe: wire.Probe{State: wire.ProbeOK, TookMS: &used, SampledAt: &sampled}, CPUs: &cpus, MemoryTotalMiB: &used,
		GPUs: []wire.GPU{}}
	for i := range gpus {
		h.GPUs = append(h.GPUs, wire.GPU{Index: i, UUID: fmt.Sprintf("GPU-5ca1ab1e-0000-4000-8000-%012d", i), Name: "NVIDIA H100 80GB HBM3",
			BusID: fmt.Sprintf("00000000:%02X:00.0", i), MemoryTotalMiB: &used, MemoryUsedMiB: &used, MemoryFreeMiB: &used, MemoryReservedMiB: &used,
			MemorySource: wire.MemoryDevice, UtilizationPercent: &percent, MemoryUtilizationPercent: &percent, TemperatureCelsius: &percent,
			PowerWatts: &percent, PowerLimitWatts: &percent, PerformanceState: &state, PersistenceMode: &ok,
			Clocks:       &wire.Clocks{SMMHz: &used, MemoryMHz: &used, Reasons: []string{"sw_power_cap"}},
			PCIe:         &wire.PCIe{Generation: &cpus, Width: &cpus},
			ECC:          &wire.ECC{Enabled: &ok, CorrectedVolatile: &used, UncorrectedVolatile: &used},
			RemappedRows: &wire.Remaps{Correctable: &used, Pending: &ok},
			MIG:          &ok, MIGInstances: []wire.MIGInstance{}, Processes: &wire.Processes{Count: &cpus, MemoryUsedMiB: &used},
			Health: []string{}})
	}
	return h
}

// BenchmarkRegister is what one enrolment costs behind the connection: proof, CSR, certificate, one durable batch.
func BenchmarkRegister(b *testing.B) {
	s := newSite(b, nil)
	c := s.token(func(q *api.TokenRequest) { q.Uses = 100_000 })
	requests := make([]*http.Request, b.N)
	for i := range requests {
		body := encode(b, s.application(fmt.Sprintf("box-%06d", i), newKey(b)))
		requests[i] = newRequest(b, http.MethodPost, wire.PathRegister, body)
		requests[i].RemoteAddr = "127.0.0.1:1"
		requests[i].Header.Set("Authorization", sign.Authorization(c.id, c.key, body))
	}
	s.crowd(b, requests, http.StatusCreated)
}

// BenchmarkRenew is what one renewal by signature costs behind the connection.
func BenchmarkRenew(b *testing.B) {
	s := newSite(b, nil)
	requests := make([]*http.Request, b.N)
	c := s.token(func(q *api.TokenRequest) { q.Uses = 100_000 })
	for i := range requests {
		name := fmt.Sprintf("box-%06d", i)
		key := newKey(b)
		w, signer := s.benchNode(b, c, name, key)
		body, err := json.Marshal(wire.RenewRequest{CSR: newCSR(b, newKey(b), x509.CertificateRequest{Subject: pkix.Name{CommonName: w.NodeID}})})
		if err != nil {
			b.Fatal(err)
		}
		requests[i] = newRequest(b, http.MethodPost, wire.RenewPath(w.NodeID), body)
		requests[i].RemoteAddr = "127.0.0.1:1"
		if _, err := signer.Sign(requests[i], body, epoch, s.clock.Now()); err != nil {
			b.Fatal(err)
		}
	}
	s.crowd(b, requests, http.StatusOK)
}

// crowd sends the requests from 16 callers a core.
func (s *site) crowd(b *testing.B, requests []*http.Request, want int) {
	b.Helper()
	var next atomic.Int64
	b.SetParallelism(16)
	b.ReportAllocs()
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			w := httptest.NewRecorder()
			s.handler.ServeHTTP(w, requests[next.Add(1)-1])
			if w.Code != want {
				b.Errorf("got %d: %s", w.Code, w.Body)
			}
		}
	})
}

func (s *site) benchNode(b *testing.B, c credential, name string, key *ecdsa.PrivateKey) (wire.Welcome, sign.Signer) {
	b.Helper()
	body := encode(b, s.application(name, key))
	r := newRequest(b, http.MethodPost, wire.PathRegister, body)
	r.RemoteAddr = "127.0.0.1:1"
	r.Header.Set("Authorization", sign.Authorization(c.id, c.key, body))
	w := httptest.NewRecorder()
	s.handler.ServeHTTP(w, r)
	var welcome wire.Welcome
	if err := json.Unmarshal(bytes.TrimSpace(w.Body.Bytes()), &welcome); err != nil || w.Code != http.StatusCreated {
		b.Fatalf("%d %s: %v", w.Code, w.Body, err)
	}
	return welcome, sign.Signer{Key: key, Fingerprint: fingerprint(b, welcome.Certificate)}
}
