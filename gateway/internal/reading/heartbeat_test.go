package reading_test

import (
	"bytes"
	"encoding/json"
	"muster/agent/wire"
	"muster/gateway/internal/reading"
	"os"
	"testing"
)

// FuzzParseHeartbeat: the one pass must read the same as encoding/json.
func FuzzParseHeartbeat(f *testing.F) {
	for _, seed := range []string{
		`{"run_id":"0123456789abcdef","counter":7,"interval_seconds":30,"hardware":{"probe":{"state":"ok"},"gpus":[{"index":0}]}}`,
		`{"counter":1,"Hardware":{"a":1},"hardware":{"b":2}}`,
		`{"counter":1,"h\u0061rdware":{"a":1},"hardware":{"b":2}}`,
		`{"counter":1,"hardware":null,"hardware":{"b":2}}`,
		`{"counter":1,"hardware":[[[[1.5e3,true,"x\n"]]]],"notices":["a"]}`,
		`{"counter":1,"notices":[],"health":[ ],"agent":null,"cost":{"a":{}}}`, `{"counter":1,"counter":2}`,
		`{"counter":1,"run_id":"\u0061"}`,
		`{"counter":1,"skew_ms":-3,"interval_seconds":1e400}`, `{"counter":-1}`, `{"counter":1,"agent":7,"other":1}`,
		`{"counter":1e2,"hardware":{}}`, `{"hardware":1}`, `{}`, `nul`, "",
		`{"health":null,"gpus_seen":8,"health_detail":{"gpu_count_dropped":"GPU-1 at 3B"}}`, `{"health":null,"health":["a"]}`,
		`{"gpus_seen":1.0}`, `{"gpus_seen":-1}`, `{"gpus_seen":"8"}`, `{"gpus_seen":99999999999999999999}`, `{"health_detail":[]}`,
		`{"update":{"channel":"stable","seq":3}}`, `{"update":{"seq":3,"seq":4}}`, `{"update":{"channel":"a","Channel":"b"}}`,
		`{"update":{"channel":"stable","seq":3,"phase":"trial","log":"a\\nb"}}`, `{"update":{}}`, `{"update":null}`, `{"update":[]}`,
		`{"update":{"seq":1.5}}`, `{"update":{"seq":1e400}}`, `{"update":{"channel":"\\u0061","seq":1}}`, `{"update":{"seq":null}}`,
		`{"update":{"seq":1},"update":{"channel":"a"}}`,
		`{"health_detail":{"a":"1","a":null}}`, `{"health_detail":{"a":1}}`, `{"gpus_seen":null}`, `{"counter":null}`,
		`{"unshipped":{"kernel":"no"}}`, `{"unshipped":{"a":"1","a":null}}`, `{"unshipped":["kernel"]}`, `{"unshipped":null}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		got, gotErr := reading.ParseHeartbeat(bytes.Clone(body))
		var want reading.Heartbeat
		wantErr := reading.Decode(body, &want)
		if (gotErr == nil) != (wantErr == nil) {
			t.Fatalf("%q: %v, encoding/json: %v", body, gotErr, wantErr)
		}
		if gotErr != nil {
			return
		}
		a, b := encoded(t, got), encoded(t, want)
		if !bytes.Equal(a, b) {
			t.Fatalf("%q: %s, encoding/json: %s", body, a, b)
		}
	})
}

// TestTheUsualHeartbeatTakesTheShortWay: one pass reads what muster agents send, whether they have looked at the GPUs or not.
func TestTheUsualHeartbeatTakesTheShortWay(t *testing.T) {
	vector, err := os.ReadFile("../../../testdata/wire/heartbeat.json")
	if err != nil {
		t.Fatal(err)
	}
	b, err := reading.ParseHeartbeat(vector)
	if err != nil || !b.Scanned || b.GPUsSeen == nil || *b.GPUsSeen != 2 || len(b.Health) != 1 || b.HealthDetail[b.Health[0]] == "" {
		t.Errorf("the vector is read as %+v, %v", b, err)
	}
	unlooked := []byte(`{"run_id":"0123456789abcdef","counter":1,"interval_seconds":30,"skew_ms":0,"agent":{},"cost":{},"health":null}`)
	if b, err := reading.ParseHeartbeat(unlooked); err != nil || !b.Scanned || b.Health != nil {
		t.Errorf("a heartbeat before the first look is read as %+v, %v", b, err)
	}
}

func encoded(t *testing.T, b reading.Heartbeat) []byte {
	t.Helper()
	text, err := json.Marshal(b)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestNonce(t *testing.T) {
	for body, want := range map[string]string{
		`{"protocol":1,"name":"box","nonce":"abc","agent":{}}`: "abc", `{"nonce":"a","nonce":"b"}`: "b", `{"nonce":"a","token":"x"}`: "-",
		`{"name":"box"}`: "-", `{"nonce":"\u0061"}`: "-", `{"nonce":"a"} x`: "-", `[]`: "-", "": "-",
	} {
		nonce, ok := reading.Nonce([]byte(body))
		if !ok {
			nonce = "-"
		}
		if nonce != want {
			t.Errorf("%s: got %s, want %s", body, nonce, want)
		}
	}
}

// TestUpdateTakesTheShortWay: what a heartbeat says about releases does not send it to encoding/json as a whole, whether an update is
// under way or not.
func TestUpdateTakesTheShortWay(t *testing.T) {
	for update, want := range map[string]wire.Update{
		`{"channel":"stable","seq":3}`: {Channel: "stable", Sequence: 3},
		`{"channel":"stable","seq":3,"about":4,"phase":"rolled_back","code":"crashed","log":"panic:\n\tat 1"}`: {Channel: "stable", Sequence: 3,
			About: 4, Phase: wire.UpdateRolledBack, Code: wire.UpdateCrashed, Log: "panic:\n\tat 1"},
		`{"seq":3,"log":"x"}`: {Sequence: 3, Log: "x"},
	} {
		body := `{"run_id":"0123456789abcdef","counter":1,"interval_seconds":30,"skew_ms":0,"agent":{},"cost":{},"health":[],"update":` +
			update + `}`
		b, err := reading.ParseHeartbeat([]byte(body))
		if err != nil || !b.Scanned || b.Update == nil || *b.Update != want {
			t.Errorf("%s is read as %+v, %v, scanned %v", update, b.Update, err, b.Scanned)
		}
	}
}
