//go:build real

package lab

import (
	"crypto/rand"
	"strings"
)

// Registry is a registry for images on a box. It lets in who knows the credential.
type Registry struct {
	Image      string // one that is in it, named by its digest: a file system around busybox
	Credential string // USER:PASSWORD
}

// engineFiles make podman work on a box: its storage lies on another overlay, its containers share the box's network, which is loopback
// alone, and no limit is set that the machine below does not let the box set.
var engineFiles = [...]struct{ path, text string }{
	{"/etc/containers/storage.conf",
		"[storage]\ndriver = \"vfs\"\nrunroot = \"/run/containers/storage\"\ngraphroot = \"/var/lib/containers/storage\"\n"},
	{"/etc/containers/containers.conf", "[containers]\nnetns = \"host\"\npids_limit = 0\n" +
		"default_ulimits = [\"nofile=4096:4096\", \"nproc=4096:4096\"]\n[engine]\ncgroup_manager = \"cgroupfs\"\nruntime = \"runc\"\n"},
	{"/etc/containers/registries.conf", "[[registry]]\nlocation = \"127.0.0.1:5000\"\ninsecure = true\n"},
	{"/etc/docker/registry/config.yml", "version: 0.1\nstorage: {filesystem: {rootdirectory: /var/lib/docker-registry}}\n" +
		"http: {addr: \"127.0.0.1:5000\"}\nauth: {htpasswd: {realm: lab, path: /etc/docker/registry/users}}\n"},
}

// pushImage is a shell script that makes an image by hand and pushes it. It leaves nothing of it in podman, and prints the digest.
const pushImage = `set -e
mkdir -p /root/image/bin
cp /bin/busybox /root/image/bin
for name in cat echo env ls sh sha256sum sleep; do ln -sf busybox /root/image/bin/$name; done
tar -C /root/image -c . | podman import --quiet --change 'CMD ["/bin/sh"]' - 127.0.0.1:5000/team/tool:1 >/dev/null
podman push --quiet --authfile /root/image.auth --digestfile /root/image.digest 127.0.0.1:5000/team/tool:1
podman rmi --all --force >/dev/null
cat /root/image.digest
rm -r /root/image*`

// Podman makes podman work on a box of Containers that has booted, and starts a registry there.
func (b *Box) Podman() Registry {
	b.lab.T.Helper()
	password := rand.Text()
	for _, file := range engineFiles {
		b.Write(file.path, file.text, 0o644)
	}
	b.Write("/root/password", password, 0o600)
	b.Sh(`perl -e 'print "puller:", crypt(scalar(<STDIN>), q($2y$05$abcdefghijklmnopqrstuu)), "\n"' </root/password >/etc/docker/registry/users
rm /root/password; systemctl restart docker-registry.service`)
	r := Registry{Credential: "puller:" + password}
	b.lab.Until("the registry answers", func() bool {
		out, _ := b.Try("root", "curl -sS -o /dev/null -w '%{http_code}' http://127.0.0.1:5000/v2/")
		return strings.TrimSpace(out) == "401"
	})
	b.Write("/root/image.login", password, 0o600)
	b.Sh("podman login --authfile /root/image.auth --username puller --password-stdin 127.0.0.1:5000 </root/image.login")
	r.Image = "127.0.0.1:5000/team/tool@" + b.Sh(pushImage)
	return r
}
