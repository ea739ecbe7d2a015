package nodeapi

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"
)

// FuzzGlance holds what is read of an unproven body against encoding/json.
func FuzzGlance(f *testing.F) {
	for _, seed := range []string{
		`{"protocol":1,"name":"box","nonce":"AAAAAAAAAAAAAAAAAAAAAA==","time":"2026-11-21T12:00:00Z","csr":"x","hardware":{"nonce":"b"}}`,
		`{"nonce":"a","Nonce":"b"}`, `{"nonce":"a","nonce":"b"}`, `{"nonce":"a","nonce":null}`, `{"nonce":"\u0061","name":1}`,
		`{"nonce":"a","token":"x"}`, `{"nonce":"a","TOKEN":"x"}`, `{"nonce":"a","cluster_token":null}`, `{"nonce":"a","p\u0073k":"x"}`,
		`{"nonce":"` + strings.Repeat("a", 65) + `"}`, `{"nonce":1}`, `{"nonce":"a"} x`,
		`{"nonce":"a","bootstrap_token":"x"}`, `{"nonce":"a","labels":{"x":"msb_abcdefghijkl_0123456789012345678901.x"}}`, `{"nonce":"a","name":"m\u0073b_abcdefghijkl_0123456789012345678901"}`,
		`{"nonce":"a","name":"mse_ab12"}`, `{"nonce":"m\u0073e_abcdefghijkl_0123456789"}`, `{"nonce":"a"`, `[]`, "{\"nonce\":\"\xff\"}", "",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		nonce, secret := glance(body)
		if wantNonce, wantSecret := nonceOf(body), carriesSecret(body); nonce != wantNonce || secret != wantSecret {
			t.Errorf("%q: %q, %v; encoding/json: %q, %v", body, nonce, secret, wantNonce, wantSecret)
		}
	})
}

// FuzzReadHeartbeat holds the shortcut against encoding/json, which has the word.
func FuzzReadHeartbeat(f *testing.F) {
	for _, seed := range []string{
		`{"run_id":"0123456789abcdef","counter":7,"interval_seconds":30,"hardware":{"probe":{"state":"ok"},"gpus":[{"index":0}]}}`,
		`{"counter":1,"Hardware":{"a":1},"hardware":{"b":2}}`,
		`{"counter":1,"h\u0061rdware":{"a":1},"hardware":{"b":2}}`,
		`{"counter":1,"hardware":null,"hardware":{"b":2}}`,
		`{"counter":1,"hardware":[[[[1.5e3,true,"x\n"]]]],"notices":["a"]}`,
		`{"counter":1,"notices":[],"health":[ ],"agent":null,"cost":{"a":{}}}`, `{"counter":1,"counter":2}`, `{"counter":1,"run_id":"\u0061"}`,
		`{"counter":1,"skew_ms":-3,"interval_seconds":1e400}`, `{"counter":-1}`, `{"counter":1,"agent":7,"other":1}`,
		`{"counter":1e2,"hardware":{}}`, `{"hardware":1}`, `{}`, `nul`, "",
		`{"health":null,"gpus_seen":8,"health_detail":{"gpu_missing":"GPU-1 at 3B"}}`, `{"health":null,"health":["a"]}`,
		`{"gpus_seen":1.0}`, `{"gpus_seen":-1}`, `{"gpus_seen":"8"}`, `{"gpus_seen":99999999999999999999}`, `{"health_detail":[]}`,
		`{"health_detail":{"a":"1","a":null}}`, `{"health_detail":{"a":1}}`, `{"gpus_seen":null}`, `{"counter":null}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		got, gotErr := readHeartbeat(bytes.Clone(body))
		var want heartbeat
		wantErr := decode(body, &want)
		if (gotErr == nil) != (wantErr == nil) {
			t.Fatalf("%q: %v, encoding/json: %v", body, gotErr, wantErr)
		}
		if gotErr != nil {
			return
		}
		got.scanned = false
		a, b := encoded(t, got), encoded(t, want)
		if !bytes.Equal(a, b) {
			t.Fatalf("%q: %s, encoding/json: %s", body, a, b)
		}
	})
}

// What this agent sends takes the short way, whether it has looked at the GPUs or not.
func TestTheUsualHeartbeatTakesTheShortWay(t *testing.T) {
	vector, err := os.ReadFile("../../../testdata/wire/heartbeat.json")
	if err != nil {
		t.Fatal(err)
	}
	b, ok := scanHeartbeat(vector)
	if !ok || b.GPUsSeen == nil || *b.GPUsSeen != 2 || len(b.Health) != 1 || b.HealthDetail[b.Health[0]] == "" {
		t.Errorf("the vector is read as %+v, %v", b, ok)
	}
	unlooked := []byte(`{"run_id":"0123456789abcdef","counter":1,"interval_seconds":30,"skew_ms":0,"agent":{},"cost":{},"health":null}`)
	if b, ok := scanHeartbeat(unlooked); !ok || b.Health != nil {
		t.Errorf("a heartbeat before the first look is read as %+v, %v", b, ok)
	}
}

func encoded(t *testing.T, b heartbeat) []byte {
	t.Helper()
	text, err := json.Marshal(b)
	if err != nil {
		t.Fatal(err)
	}
	return text
}
