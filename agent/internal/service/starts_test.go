package service_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"muster/agent/internal/service"
)

func TestStarts(t *testing.T) {
	base := t.TempDir()
	now := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	for range 5 {
		service.Begin(base, now).End(nil)
	}
	if notice := service.Begin(base, now).Notice(now); notice != "" {
		t.Errorf("ends in order are no crashes: %s", notice)
	}
	var s *service.Starts
	for range 3 {
		now = now.Add(time.Minute)
		s = service.Begin(base, now)
	}
	if notice := s.Notice(now); !strings.Contains(notice, "restarted 3 times within an hour; the last time: it was killed") {
		t.Errorf("notice %q", notice)
	}
	s.End(errors.New("the disk\nis gone"))
	if notice := service.Begin(base, now).Notice(now); !strings.Contains(notice, "4 times within an hour; the last time: the disk is gone") {
		t.Errorf("notice %q", notice)
	}
	service.Begin(base, now).End(nil)
	if notice := service.Begin(base, now).Notice(now); !strings.Contains(notice, "times within an hour; the last time: it was killed") {
		t.Errorf("after an end in order: notice %q", notice)
	}
	if notice := s.Notice(now.Add(2 * time.Hour)); notice != "" {
		t.Errorf("after two hours: %q", notice)
	}
	os.WriteFile(filepath.Join(base, "starts.json"), []byte("nonsense"), 0o600)
	if notice := service.Begin(base, now).Notice(now); notice != "" {
		t.Errorf("of nonsense: %q", notice)
	}
	for range 100 {
		s = service.Begin(base, now)
	}
	if raw, _ := os.ReadFile(filepath.Join(base, "starts.json")); len(raw) > 2000 || s.Notice(now) == "" {
		t.Errorf("%d bytes", len(raw))
	}
}
