//go:build real

package lab_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"muster/gateway/internal/kit/lab"
)

const (
	registry     = "registry.lab:5000"
	registryUser = "robot$lab"
	registryWord = `of'the "laboratory" $1`
)

// registryConf makes nginx a registry that knows nothing but logging in, and an archive of Debian.
const registryConf = `
daemon off;
error_log stderr;
pid /run/registry.pid;
events {}
http {
	log_format users "$request_uri $status user=$remote_user";
	access_log /var/log/registry.log users;
	server {
		listen 127.0.0.1:5000 ssl;
		ssl_certificate /etc/registry/cert.pem;
		ssl_certificate_key /etc/registry/key.pem;
		root /srv/registry;
		location = /v2/ {
			auth_basic registry;
			auth_basic_user_file /etc/registry/users;
			index index.json;
		}
	}
	server {
		listen 127.0.0.1:5080;
		root /srv/archive;
	}
}
`

// storageConf has podman use no overlay: the box is on one itself, and the kernel refuses an overlay on another.
const storageConf = "[storage]\ndriver = \"vfs\"\nrunroot = \"/run/containers/storage\"\ngraphroot = \"/var/lib/containers/storage\"\n"

// dockerFiles are the content of a package that stands in for docker's: a service, and a client that logs in as docker's does and
// finds its trusted certificates where docker's does.
var dockerFiles = map[string]string{
	"DEBIAN/control": "Package: docker.io\nVersion: 0~lab\nArchitecture: all\nMaintainer: Lab <lab@lab.invalid>\nDescription: stand-in\n",
	"usr/bin/docker": `#!/bin/sh
[ "$1 $2 $4" = "login --username --password-stdin" ] || exit 2
password=$(sed 's/[\\"]/\\&/g')
printf 'user = "%s:%s"\n' "$3" "$password" | curl -fsS --cacert "/etc/docker/certs.d/$5/ca.crt" -K - -o /dev/null "https://$5/v2/" || exit 1
mkdir -p "$HOME/.docker" && echo "$3" >"$HOME/.docker/login" && echo Login Succeeded
`,
	"lib/systemd/system/docker.service": "[Service]\nExecStart=sleep infinity\n[Install]\nWantedBy=multi-user.target\n",
}

// TestBootstrapRuntime has the script install a container runtime with apt, make it trust a registry whose certificate is of the
// gateway's root, and log in there: Debian's own podman, and a stand-in of docker, the default.
func TestBootstrapRuntime(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		flags   []string
		archive func(l *lab.Lab) string
		engine  func(t *testing.T, box *lab.Box)
	}{
		{"podman", []string{"--bootstrap-container-runtime-package", "podman"},
			func(l *lab.Lab) string { return l.Archive(lab.CloudInit(), "podman") }, withPodman},
		{"docker", nil, dockerArchive, withDocker},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := lab.New(t)
			credential := filepath.Join(l.Dir, "credential")
			if err := os.WriteFile(credential, []byte(registryUser+":"+registryWord+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			l.Run(lab.Binary(), "ca", "init", "--data", filepath.Join(l.Dir, "data"), "--root-out", filepath.Join(l.Dir, "root"))
			s := openSite(t, l, append(c.flags, "--bootstrap-registry", registry, "--bootstrap-registry-credential", credential)...)
			m := s.create("gpu-1")
			was := s.node("gpu-1")
			box := s.machine()
			box.Sh("echo 127.0.0.1 registry.lab >>/etc/hosts; echo 'deb [trusted=yes] http://127.0.0.1:5080/ ./' >/etc/apt/sources.list; " +
				"echo 'Acquire::Languages \"none\";' >/etc/apt/apt.conf.d/lab; rm -rf /etc/apt/sources.list.d/*")
			box.Write("/etc/containers/storage.conf", storageConf, 0o644)
			box.Write("/root/script", m.Script, 0o600)

			out, err := box.Try("root", "bash script")
			if err == nil || !contains(out, "apt-get cannot install", "next: ") || s.node("gpu-1").LastSeen != nil {
				t.Errorf("without an archive: %v\n%s", err, out)
			}
			server := s.registry(c.archive(l))
			if out := cutOff(box, "Unpacking"); !contains(out, "[6/8]") || !killed(out) {
				t.Errorf("apt-get was not cut off:\n%s", out)
			}
			start := time.Now()
			out, err = box.Try("root", "bash script; code=$?; rm script; exit $code")
			t.Logf("%s: %v\n%s", time.Since(start).Round(time.Millisecond), err, out)
			if err != nil || !contains(out, c.name+" is logged in", "done: ") {
				t.Fatalf("no runtime, or no login")
			}
			s.joined(box, was, m, start)
			c.engine(t, box)
			if log := server.Sh("cat /var/log/registry.log"); !contains(log, "/v2/ 200 user="+registryUser) {
				t.Errorf("the registry saw no login:\n%s", log)
			}
			for _, found := range box.Holding(lab.Literal(registryWord)) {
				t.Errorf("the registry's password is still in %s", found)
			}
			if out, err := box.Try("root", "curl -sS https://"+registry+"/v2/"); err == nil || !contains(out, "certificate") {
				t.Errorf("the machine trusts the registry anyway, so that nothing was proven: %v\n%s", err, out)
			}
			s.rebooted(box, was)
			c.engine(t, box)
		})
	}
}

// registry starts the stand-in registry, with a certificate of the gateway's root, and the archive.
func (s *site) registry(archive string) *lab.Box {
	s.Helper()
	box := s.lab.Box(lab.Plain())
	certificate, key := s.certificate("registry.lab")
	box.Write("/etc/registry/cert.pem", certificate, 0o644)
	box.Write("/etc/registry/key.pem", key, 0o600)
	box.Write("/etc/registry/users", registryUser+":{PLAIN}"+registryWord+"\n", 0o644)
	box.Write("/etc/registry/nginx.conf", registryConf, 0o644)
	box.Write("/srv/registry/v2/index.json", "{}\n", 0o644)
	box.Bind(archive, "/srv/archive")
	box.Boot()
	s.lab.Start("registry", box.Command("root", "exec nginx -c /etc/registry/nginx.conf"))
	s.lab.Until("the archive answers", func() bool {
		_, err := box.Try("root", "curl -fsS -o /dev/null http://127.0.0.1:5080/Packages")
		return err == nil
	})
	return box
}

// certificate makes a server's certificate under the gateway's root. Its key is not the gateway's.
func (s *site) certificate(name string) (certificate, key string) {
	s.Helper()
	read := func(file string) []byte {
		text, err := os.ReadFile(filepath.Join(s.lab.Dir, "root", file))
		if err != nil {
			s.Fatal(err)
		}
		block, _ := pem.Decode(text)
		return block.Bytes
	}
	root, err := x509.ParseCertificate(read("root.pem"))
	if err != nil {
		s.Fatal(err)
	}
	rootKey, err := x509.ParsePKCS8PrivateKey(read("root.key"))
	if err != nil {
		s.Fatal(err)
	}
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		s.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{name}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	der, err := x509.CreateCertificate(rand.Reader, template, root, &private.PublicKey, rootKey)
	if err != nil {
		s.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		s.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})),
		string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}))
}

// dockerArchive makes an archive of the stand-in alone.
func dockerArchive(l *lab.Lab) string {
	l.T.Helper()
	tree := filepath.Join(l.Dir, "docker")
	dir := filepath.Join(l.Dir, "archive")
	for path, text := range dockerFiles {
		file := filepath.Join(tree, path)
		mode := os.FileMode(0o644)
		if strings.Contains(path, "/bin/") {
			mode = 0o755
		}
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			l.T.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), mode); err != nil {
			l.T.Fatal(err)
		}
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		l.T.Fatal(err)
	}
	if out, err := exec.Command("dpkg-deb", "--root-owner-group", "--build", tree, dir).CombinedOutput(); err != nil {
		l.T.Fatalf("dpkg-deb: %v\n%s", err, out)
	}
	if err := lab.Index(dir); err != nil {
		l.T.Fatal(err)
	}
	return dir
}

func withPodman(t *testing.T, box *lab.Box) {
	t.Helper()
	if out, err := box.Try("root", "podman login --get-login "+registry); err != nil || strings.TrimSpace(out) != registryUser {
		t.Errorf("podman is logged in as %q: %v", out, err)
	}
}

func withDocker(t *testing.T, box *lab.Box) {
	t.Helper()
	if out := box.Sh("cat /root/.docker/login; systemctl is-enabled docker; systemctl is-active docker"); out !=
		registryUser+"\nenabled\nactive" {
		t.Errorf("docker: %s", out)
	}
}
