package store

import (
	"context"
	"strings"
)

// Where a label comes from. If a key has several labels, the lowest number wins.
const (
	originOperator   = 0
	originCredential = 1
	OriginProvider   = 2 // the company that rents the machine out
	OriginAgent      = 3
)

// insertLabels stores one or more labels that the node does not have from this origin yet. The SQL text depends on the number of
// labels only. A node has few labels, so there are few texts to prepare.
func insertLabels(nodeID string, labels map[string]string, origin int64) statement {
	const row = "(?, ?, ?, ?)"
	args := make([]any, 0, 4*len(labels))
	for key, value := range labels {
		args = append(args, nodeID, key, value, origin)
	}
	return do("INSERT INTO labels(node_id, key, value, origin) VALUES "+row+strings.Repeat(", "+row, len(labels)-1), args...)
}

// replaceLabels replaces the labels of the earlier enrolment. The operator's labels stay.
func (e Enrolment) replaceLabels() []statement {
	stays := int64(originOperator)
	if e.SameLabels {
		stays = originCredential
	}
	statements := []statement{do("DELETE FROM labels WHERE node_id = ? AND origin > ?", e.Node.ID, stays)}
	return append(statements, enrolmentLabels(e.Node.ID, e.CredentialLabels, e.AgentLabels)...)
}

func enrolmentLabels(nodeID string, credential, agent map[string]string) []statement {
	var statements []statement
	if len(credential) > 0 {
		statements = append(statements, insertLabels(nodeID, credential, originCredential))
	}
	if len(agent) > 0 {
		statements = append(statements, insertLabels(nodeID, agent, OriginAgent))
	}
	return statements
}

// SetLabels sets and removes labels for the operator. They hide the labels of the credential and the agent. A removed label is
// stored as NULL: so it stays hidden, whatever the agent sends, until the operator sets it again. A key in both set and remove is
// removed. ErrConflict if the node does not exist.
func (s *Store) SetLabels(ctx context.Context, nodeID string, set map[string]string, remove []string, events ...Event) error {
	statements := []statement{guard("EXISTS(SELECT 1 FROM nodes WHERE id = ?)", nodeID)}
	const upsert = `INSERT INTO labels(node_id, key, value, origin) VALUES (?, ?, ?, 0)
		ON CONFLICT DO UPDATE SET value = excluded.value`
	for key, value := range set {
		statements = append(statements, do(upsert, nodeID, key, value))
	}
	for _, key := range remove {
		statements = append(statements, do(upsert, nodeID, key, nil))
	}
	return s.change(ctx, statements, events)
}
