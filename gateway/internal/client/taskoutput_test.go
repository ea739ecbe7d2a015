package client_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/client"
)

// turn is one answer to a request for output.
type turn struct {
	offset string // of the first byte; "": the header is not there
	text   string
	cut    bool   // the connection ends before the answer does
	code   string // it is a refusal
}

// outputs plays a gateway that gives these answers to those who follow a task, one after the other. The task ends with the last one.
func outputs(t *testing.T, turns []turn) (*client.Client, *[]string) {
	t.Helper()
	var asked []string
	left := turns
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, strings.TrimPrefix(r.URL.String(), wire.PrefixAdmin))
		if !strings.Contains(r.URL.Path, "/output") {
			w.Header().Set("Content-Type", "application/json")
			status := map[bool]string{true: wire.TaskCompleted, false: wire.TaskRunning}[len(left) == 0]
			fmt.Fprintf(w, `{"id":"t","status":%q}`, status)
			return
		}
		var now turn
		if len(left) > 0 {
			now = left[0]
			left = left[1:]
		}
		answer(t, w, now)
	}))
	t.Cleanup(server.Close)
	return &client.Client{BaseURL: server.URL, HTTP: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}}, &asked
}

func answer(t *testing.T, w http.ResponseWriter, now turn) {
	t.Helper()
	if now.code != "" {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprintf(w, `{"error":{"code":%q,"message":"no"}}`, now.code)
		return
	}
	w.Header().Set("Content-Type", api.TaskOutputType+"; charset=utf-8")
	if now.offset != "" {
		w.Header().Set(api.HeaderTaskOffset, now.offset)
	}
	io.WriteString(w, now.text)
	if now.cut {
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}
}

// TestFollowTask: what a task writes comes in order, over answers that end, break off or begin behind a gap.
func TestFollowTask(t *testing.T) {
	for _, c := range []struct {
		name  string
		turns []turn
		want  string // offset and text of what came
		asked string
		fails string
	}{
		{"at once", []turn{{"0", "ab", false, ""}, {"2", "", false, ""}}, "0:ab", "0 2 t", ""},
		{"nothing written", []turn{{"0", "", false, ""}}, "", "0 t", ""},
		{"a gap", []turn{{"0", "ab", false, ""}, {"7", "hi", false, ""}, {"9", "", false, ""}}, "0:ab 7:hi", "0 2 9 t", ""},
		{"cut", []turn{{"0", "ab", true, ""}, {"2", "c", false, ""}, {"3", "", false, ""}}, "0:ab 2:c", "0 2 3 t", ""},
		{"it goes on", []turn{{"0", "a", false, ""}, {"1", "", false, ""}, {"1", "b", false, ""}, {"2", "", false, ""}},
			"0:a 1:b", "0 1 t 1 2 t", ""},
		{"a gateway that stops", []turn{{"0", "a", false, ""}, {"", "", false, wire.CodeUnavailable}, {"1", "", false, ""}},
			"0:a", "0 1 1 t", ""},
		{"another gateway", []turn{{"", "a", false, ""}}, "", "0", "does not say where it begins"},
		{"a gateway that goes back", []turn{{"0", "ab", false, ""}, {"1", "b", false, ""}}, "0:ab", "0 2", "does not say where it begins"},
		{"a refusal", []turn{{"", "", false, wire.CodeForbidden}}, "", "0", "no"},
	} {
		t.Run(c.name, func(t *testing.T) {
			gw, asked := outputs(t, c.turns)
			var got []string
			task, err := gw.FollowTask(t.Context(), "t", 0, func(offset int64, data []byte) error {
				got = append(got, fmt.Sprintf("%d:%s", offset, data))
				return nil
			})
			if !fails(err, c.fails) || err == nil && task.Status != wire.TaskCompleted {
				t.Errorf("got %+v, %v", task, err)
			}
			calls := strings.NewReplacer("tasks/t/output?follow=true&from=", "", "tasks/", "").Replace(strings.Join(*asked, " "))
			if strings.Join(got, " ") != c.want || calls != c.asked {
				t.Errorf("got %q by %q, want %q by %q", got, calls, c.want, c.asked)
			}
		})
	}
}

// TestFollowGivesUp: a gateway that never comes back is not asked forever, and one that was never there is asked once.
func TestFollowGivesUp(t *testing.T) {
	turns := make([]turn, 100)
	for i := range turns {
		turns[i].code = wire.CodeUnavailable
	}
	gw, asked := outputs(t, turns)
	if _, err := gw.FollowTask(t.Context(), "t", 0, nil); err == nil || len(*asked) != 31 {
		t.Errorf("asked %d times: %v", len(*asked), err)
	}
	nobody := &client.Client{BaseURL: "http://127.0.0.1:1", HTTP: http.DefaultClient}
	if _, err := nobody.FollowTask(t.Context(), "t", 0, nil); err == nil {
		t.Error("nobody answered, and there is no error")
	}
}

// TestFollowStops: the error of the reader ends it.
func TestFollowStops(t *testing.T) {
	gw, asked := outputs(t, []turn{{"0", "ab", false, ""}, {"2", "c", false, ""}})
	full := errors.New("the disk is full")
	if _, err := gw.FollowTask(t.Context(), "t", 0, func(int64, []byte) error { return full }); !errors.Is(err, full) || len(*asked) != 1 {
		t.Errorf("got %v after %q", err, *asked)
	}
}

// TestTaskArchive: only the very file that the task made is taken.
func TestTaskArchive(t *testing.T) {
	const text = "an archive"
	sum := sha256.Sum256([]byte(text))
	for _, c := range []struct {
		name, sent, want string
		size             int64
		announced        int
	}{
		{"whole", text, "", int64(len(text)), len(text)},
		{"another", "an archivE", "is not the one", int64(len(text)), len(text)},
		{"longer", text + "x", "is not the one", int64(len(text)), len(text) + 1},
		{"cut", text[:4], "broke off", int64(len(text)), len(text)},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", api.TaskArchiveType)
			w.Header().Set("Content-Length", fmt.Sprint(c.announced))
			io.WriteString(w, c.sent)
		}))
		gw := &client.Client{BaseURL: server.URL, HTTP: &http.Client{}}
		task := api.Task{ID: "t", Archive: &wire.TaskFile{Name: "diag.tar.gz", Size: c.size, SHA256: hex.EncodeToString(sum[:])}}
		var got bytes.Buffer
		err := gw.TaskArchive(t.Context(), task, &got)
		if !fails(err, c.want) || err == nil && got.String() != text {
			t.Errorf("%s: got %q, %v", c.name, got.String(), err)
		}
		server.Close()
	}
	if err := new(client.Client).TaskArchive(t.Context(), api.Task{}, io.Discard); err == nil {
		t.Error("a task without a file gave one")
	}
}

// fails tells whether an error is as it is wanted: none where want is empty, else one with this in its text.
func fails(err error, want string) bool {
	if err == nil || want == "" {
		return err == nil && want == ""
	}
	return strings.Contains(err.Error(), want)
}
