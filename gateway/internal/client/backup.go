package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"muster/gateway/api"
)

// backupTime is how long the whole file may take to travel.
const backupTime = 12 * time.Hour

// Backup writes a copy of the gateway's database to w and gives its size.
func (c *Client) Backup(ctx context.Context, w io.Writer) (int64, error) {
	response, err := c.long(ctx, api.PathBackup, url.Values{}, api.BackupType, backupTime)
	if err != nil {
		return 0, err
	}
	n, err := copied(w, response)
	if err == nil && n != response.ContentLength {
		err = brokeOff(io.ErrUnexpectedEOF)
	}
	return n, err
}

// BackupAll writes an archive of the gateway's database and registry to w and returns its size. Whether the archive is whole is said at its
// end.
func (c *Client) BackupAll(ctx context.Context, w io.Writer) (int64, error) {
	response, err := c.long(ctx, api.PathBackup, url.Values{api.BackupRegistry: {"true"}}, api.BackupArchiveType, backupTime)
	if err != nil {
		return 0, err
	}
	return copied(w, response)
}

func copied(w io.Writer, response *http.Response) (int64, error) {
	n, err := io.Copy(w, response.Body)
	if err = errors.Join(err, response.Body.Close()); err != nil {
		err = brokeOff(err)
	}
	return n, err
}

func brokeOff(err error) error { return fmt.Errorf("the copy broke off: %w", err) }
