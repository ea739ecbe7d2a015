package client

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"time"
)

const (
	BackupType = "application/vnd.sqlite3"
	backupTime = time.Hour // for the whole file to travel, as the client sees it
)

// Backup writes a copy of the gateway's database to w and gives its size.
func (c *Client) Backup(ctx context.Context, w io.Writer) (int64, error) {
	response, err := c.long(ctx, "backup", url.Values{}, BackupType, backupTime)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	n, err := io.Copy(w, response.Body)
	if err == nil && n != response.ContentLength {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return n, fmt.Errorf("the copy broke off: %w", err)
	}
	return n, nil
}
