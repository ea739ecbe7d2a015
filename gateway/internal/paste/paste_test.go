package paste_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"muster/gateway/internal/paste"
)

const token = "mse_abcdefghijkl_thisIsTheSecretOfTheToken"

// shells are those that a person may paste into. With CI set all must be here.
func shells(t *testing.T) (found [][]string) {
	t.Helper()
	for _, argv := range [][]string{{"sh"}, {"dash"}, {"bash"}, {"busybox", "sh"}, {"zsh"}, {"fish"}} {
		if _, err := exec.LookPath(argv[0]); err != nil {
			if os.Getenv("CI") != "" {
				t.Errorf("%s is not installed", argv[0])
			}
			t.Logf("not run: %s, which is not installed here", argv[0])
			continue
		}
		found = append(found, argv)
	}
	return found
}

// site serves scripts over TLS and without, and looks at every process's arguments while curl waits for its answer.
type site struct {
	t      *testing.T
	secure *httptest.Server
	plain  *httptest.Server

	mu    sync.Mutex
	asked int
	leaks []string
}

// script says what it was given, tells the site that it runs, and has the site look for the token.
const script = `main() {
	token=$MUSTER_TOKEN
	unset MUSTER_TOKEN
	curl -sk "$LOOK" >/dev/null
	echo "token ${#token} arguments $*"
	exit "${CODE:-0}"
}
{ main "$@"; }
`

func newSite(t *testing.T) *site {
	s := &site{t: t}
	mux := http.NewServeMux()
	mux.HandleFunc("/install.sh", func(w http.ResponseWriter, _ *http.Request) { s.look(); fmt.Fprint(w, script) })
	mux.HandleFunc("/half", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "10000")
		fmt.Fprint(w, "echo half; exit 0\n")
	})
	mux.HandleFunc("/nothing", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	mux.HandleFunc("/blank", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "\n\n") })
	mux.HandleFunc("/look", func(http.ResponseWriter, *http.Request) { s.look() })
	s.secure = httptest.NewTLSServer(mux)
	s.plain = httptest.NewServer(mux)
	t.Cleanup(s.secure.Close)
	t.Cleanup(s.plain.Close)
	return s
}

// look finds the token in the arguments of whatever runs now, and in the environment of every curl.
func (s *site) look() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range files {
		if raw, _ := os.ReadFile(file); bytes.Contains(raw, []byte(token)) {
			s.leaks = append(s.leaks, string(raw))
		}
		environ, _ := os.ReadFile(filepath.Join(filepath.Dir(file), "environ"))
		if name, _ := os.ReadFile(filepath.Join(filepath.Dir(file), "comm")); string(name) == "curl\n" &&
			bytes.Contains(environ, []byte(token)) {
			s.leaks = append(s.leaks, "curl's environment")
		}
	}
}

func (s *site) looked() (asked int, leaks []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked, s.leaks
}

// pin is the pinned key of the secure server, as curl takes it.
func (s *site) pin() string {
	sum := sha256.Sum256(s.secure.Certificate().RawSubjectPublicKeyInfo)
	return "sha256//" + base64.StdEncoding.EncodeToString(sum[:])
}

// paste types a command into a shell, which reads it from its input as from a terminal.
func (s *site) paste(shell []string, command string, env ...string) (code int, out string) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), 30*time.Second)
	defer cancel()
	home := filepath.Join(s.t.TempDir(), "a b")
	if err := os.Mkdir(home, 0o700); err != nil {
		s.t.Fatal(err)
	}
	cmd := exec.CommandContext(ctx, shell[0], shell[1:]...)
	cmd.Stdin = strings.NewReader(command + "\n")
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "TMPDIR=" + home, "LOOK=" + s.secure.URL + "/look"}, env...)
	raw, _ := cmd.CombinedOutput() // the exit status says it
	if left, _ := filepath.Glob(filepath.Join(home, "tmp*")); len(left) > 0 {
		s.t.Errorf("left: %v", left)
	}
	if cmd.ProcessState == nil || ctx.Err() != nil {
		s.t.Fatalf("%v: no end\n%s", shell, raw)
	}
	return cmd.ProcessState.ExitCode(), string(raw)
}

func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// TestPasted runs each form in each shell: the script runs once, with the token and its arguments, and its status counts.
func TestPasted(t *testing.T) {
	for _, shell := range shells(t) {
		t.Run(strings.Join(shell, " "), func(t *testing.T) {
			s := newSite(t)
			bundle := filepath.Join(t.TempDir(), "roots.pem")
			writeRoot(t, bundle, s.secure.Certificate().Raw)
			for name, d := range map[string]paste.Download{
				"certificate": {URL: s.secure.URL + "/install.sh"},
				"resolved": {URL: strings.Replace(s.secure.URL, "127.0.0.1", "example.com", 1) + "/install.sh",
					Resolve: "example.com:" + port(s.secure.URL) + ":127.0.0.1"},
				"pinned key": {URL: s.secure.URL + "/install.sh", PinnedKey: s.pin()},
				"digest":     {URL: s.plain.URL + "/install.sh", Digest: digest(script)},
			} {
				code, out := s.paste(shell, d.Command(token), "CURL_CA_BUNDLE="+bundle, "CODE=7")
				if want := fmt.Sprintf("token %d arguments ", len(token)); code != 7 || !strings.Contains(out, want) {
					t.Errorf("%s: exit %d\n%s", name, code, out)
				}
				_, out = s.paste(shell, d.Command(token)+" --name 'a b'", "CURL_CA_BUNDLE="+bundle)
				if !strings.Contains(out, "arguments --name a b\n") {
					t.Errorf("%s, with arguments:\n%s", name, out)
				}
			}
			if asked, leaks := s.looked(); asked != 16 || len(leaks) > 0 {
				t.Errorf("%d looks, and the token in these arguments: %q", asked, leaks)
			}
		})
	}
}

// TestDownloadFails: whatever keeps the script from coming whole and unchanged ends the command with a status, and nothing runs.
func TestDownloadFails(t *testing.T) {
	for _, shell := range shells(t) {
		t.Run(strings.Join(shell, " "), func(t *testing.T) {
			s := newSite(t)
			closed := httptest.NewServer(http.NotFoundHandler())
			closed.Close()
			for name, d := range map[string]paste.Download{
				"not there":               {URL: s.secure.URL + "/none", PinnedKey: s.pin()},
				"not there, plain":        {URL: s.plain.URL + "/none", Digest: digest(script)},
				"nobody listens":          {URL: closed.URL, PinnedKey: s.pin()},
				"nobody listens, plain":   {URL: closed.URL, Digest: digest(script)},
				"nobody listens, system":  {URL: closed.URL},
				"an unknown name":         {URL: "https://gateway.invalid/install.sh"},
				"brings nothing":          {URL: s.secure.URL + "/nothing", PinnedKey: s.pin()},
				"brings nothing, system":  {URL: s.plain.URL + "/nothing"},
				"brings nothing, plain":   {URL: s.plain.URL + "/nothing", Digest: digest(script)},
				"brings a blank":          {URL: s.secure.URL + "/blank", PinnedKey: s.pin()},
				"breaks off":              {URL: s.secure.URL + "/half", PinnedKey: s.pin()},
				"breaks off, plain":       {URL: s.plain.URL + "/half", Digest: digest("echo half; exit 0\n")},
				"no trusted certificate":  {URL: s.secure.URL + "/install.sh"},
				"another key":             {URL: s.secure.URL + "/install.sh", PinnedKey: "sha256//" + strings.Repeat("A", 43) + "="},
				"another script":          {URL: s.plain.URL + "/install.sh", Digest: strings.Repeat("0", 64)},
				"an address of version 6": {URL: "https://[::1]:1/install.sh", PinnedKey: s.pin()},
			} {
				code, out := s.paste(shell, d.Command(token), "CODE=0")
				if code == 0 || strings.Contains(out, "half") && !strings.Contains(out, "curl: ") || strings.Contains(out, "arguments") {
					t.Errorf("%s: exit %d\n%s", name, code, out)
				}
			}
		})
	}
}

// TestQuoting: every command is one word behind sh -c, for a value with a quote in it would be another command.
func TestQuoting(t *testing.T) {
	for want, d := range map[string]paste.Download{
		`MUSTER_TOKEN=T sh -c 's=$(unset MUSTER_TOKEN; curl -qfsSL https://gw.example/install.sh) && eval "${s:?the download is empty}"' --`: {
			URL: "https://gw.example/install.sh"},
		`MUSTER_TOKEN=T sh -c 's=$(unset MUSTER_TOKEN; curl -fsSLk --pinnedpubkey "sha256//k=" "https://[2001:db8::1]:7443/x") && ` +
			`eval "${s:?the download is empty}"' --`: {
			URL: "https://[2001:db8::1]:7443/x", PinnedKey: "sha256//k="},
	} {
		if got := d.Command("T"); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

func port(url string) string { return url[strings.LastIndex(url, ":")+1:] }

func writeRoot(t *testing.T, path string, der []byte) {
	t.Helper()
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
}
