//go:build real

package lab

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

// AnyToken is the form of every whole enrollment token.
var AnyToken = regexp.MustCompile(`mse_[0-9A-Za-z]{8,}_[0-9A-Za-z]{20,}`)

// Literal is the pattern of one text.
func Literal(text string) *regexp.Regexp { return regexp.MustCompile(regexp.QuoteMeta(text)) }

// Watch looks for a pattern in the arguments of every process of the lab, again and again. It gives a function that ends the search and
// says what was found. A process that lives for a few milliseconds may be missed.
func (l *Lab) Watch(pattern *regexp.Regexp) (stop func() []string) {
	quit := make(chan struct{})
	var found []string
	var looking sync.WaitGroup
	looking.Go(func() {
		for {
			select {
			case <-quit:
				return
			case <-time.After(5 * time.Millisecond):
				found = append(found, processes(l.holder.Process.Pid, "net", pattern, "cmdline")...)
			}
		}
	})
	return func() []string {
		close(quit)
		looking.Wait()
		slices.Sort(found)
		return slices.Compact(found)
	}
}

// processes lists those that share one kind of namespace with another process and have the pattern in one of these files.
func processes(with int, kind string, pattern *regexp.Regexp, files ...string) (found []string) {
	space, _ := os.Readlink(fmt.Sprintf("/proc/%d/ns/%s", with, kind))
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		if its, err := os.Readlink(filepath.Join(dir, "ns", kind)); err != nil || its != space {
			continue
		}
		for _, file := range files {
			if content, err := os.ReadFile(filepath.Join(dir, file)); err == nil && pattern.Match(content) {
				found = append(found, file+" of "+strings.ReplaceAll(read(dir+"/cmdline"), "\x00", " "))
			}
		}
	}
	return found
}

func read(path string) string {
	content, _ := os.ReadFile(path)
	return string(content)
}
