//go:build real

package lab_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"testing"
	"time"

	"muster/gateway/internal/kit/lab"
)

// nginxConf ends TLS with everything at its default: HTTP/1.0 to the origin, a connection for each request, the Host
// rewritten.
const nginxConf = `
daemon off;
error_log stderr;
pid /run/edge.pid;
events {}
http {
	access_log /var/log/edge.log;
	server {
		listen 127.0.0.1:443 ssl;
		ssl_certificate /etc/edge/cert.pem;
		ssl_certificate_key /etc/edge/key.pem;
		location / {
			proxy_pass http://127.0.0.1:7480;
			proxy_set_header X-Forwarded-For $remote_addr;
		}
	}
}
`

// TestBehindNginx joins and reports where another program ends TLS with a certificate that the machine trusts.
func TestBehindNginx(t *testing.T) {
	t.Parallel()
	l := lab.New(t)
	box := l.Box(lab.Plain())
	certificate, key := edgeCertificate(t)
	box.Write("/usr/local/share/ca-certificates/edge.crt", certificate, 0o644)
	box.Write("/etc/edge/cert.pem", certificate, 0o644)
	box.Write("/etc/edge/key.pem", key, 0o600)
	box.Write("/etc/edge/nginx.conf", nginxConf, 0o644)
	box.AddGPU()
	box.Boot()
	box.Sh("update-ca-certificates")
	l.Start("nginx", box.Command("root", "exec nginx -c /etc/edge/nginx.conf"))
	gateway := l.Gateway("--public-url", "https://"+lab.GatewayName, "--plain-listen", "127.0.0.1:7480", "--trusted-proxy", "127.0.0.1/32")

	token := gateway.Token()
	want := "MUSTER_TOKEN=" + token.Token + " sh -c 's=$(unset MUSTER_TOKEN; curl -qfsSL https://" + lab.GatewayName +
		"/install.sh) && eval \"${s:?the download is empty}\"' --"
	if token.Command != want {
		t.Errorf("the joining command is\n%s\nwant\n%s", token.Command, want)
	}
	out, err := box.Try("root", token.Command)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Log(out)
	if !gateway.Heard(time.Time{}) {
		t.Fatalf("join ended well, but the node is not online: %+v", gateway.Nodes())
	}
	first := gateway.Node().Seen()
	l.Until("a second heartbeat", func() bool { return gateway.Heard(first.Add(time.Second)) })
	if text := box.Sh("cat /var/log/edge.log"); !contains(text, "POST /nodes/register HTTP/1.1\" 201", "/heartbeat HTTP/1.1\" 200") {
		t.Errorf("nginx did not carry the registration and the heartbeats:\n%s", text)
	}
}

// edgeCertificate makes a certificate for the gateway's name that is its own authority.
func edgeCertificate(t *testing.T) (certificate, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "edge"}, DNSNames: []string{lab.GatewayName},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	block := func(kind string, der []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
	}
	return block("CERTIFICATE", der), block("PRIVATE KEY", keyDER)
}
