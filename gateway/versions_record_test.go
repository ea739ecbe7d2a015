//go:build real

package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// exchange is one request of an agent and its answer, byte for byte.
type exchange struct {
	At     time.Time         `json:"at"`
	Method string            `json:"method"`
	URI    string            `json:"uri"`
	Header map[string]string `json:"header"`
	Body   string            `json:"body"`
	Status int               `json:"status"`
	Proof  map[string]string `json:"proof"` // headers of the answer
	Answer string            `json:"answer"`
}

// witness stands between agents and a gateway.
type witness struct {
	forward *httputil.ReverseProxy
	mu      sync.Mutex
	heard   []exchange
}

func (c *witness) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	e := exchange{At: time.Now().UTC(), Method: r.Method, URI: r.RequestURI, Body: string(body),
		Header: map[string]string{}, Proof: map[string]string{}}
	for _, name := range []string{"Authorization", "Content-Type", "Content-Digest", "Signature-Input", "Signature"} {
		if value := r.Header.Get(name); value != "" {
			e.Header[name] = value
		}
	}
	answer := httptest.NewRecorder()
	c.forward.ServeHTTP(answer, r)
	for name, values := range answer.Header() {
		w.Header()[name] = values
		if strings.HasPrefix(name, "Muster-") {
			e.Proof[name] = values[0]
		}
	}
	e.Status = answer.Code
	e.Answer = answer.Body.String()
	w.WriteHeader(answer.Code)
	_, _ = w.Write(answer.Body.Bytes())
	c.mu.Lock()
	defer c.mu.Unlock()
	c.heard = append(c.heard, e)
}

// have tells whether a request that ends so was answered with a status.
func (c *witness) have(path string, status int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, e := range c.heard {
		at, _, _ := strings.Cut(e.URI, "?")
		if strings.HasSuffix(at, path) && e.Status == status {
			return true
		}
	}
	return false
}

// pastVersion is one version that is recorded.
type pastVersion struct {
	*house
	agent   string
	engine  string // the folder of a played podman
	release string // a file that says which kernel this is
	folder  string
}

// TestVersionsRecord makes testdata/versions/COMMIT from the programs of that commit, as root:
//
//	MUSTER_RECORD_VERSION=COMMIT go test -tags real -run TestVersionsRecord ./gateway
func TestVersionsRecord(t *testing.T) {
	version := os.Getenv("MUSTER_RECORD_VERSION")
	if version == "" {
		return // nothing is to be made
	}
	gateway, agent := older(t, version)
	r := &pastVersion{agent: agent, engine: podman(t), release: filepath.Join(t.TempDir(), "osrelease"),
		folder: filepath.Join("..", "testdata", "versions", version)}
	r.house = &house{t: t, data: t.TempDir(), program: gateway,
		args: []string{"--listen", "127.0.0.1:0", "--cert-ttl", "1m", "--plain-listen", "127.0.0.1:0", "--trust-domain", "test",
			"--public-url", "https://gw.example:7443"}}
	if err := os.WriteFile(r.release, []byte("6.1.0-44-amd64\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	r.open()
	plain := r.plain()
	r.url = plain
	r.live()
	r.gateway.stop() // then it shows what the database has, and not what it remembers
	r.open()
	r.url = plain
	tokens := map[string]string{"late": r.token("--tenant", "platform", "--label", "tier=sovereign")}
	r.old("task", "run", "desk", "workload.status")
	if err := os.MkdirAll(r.folder, 0o755); err != nil {
		t.Fatal(err)
	}
	r.shown()
	r.backup()
	r.write("tokens.json", tokens)
	r.write("exchanges.json", r.record(tokens["late"]))
}

// start runs an agent of the version. The machine's kernel is not shown.
func (r *pastVersion) start(name, token string) *process {
	args := []string{"-m", "sh", "-c", `mount --bind "$0" /proc/sys/kernel/osrelease && exec "$@"`, r.release, r.agent, "run",
		"--gateway", r.url, "--name", name, "--state", filepath.Join(r.data, "agent-"+name), "--interval", "5s", "--nvidia-smi", smi(r.t, 2)}
	env := []string{"PATH=" + r.engine + ":" + os.Getenv("PATH")}
	if token != "" {
		env = append(env, "MUSTER_TOKEN="+token)
	}
	return start(r.t, "agent "+name, env, "unshare", args...)
}

// live fills the database with what a gateway has after some time.
func (r *pastVersion) live() {
	r.old("psk", "set", "--generate")
	r.old("account", "create", "ci", "--scope", "nodes:read", "--tenant", "platform")
	r.old("node", "create", "planned", "--tenant", "platform")
	for _, name := range []string{"desk", "leaver", "drained", "gone"} {
		agent := r.start(name, r.token("--tenant", "platform", "--gpus", "2"))
		r.until(name+" is online", func() bool { return r.online(name) })
		if name == "desk" {
			r.obeys(name)
		}
		agent.stop()
	}
	r.old("node", "drain", "drained")
	r.old("node", "retire", "gone", "--yes")
	r.old("token", "create", "--uses", "3")
}

// old runs a command of the version itself.
func (r *pastVersion) old(args ...string) string {
	r.t.Helper()
	command := exec.Command(r.program, append([]string{"--data", r.data}, args...)...)
	command.Env = cleanEnv()
	var errs strings.Builder
	command.Stderr = &errs
	out, err := command.Output()
	if err != nil {
		r.t.Fatalf("muster %s: %v\n%s%s", strings.Join(args, " "), err, out, errs.String())
	}
	return string(out)
}

// shown keeps what the version's own command line says of its database.
func (r *pastVersion) shown() {
	all := map[string]string{}
	for _, command := range shownCommands() {
		all[command] = r.old(append(strings.Fields(command), "-o", "json")...)
	}
	r.write("shown.json", all)
}

func (r *pastVersion) backup() {
	file := filepath.Join(r.t.TempDir(), "backup.db")
	r.old("backup", file)
	raw, err := os.ReadFile(file)
	if err != nil {
		r.t.Fatal(err)
	}
	var packed bytes.Buffer
	w, _ := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	_, _ = w.Write(raw)
	w.Close()
	key, err := os.ReadFile(filepath.Join(r.data, "master.key"))
	if err != nil {
		r.t.Fatal(err)
	}
	r.put("muster.db.gz", packed.Bytes())
	r.put("master.key", key)
}

// record has agents speak with the gateway: one that was there before the backup, one that joins, one that leaves.
func (r *pastVersion) record(token string) []exchange {
	origin, _ := url.Parse(r.url)
	c := &witness{forward: httputil.NewSingleHostReverseProxy(origin)}
	proxy := httptest.NewServer(c)
	defer proxy.Close()
	r.url = proxy.URL
	desk := r.start("desk", "")
	r.until("the task is done", func() bool { return c.have("/result", http.StatusOK) })
	late := r.start("late", token)
	r.until("late joins", func() bool { return c.have("/nodes/register", http.StatusCreated) })
	late.stop()
	leave := exec.Command(r.agent, "leave", "--gateway", r.url, "--state", filepath.Join(r.data, "agent-leaver"))
	leave.Env = cleanEnv()
	if out, err := leave.CombinedOutput(); err != nil {
		r.t.Fatalf("leave: %v\n%s", err, out)
	}
	r.untilWithin(2*time.Minute, "desk renews", func() bool { return c.have("/renew", http.StatusOK) })
	desk.stop()
	return c.kept()
}

// kept are the exchanges in their order without those that say nothing new: waits in vain, further heartbeats, and what was signed with the
// renewed certificate, which is not in the backup.
func (c *witness) kept() []exchange {
	c.mu.Lock()
	defer c.mu.Unlock()
	slices.SortFunc(c.heard, func(a, b exchange) int { return a.At.Compare(b.At) })
	seen := map[string]int{}
	return slices.DeleteFunc(c.heard, func(e exchange) bool {
		at, _, _ := strings.Cut(e.URI, "?")
		what := path.Base(at) + " " + strconv.Itoa(e.Status)
		seen[what]++
		return e.Status == http.StatusNoContent || e.Status == http.StatusBadGateway || seen[what] > 3 ||
			seen["renew 200"] > 0 && path.Base(at) != "renew"
	})
}

func (r *pastVersion) untilWithin(limit time.Duration, what string, ok func() bool) {
	r.t.Helper()
	for deadline := time.Now().Add(limit); !ok(); <-time.After(100 * time.Millisecond) {
		if time.Now().After(deadline) {
			r.t.Fatalf("not so after %s: %s", limit, what)
		}
	}
}

func (r *pastVersion) write(name string, v any) {
	r.t.Helper()
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		r.t.Fatal(err)
	}
	r.put(name, append(text, '\n'))
}

func (r *pastVersion) put(name string, content []byte) {
	r.t.Helper()
	if err := os.WriteFile(filepath.Join(r.folder, name), content, 0o644); err != nil {
		r.t.Fatal(err)
	}
}
