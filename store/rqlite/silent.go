package rqlite

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"
)

// silentTime is for one node's answer.
const silentTime = 3 * time.Second

// Silent asks each node whether it is there, and returns the silent ones with the reasons. A cluster goes on without some of its nodes, so
// nothing else notices that.
func (db *DB) Silent(ctx context.Context) map[string]string {
	ctx, cancel := context.WithTimeout(ctx, silentTime)
	defer cancel()
	silent := map[string]string{}
	var mu sync.Mutex
	var all sync.WaitGroup
	for _, base := range db.base {
		all.Go(func() {
			if err := db.there(ctx, base); err != nil {
				mu.Lock()
				defer mu.Unlock()
				_, at, _ := strings.Cut(base, "://")
				silent[at] = err.Error()
			}
		})
	}
	all.Wait()
	return silent
}

func (db *DB) there(ctx context.Context, base string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/readyz?noleader", http.NoBody)
	if err != nil {
		return err
	}
	response, err := db.do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode >= http.StatusInternalServerError { // a user may not be allowed to ask this: then the node is there
		return fmt.Errorf("it answers with status %d", response.StatusCode)
	}
	return nil
}
