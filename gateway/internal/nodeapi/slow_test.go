package nodeapi_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"muster/agent/sign"
	"muster/agent/wire"
)

// raw sends bytes to the plain listener and gives the whole answer, to the end of the connection.
func (s *site) raw(text string) (answer *http.Response, body, all string) {
	s.t.Helper()
	connection, err := net.Dial("tcp", s.plain.Listener.Addr().String())
	if err != nil {
		s.t.Fatal(err)
	}
	defer connection.Close()
	if err := connection.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		s.t.Fatal(err)
	}
	if _, err := io.WriteString(connection, text); err != nil {
		s.t.Fatal(err)
	}
	read, err := io.ReadAll(connection)
	if err != nil {
		s.t.Fatalf("the gateway did not close the connection: %v, after %q", err, read)
	}
	answer, err = http.ReadResponse(bufio.NewReader(strings.NewReader(string(read))), nil)
	if err != nil {
		s.t.Fatalf("%v in %q", err, read)
	}
	defer answer.Body.Close()
	content, err := io.ReadAll(answer.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return answer, string(content), string(read)
}

// head is a request's beginning in the given version.
func head(version, path, length string, header http.Header) string {
	var text strings.Builder
	fmt.Fprintf(&text, "POST %s HTTP/%s\r\nHost: gateway\r\nContent-Length: %s\r\n", path, version, length)
	_ = header.Write(&text)
	return text.String() + "\r\n"
}

// TestHTTP10: what proxies speak to their origin by default. The answer ends with the connection and is never chunked.
func TestHTTP10(t *testing.T) {
	s := newSite(t, nil)
	c := s.token(nil)
	body := encode(t, s.application("box", newKey(t)))
	header := http.Header{"Authorization": {sign.Authorization(c.id, c.key, body)}}
	answer, content, all := s.raw(head("1.0", wire.PathRegister, fmt.Sprint(len(body)), header) + string(body))
	if answer.StatusCode != 201 || !strings.HasPrefix(all, "HTTP/1.0 201 ") || answer.ContentLength != int64(len(content)) ||
		len(answer.TransferEncoding) != 0 || !strings.Contains(content, `"node_id"`) {
		t.Errorf("got %.200q", all)
	}
	if err := sign.VerifyWelcome(answer.Header.Get(wire.HeaderProof), c.key, nonceIn(t, body), 201, []byte(content)); err != nil {
		t.Error(err)
	}

	n := s.enrol("other")
	r := newRequest(t, http.MethodPost, s.plain.URL+wire.HeartbeatPath(n.id), beat(1))
	if _, err := n.signer.Sign(r, beat(1), epoch, s.clock.Now()); err != nil {
		t.Fatal(err)
	}
	answer, content, all = s.raw(head("1.0", wire.HeartbeatPath(n.id), fmt.Sprint(len(beat(1))), r.Header) + string(beat(1)))
	if answer.StatusCode != 200 || !strings.HasPrefix(all, "HTTP/1.0 200 ") || answer.ContentLength != int64(len(content)) {
		t.Errorf("a heartbeat: got %.200q", all)
	}
	answer, content, all = s.raw("GET /ca.pem HTTP/1.0\r\n\r\n")
	if answer.StatusCode != 200 || content != s.ca.RootPEM() || strings.Contains(all, "chunked") {
		t.Errorf("the roots: got %.200q", all)
	}
}

func nonceIn(t *testing.T, body []byte) string {
	t.Helper()
	_, rest, _ := strings.Cut(string(body), `"nonce":"`)
	nonce, _, ok := strings.Cut(rest, `"`)
	if !ok {
		t.Fatal("no nonce")
	}
	return nonce
}

// TestSlowBodies: the gateway stops waiting for a body that does not arrive, also if it refuses the request without reading the body.
func TestSlowBodies(t *testing.T) {
	s := newSite(t, nil).impatient()
	c := s.token(nil)
	n := newSite(t, nil).enrol("box")
	r := newRequest(t, http.MethodPost, "http://gateway"+wire.HeartbeatPath(n.id), beat(1))
	if _, err := n.signer.Sign(r, beat(1), epoch, s.clock.Now()); err != nil {
		t.Fatal(err)
	}
	known := http.Header{"Authorization": {sign.Authorization(c.id, c.key, nil)}}
	unknown := http.Header{"Authorization": {sign.Authorization("mse_nobody", c.key, nil)}}
	for _, slow := range []struct {
		name, path string
		header     http.Header
		status     int
		code       string
	}{
		{"a register request", wire.PathRegister, known, 408, wire.CodeSlowBody},
		{"with a credential that is not on record", wire.PathRegister, unknown, 401, wire.CodeUnknownCredential},
		{"without a credential", wire.PathRegister, nil, 408, wire.CodeSlowBody},
		{"a heartbeat of a node that is not on record here", wire.HeartbeatPath(n.id), r.Header, 401, wire.CodeUnknownCertificate},
		{"a heartbeat without an identity", wire.HeartbeatPath(n.id), nil, 401, wire.CodeNoIdentity},
	} {
		answer, content, _ := s.raw(head("1.1", slow.path, "1000", slow.header) + `{"name":`)
		if answer.StatusCode != slow.status || !strings.Contains(content, `"`+slow.code+`"`) || !strings.Contains(content, `"hint"`) {
			t.Errorf("%s: got %d %s, want %d %s", slow.name, answer.StatusCode, content, slow.status, slow.code)
		}
		if slow.code == wire.CodeSlowBody && slow.header != nil {
			if err := sign.VerifyWelcome(answer.Header.Get(wire.HeaderProof), c.key, "", answer.StatusCode, []byte(content)); err != nil {
				t.Errorf("%s: %v", slow.name, err)
			}
		}
	}
}

// TestSlowHeartbeat: a signed request whose body does not arrive.
func TestSlowHeartbeat(t *testing.T) {
	s := newSite(t, nil)
	n := s.enrol("box")
	s = s.impatient()
	r := newRequest(t, http.MethodPost, s.plain.URL+wire.HeartbeatPath(n.id), beat(1))
	nonce, err := n.signer.Sign(r, beat(1), epoch, s.clock.Now())
	if err != nil {
		t.Fatal(err)
	}
	response, content, _ := s.raw(head("1.1", wire.HeartbeatPath(n.id), fmt.Sprint(len(beat(1))), r.Header) + string(beat(1)[:10]))
	if response.StatusCode != 408 || !strings.Contains(content, wire.CodeSlowBody) {
		t.Errorf("got %d %s, want 408", response.StatusCode, content)
	}
	s.answered(nonce, answer{status: response.StatusCode, header: response.Header, body: []byte(content)})
}

// TestBrokenOff: a body that is shorter than announced is no request, and uses nothing up.
func TestBrokenOff(t *testing.T) {
	s := newSite(t, nil)
	c := s.token(nil)
	body := encode(t, s.application("box", newKey(t)))
	connection, err := net.Dial("tcp", s.plain.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	header := http.Header{"Authorization": {sign.Authorization(c.id, c.key, body)}}
	if _, err := io.WriteString(connection, head("1.1", wire.PathRegister, fmt.Sprint(len(body)), header)+string(body[:100])); err != nil {
		t.Fatal(err)
	}
	if err := connection.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	response, err := http.ReadResponse(bufio.NewReader(connection), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != 400 || !strings.Contains(string(content), wire.CodeBadRequest) {
		t.Errorf("got %d %s, %v, want 400", response.StatusCode, content, err)
	}
	if a := s.register(c, body); a.status != 201 {
		t.Errorf("afterwards: got %d %s, want the token unused", a.status, a.body)
	}
}
