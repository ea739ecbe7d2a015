package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"time"

	"muster/agent/wire"
)

const (
	BackupType = "application/vnd.sqlite3"
	backupTime = time.Hour // for the whole file to travel, as the client sees it
)

// Backup writes a copy of the gateway's database to w and gives its size.
func (c *Client) Backup(ctx context.Context, w io.Writer) (int64, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, c.BaseURL+wire.PrefixAdmin+"backup", nil)
	if err != nil {
		return 0, err
	}
	if c.Token != "" {
		r.Header.Set("Authorization", "Bearer "+c.Token)
	}
	patient := *c.HTTP
	patient.Timeout = backupTime
	response, err := patient.Do(r)
	if err != nil {
		return 0, c.failed(err)
	}
	defer response.Body.Close()
	if kind, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type")); response.StatusCode != http.StatusOK || kind != BackupType {
		refusal, err := take(response)
		if err != nil {
			return 0, err
		}
		if err := read(refusal, nil); err != nil {
			return 0, err
		}
		return 0, errors.New("the gateway sent no database")
	}
	n, err := io.Copy(w, response.Body)
	if err == nil && n != response.ContentLength {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return n, fmt.Errorf("the copy broke off: %w", err)
	}
	return n, nil
}
