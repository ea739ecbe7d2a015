package workload

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

// FuzzContainers: whatever an engine answers, only a container with muster's name and labels is taken for muster's. Its id is no option.
func FuzzContainers(f *testing.F) {
	f.Add([]byte(`[{"Id":"aa","Name":"/muster-a","State":{"Status":"exited"},"Config":{"Labels":{"muster.workload":"a","muster.task":"t"}}}]`))
	f.Add([]byte(`[{"Id":"--all","Name":"muster-a","Config":{"Labels":{"muster.workload":"a","muster.task":"t"}}}]`))
	f.Add([]byte(`[{}]`))
	f.Fuzz(func(t *testing.T, answer []byte) {
		all, err := parseContainers(answer)
		if err != nil && len(all) > 0 {
			t.Error("both an error and containers")
		}
		for _, c := range all {
			if c.ID == "" || c.ID[0] == '-' || c.workload() == "" || !strings.HasSuffix(c.Name, "muster-"+c.workload()) || c.State.Status == "" {
				t.Errorf("taken for muster's: %+v", c)
			}
			newRow(c)
			c.secrets()
		}
	})
}

// FuzzImage: an answer that does not have the digest is never about the image.
func FuzzImage(f *testing.F) {
	const digest = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	f.Add([]byte(`[{"RepoDigests":["h/p@` + digest + `"]}]`))
	f.Add([]byte(`[{"Id":"` + digest + `"}]`))
	f.Add([]byte(`[{"Id":"sha256:1"},{"Digest":"` + digest + `"}]`))
	f.Fuzz(func(t *testing.T, answer []byte) {
		if isImage(answer, "h/p@"+digest) && !bytes.Contains(answer, []byte("sha256")) && !bytes.Contains(answer, []byte(`\u`)) {
			t.Errorf("%s is taken for the image", answer)
		}
	})
}

// TestImageFacts: each engine says the digest in another place.
func TestImageFacts(t *testing.T) {
	const digest = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	for answer, want := range map[string]bool{
		`[{"Id":"sha256:1","RepoDigests":["other@sha256:2","h/p@` + digest + `"]}]`: true,
		`[{"Id":"1","Digest":"` + digest + `","RepoDigests":[]}]`:                   true,
		`[{"Id":"` + digest + `"}]`:                                                 true,
		`[{"Id":"sha256:1","RepoTags":["` + digest + `"]}]`:                         false,
		`[{"Id":"x"},{"Id":"` + digest + `"}]`:                                      false,
		`[]`:                                                                        false, `{}`: false, ``: false,
	} {
		if got := isImage([]byte(answer), "h/p@"+digest); got != want {
			t.Errorf("%s: %v", answer, got)
		}
	}
}

// TestPlainValue: what one of the clients would read in another way does not go through the file.
func TestPlainValue(t *testing.T) {
	for _, value := range []string{"", "a b", "x=y", "https://h:1/p?q=1&r=%20", "{[(*!~^|<>,;)]}"} {
		if !plainValue(value) {
			t.Errorf("%q goes through the file", value)
		}
	}
	for _, value := range []string{
		"a\nb", "a\r", "\ta", "a ", " a", `"a"`, "it's", "`a`", `a\b`, "a # b", "$A", "é", "\x7f", "\xff", strings.Repeat("x", longestLine+1),
	} {
		if plainValue(value) {
			t.Errorf("%q does not go through the file", value)
		}
	}
}

// TestMoment: engines write a time in several ways, and one for never.
func TestMoment(t *testing.T) {
	at := time.Date(2026, 11, 22, 15, 0, 0, 0, time.UTC)
	for text, want := range map[string]*time.Time{
		"2026-11-22T15:00:00.987654321Z": &at, "2026-11-22T16:00:00+01:00": &at, "0001-01-01T00:00:00Z": nil, "": nil, "yesterday": nil,
		"1970-01-01T00:00:00Z": nil,
	} {
		got := moment(text)
		if (got == nil) != (want == nil) || got != nil && !got.Equal(*want) {
			t.Errorf("%q: %v", text, got)
		}
	}
}
