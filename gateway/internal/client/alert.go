package client

import (
	"context"
	"net/url"

	"muster/gateway/api"
)

// Alerts lists alerts.
func (c *Client) Alerts(ctx context.Context, f api.AlertFilter) (api.AlertList, error) {
	q := inTenant(f.Tenant)
	set(q, "id", f.ID)
	set(q, "selector", f.Selector)
	set(q, "cause", f.Cause)
	setIf(q, "all", f.All)
	var list api.AlertList
	err := c.do(ctx, "GET", "alerts", q, nil, &list)
	return list, err
}

// AlertSilences lists the silences that last.
func (c *Client) AlertSilences(ctx context.Context, tenant string) (api.AlertSilenceList, error) {
	var list api.AlertSilenceList
	err := c.do(ctx, "GET", "alert-silences", inTenant(tenant), nil, &list)
	return list, err
}

// SilenceAlerts keeps alerts from being told.
func (c *Client) SilenceAlerts(ctx context.Context, q api.AlertSilenceRequest) (api.AlertSilence, error) {
	var made api.AlertSilence
	err := c.do(ctx, "POST", "alert-silences", nil, q, &made)
	return made, err
}

// EndAlertSilence ends a silence.
func (c *Client) EndAlertSilence(ctx context.Context, id string) error {
	return c.do(ctx, "DELETE", "alert-silences/"+url.PathEscape(id), nil, nil, nil)
}

// AlertReceivers lists who is told.
func (c *Client) AlertReceivers(ctx context.Context) (api.AlertReceiverList, error) {
	var list api.AlertReceiverList
	err := c.do(ctx, "GET", "alert-receivers", nil, nil, &list)
	return list, err
}

// SetAlertReceiver stores a receiver.
func (c *Client) SetAlertReceiver(ctx context.Context, name string, q api.AlertReceiverRequest) (api.AlertReceiver, error) {
	var set api.AlertReceiver
	err := c.do(ctx, "PUT", "alert-receivers/"+url.PathEscape(name), nil, q, &set)
	return set, err
}

// DropAlertReceiver deletes a receiver.
func (c *Client) DropAlertReceiver(ctx context.Context, name string) error {
	return c.do(ctx, "DELETE", "alert-receivers/"+url.PathEscape(name), nil, nil, nil)
}

// TestAlertReceiver sends a receiver a test alert.
func (c *Client) TestAlertReceiver(ctx context.Context, name string) (api.AlertTest, error) {
	var tried api.AlertTest
	err := c.do(ctx, "POST", "alert-receivers/"+url.PathEscape(name)+"/test", nil, nil, &tried)
	return tried, err
}
