package workload_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"muster/agent/wire"
)

const secret = "hunter2-Zq8"

// hidden checks that a secret is in no argument, in no output, and nowhere on the disk.
func (n *node) hidden(secret, text string) {
	n.Helper()
	for _, call := range n.calls() {
		if strings.Contains(strings.Join(call.Args, " "), secret) {
			n.Errorf("the secret is in the arguments %q", call.Args)
		}
	}
	if strings.Contains(n.out.String()+text, secret) {
		n.Errorf("the secret is told:\n%s\n%s", n.out.String(), text)
	}
	err := filepath.Walk(n.job.Dir, func(path string, info os.FileInfo, err error) error {
		if err == nil && path != n.job.Dir {
			n.Errorf("%s is left", path)
		}
		return err
	})
	if err != nil {
		n.Error(err)
	}
}

// TestEnvironment: values reach the container as they are, and never stand in an argument.
func TestEnvironment(t *testing.T) {
	n := newNode(t, "podman")
	n.host.Exec = nil
	n.lends(map[string]string{"hf-token": secret, "key": "-----BEGIN-----\nabcdef\n-----END-----\n"})
	p := params()
	p.Env = map[string]string{
		"PLAIN": "a=b c", "EMPTY": "", "PATH": "/opt/bin:/bin", "LD_PRELOAD": "/tmp/x.so", "JSON": `{"a": "b"}`, "PAD": " x ",
	}
	p.SecretEnv = map[string]string{"HF_TOKEN": "hf-token", "TLS_KEY": "key", "DOCKER_HOST": "hf-token"}
	outcome := n.launched(p)
	call := n.only("run")
	file := "DOCKER_HOST=" + secret + "\nEMPTY=\nHF_TOKEN=" + secret + "\nLD_PRELOAD=/tmp/x.so\nPATH=/opt/bin:/bin\nPLAIN=a=b c\n"
	if call.Stdin != file {
		t.Errorf("file %q, want %q", call.Stdin, file)
	}
	for _, arg := range []string{"--env-file=/dev/stdin", "--env=JSON", "--env=PAD", "--env=TLS_KEY"} {
		if !slices.Contains(call.Args, arg) {
			t.Errorf("no %s in %q", arg, call.Args)
		}
	}
	for _, entry := range []string{`JSON={"a": "b"}`, "PAD= x ", "TLS_KEY=-----BEGIN-----\nabcdef\n-----END-----\n"} {
		if !slices.Contains(call.Env, entry) {
			t.Errorf("no %q in %q", entry, call.Env)
		}
	}
	for _, entry := range call.Env {
		if entry == "LD_PRELOAD=/tmp/x.so" || entry == "PATH=/opt/bin:/bin" || strings.HasPrefix(entry, "DOCKER_HOST=") {
			t.Errorf("the engine's own program got %q", entry)
		}
	}
	n.hidden(secret, outcome.Error)
	if labels := n.state("podman").Containers[0].Labels["muster.secret_env"]; labels != "DOCKER_HOST,HF_TOKEN,TLS_KEY" {
		t.Errorf("label %q", labels)
	}
}

// TestEnvironmentRefused: a value that only the engine's own environment could carry, under a name that the engine reads itself.
func TestEnvironmentRefused(t *testing.T) {
	for _, name := range []string{
		"PATH", "HOME", "LD_PRELOAD", "DOCKER_HOST", "DOCKER_CONFIG", "CONTAINERS_CONF", "_CONTAINERS_USERNS", "CONTAINER_HOST", "HTTP_PROXY",
		"https_proxy", "no_proxy", "XDG_RUNTIME_DIR", "REGISTRY_AUTH_FILE", "REGISTRIES_CONFIG_PATH", "GODEBUG", "SSL_CERT_FILE", "TMPDIR",
		"NOTIFY_SOCKET", "LISTEN_FDS", "DBUS_SESSION_BUS_ADDRESS", "STORAGE_DRIVER", "NERDCTL_TOML", "CNI_PATH", "LC_ALL", "BUILDKIT_HOST",
	} {
		n := newNode(t, "docker")
		p := params()
		p.Env = map[string]string{name: "a\nb"}
		outcome := n.launch(p)
		n.refused(outcome, name, "use another name")
		if outcome.Code != wire.CodeTaskParamsInvalid || len(n.calls("run")) > 0 {
			t.Errorf("%s: %+v, %+v", name, outcome, n.calls("run"))
		}
	}
}

// TestSecretsHidden: the engine repeats secrets, and nobody reads them.
func TestSecretsHidden(t *testing.T) {
	n := newNode(t, "podman")
	credential := "bob:" + secret
	sent := base64.StdEncoding.EncodeToString([]byte(credential))
	n.lends(map[string]string{"registry": credential, "key": "first line\nsecond line"})
	n.play("podman", played{Says: "Authorization: Basic " + sent + "\n", RunFails: "bad value first line in " + secret})
	p := params()
	p.Login = "registry"
	p.SecretEnv = map[string]string{"KEY": "key"}
	outcome := n.launch(p)
	n.refused(outcome, "bad value [secret] in [secret]")
	n.printed("Authorization: Basic [secret]\n", "bad value [secret] in [secret]")
	for _, text := range []string{secret, sent, "first line"} {
		n.hidden(text, outcome.Error)
	}
}

// TestLogin: the credential is in a private file while the image is pulled, and only then.
func TestLogin(t *testing.T) {
	for _, engine := range []string{"docker", "podman", "nerdctl"} {
		n := newNode(t, engine)
		n.lends(map[string]string{"registry": "bob:" + secret})
		p := params()
		p.Login = "registry"
		outcome := n.launched(p)
		pull := n.only("pull")
		want := `{"auths":{"registry.example:5000":{"auth":"` + base64.StdEncoding.EncodeToString([]byte("bob:"+secret)) + `"}}}`
		if pull.Auth != want {
			t.Errorf("%s: file %s, want %s", engine, pull.Auth, want)
		}
		if engine == "docker" && !slices.Contains(pull.Env, "DOCKER_HOST=unix:///run/other.sock") {
			t.Errorf("docker pulls with another daemon: %q", pull.Env)
		}
		if run := n.only("run"); run.Auth != "" {
			t.Errorf("%s: the run has the credential too: %s", engine, run.Auth)
		}
		n.hidden(secret, outcome.Error)
		n.hidden("bob", "")
	}
}

// TestLoginDockerHub: docker's client looks for the credential of its own registry under another name.
func TestLoginDockerHub(t *testing.T) {
	n := newNode(t, "docker")
	n.lends(map[string]string{"hub": "bob:" + secret})
	p := params()
	p.Image = "docker.io/library/busybox@" + digest
	p.Login = "hub"
	n.launched(p)
	if pull := n.only("pull"); !strings.Contains(pull.Auth, `"https://index.docker.io/v1/":{"auth"`) {
		t.Errorf("file %s", pull.Auth)
	}
}

// TestSecretsRefused: secrets that cannot be had, and a credential in another form.
func TestSecretsRefused(t *testing.T) {
	n := newNode(t, "podman")
	p := params()
	p.Login = "registry"
	n.refused(n.launch(p), "the secrets could not be had", "nobody should ask")
	n.lends(map[string]string{"other": secret})
	outcome := n.launch(p)
	n.refused(outcome, `did not lend the secret "registry"`, "muster secret set")
	for _, wrong := range []string{"justapassword", ":" + secret, "bob:"} {
		n.lends(map[string]string{"registry": wrong})
		outcome := n.launch(p)
		n.refused(outcome, "is not USER:PASSWORD")
		n.hidden(wrong, outcome.Error)
	}
	n.lends(map[string]string{"registry": "bob:" + secret})
	strange := filepath.Join(n.job.Dir, "registry")
	if err := os.Mkdir(strange, 0o700); err != nil {
		t.Fatal(err)
	}
	n.refused(n.launch(p), "file exists")
	if entries, err := os.ReadDir(strange); err != nil || len(entries) > 0 {
		t.Errorf("the credential is in a folder of somebody else: %v, %v", entries, err)
	}
	if len(n.calls("run")) > 0 || len(n.calls("pull")) > 0 {
		t.Errorf("something was done: %+v", n.calls())
	}
}

// TestLogsHidden: a workload that writes its secrets into its log.
func TestLogsHidden(t *testing.T) {
	n := newNode(t, "podman")
	n.lends(map[string]string{"hf-token": secret})
	p := params()
	p.SecretEnv = map[string]string{"HF_TOKEN": "hf-token"}
	n.launched(p)
	n.change("podman", func(p *played) { p.Log = "my token is " + secret + ".\n" })
	n.job.Secrets = func(context.Context) (map[string]string, error) { return nil, errors.New("not for logs") }
	n.out = bytes.Buffer{}
	if outcome := n.host.Logs(t.Context(), n.job, &wire.WorkloadLogs{Name: "model"}); outcome.Error != "" {
		t.Fatal(outcome.Error)
	}
	if got := n.out.String(); got != "my token is [secret].\n" {
		t.Errorf("log %q", got)
	}
}
