package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
)

// playedAgent is a program that says which one it is, and makes the sandbox a node.
const playedAgent = `package main

import (
	"os"
	"regexp"
)

var mark string

func main() {
	if os.Args[1] == "version" {
		return
	}
	settings, _ := os.ReadFile("/etc/muster/agent.env")
	id := regexp.MustCompile("MUSTER_NODE_ID=(.*)").FindSubmatch(settings)[1]
	os.WriteFile("/var/lib/muster-agent/identity.json", []byte("{\"node_id\":\""+string(id)+"\"}"), 0o600)
	os.WriteFile(os.Getenv("RECORD")+"/mark", []byte(mark), 0o600)
}
`

// playAgent puts an agent of this name into the folder of a gateway's agents.
func playAgent(t *testing.T, agents, mark string) {
	t.Helper()
	source := filepath.Join(t.TempDir(), "main.go")
	write(t, source, playedAgent)
	build := exec.Command("go", "build", "-ldflags", "-s -w -X main.mark="+mark, "-o",
		filepath.Join(agents, "linux-"+runtime.GOARCH, "muster-agent"), source)
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

func (h *house) releases() (all []api.Release) {
	h.t.Helper()
	var page struct{ Releases []api.Release }
	if err := json.Unmarshal([]byte(h.muster("release", "ls", "-o", "json")), &page); err != nil {
		h.t.Fatal(err)
	}
	return page.Releases
}

// outdated is a script that was made before its gateway was updated.
type outdated struct {
	*house
	script string
	url    string // of the script
	agents string
}

func newOutdated(t *testing.T) *outdated {
	t.Helper()
	o := &outdated{agents: t.TempDir()}
	playAgent(t, o.agents, "first")
	o.house = agentsHouse(t, o.agents)
	o.muster("node", "create", "gpu-7")
	releases := o.releases()
	var m struct {
		minted
		Metadata api.BootstrapMetadata
	}
	text := o.muster("bootstrap", "gpu-7", "-o", "json")
	if err := json.Unmarshal([]byte(text), &m); err != nil || len(releases) != 1 {
		t.Fatalf("%v in %s, releases %+v", err, text, releases)
	}
	ref := strings.TrimPrefix(o.house.url, "https://") + "/muster/agent@" + releases[0].Digest
	if m.Metadata.PackageDigest != releases[0].Digest || m.Metadata.PackageRef != ref {
		t.Errorf("the package is %+v, want %s", m.Metadata, ref)
	}
	o.script = m.Script
	o.url = m.URL
	return o
}

// update starts the gateway again with another agent in it, and gives the release that it makes of it.
func (o *outdated) update(mark string) string {
	o.t.Helper()
	known := o.releases()
	playAgent(o.t, o.agents, mark)
	o.gateway.stop()
	o.open()
	for _, r := range o.releases() {
		if !slices.ContainsFunc(known, func(k api.Release) bool { return k.Digest == r.Digest }) {
			return r.Digest
		}
	}
	o.t.Fatal("the gateway has made no release of its agent")
	return ""
}

// lends asks for what the script asks for, in JSON, and fetches what that names with the pass that comes along.
func (o *outdated) lends() {
	o.t.Helper()
	ask := strings.TrimSuffix(o.url, "/script") + "/release?" + wire.BootstrapArch + "=" + runtime.GOARCH
	out, err := exec.Command("curl", "-fsSk", ask).Output()
	var r wire.Release
	if err != nil || json.Unmarshal(out, &r) != nil || r.Channel != wire.DefaultChannel || r.Sequence != 1 || len(r.Pointer) < 100 {
		o.t.Fatalf("%v: %s", err, out)
	}
	layer, err := exec.Command("curl", "-fsSk", "-H", "Authorization: "+r.Authorization, o.house.url+r.URL).Output()
	if sum := sha256.Sum256(layer); err != nil || !strings.HasSuffix(r.URL, "sha256:"+hex.EncodeToString(sum[:])) {
		o.t.Errorf("%v: %d bytes of %s", err, len(layer), r.URL)
	}
	if out, err := exec.Command("curl", "-fsSk", o.house.url+r.URL).CombinedOutput(); err == nil {
		o.t.Errorf("without the pass: %d bytes", len(out))
	}
	none, err := exec.Command("curl", "-fsSk", strings.Replace(ask, runtime.GOARCH, "mips", 1)).Output()
	if err != nil || len(none) > 0 {
		o.t.Errorf("for a machine without an agent: %v, %s", err, none)
	}
}

// installs runs the script where there are these tools, and wants that it says something and installs an agent.
func (o *outdated) installs(agent, says string, tools ...string) {
	o.t.Helper()
	b := newRootBox(o.t, tools[0])
	b.link("wc")
	if !slices.Contains(tools, "openssl") {
		_ = os.Remove(filepath.Join(strings.Split(b.bin, ":")[0], "openssl"))
	}
	code, out := b.root(o.script, `run sh "$S"`)
	if mark := b.record("mark"); code != 0 || !strings.Contains(out, says) || mark != agent {
		o.t.Errorf("%v: exit %d, the agent %q, want %q and %q:\n%s", tools, code, mark, agent, says, out)
	}
	if argv := b.record("fetch-argv"); strings.Contains(argv, "Bearer") || strings.Contains(argv, "msb_") {
		o.t.Errorf("%v: a secret stands in an argument:\n%s", tools, argv)
	}
}

// TestBootstrapRelease: a script that was made before an update of the gateway installs what its channel points at when it runs, by
// signature. If it cannot check that, it installs what it was made with. Both come from the registry, for the gateway itself carries
// another agent by then.
func TestBootstrapRelease(t *testing.T) {
	t.Parallel()
	o := newOutdated(t)
	o.lends()
	second := o.update("second")
	for _, tool := range []string{"curl", "wget"} {
		o.installs("first", "by the signature of channel stable, number 1", tool, "openssl")
		o.installs("first", "there is no openssl", tool)
	}
	o.waits("desk")
	o.muster("release", "promote", second, "--channel", "stable", "--canary", "1", "--yes")
	o.muster("release", "pause", "--channel", "stable")
	o.installs("first", "the rollout on channel stable is not through", "curl", "openssl")
	o.muster("release", "rollback", "--channel", "stable", "--now", "--yes")
	o.installs("first", "by the signature of channel stable, number 3", "curl", "openssl")
	o.muster("release", "promote", second, "--channel", "stable", "--now", "--yes")
	o.installs("second", "by the signature of channel stable, number 4", "curl", "openssl")
	o.installs("first", "there is no openssl", "curl")
	o.muster("key", "rotate", "--release", "--now")
	o.muster("release", "rollback", "--channel", "stable", "--now", "--yes")
	o.installs("first", "no release key of this script has signed", "curl", "openssl")
}

// waits joins a node whose maintenance window is closed all the while, so that a rollout waits for it.
func (o *outdated) waits(name string) {
	o.t.Helper()
	o.agent(name, o.token("--tenant", "platform"))
	o.until(name+" is online", func() bool { return o.online(name) })
	later := time.Now().UTC().Add(6 * time.Hour)
	o.muster("node", "label", name, "maintenance-window="+later.Format("15:04")+"-"+later.Add(time.Hour).Format("15:04"))
}

// link gives the box one of this machine's tools as it is.
func (b *rootBox) link(name string) {
	b.t.Helper()
	dir, _, _ := strings.Cut(b.bin, ":")
	if _, err := os.Lstat(filepath.Join(dir, name)); err == nil {
		return
	}
	path, err := exec.LookPath(name)
	if err == nil {
		err = os.Symlink(path, filepath.Join(dir, name))
	}
	if err != nil {
		b.t.Fatal(err)
	}
}
