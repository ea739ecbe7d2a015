package wire

import (
	"fmt"
	"slices"
	"strings"
)

// reserved are the keys by which selectors read a node's own fields. A label of that name could not be selected.
var reserved = [...]string{"tenant", "name", "provider", "instance_id", "state", "status", "gpus", "tag"}

// CheckName refuses what is not a node's name: 1 to 63 letters, digits, dots, dashes and underscores, with a letter or a
// digit at both ends.
func CheckName(name string) error {
	if wordForm(name, MaxNameLength) {
		return nil
	}
	return Refuse(CodeBadName, fmt.Sprintf("%.80q is not a node's name", name),
		"a name has 1 to 63 letters, digits, dots, dashes or underscores, and a letter or digit at both ends; choose one with --name")
}

// CheckTenant refuses what is not a tenant's name. A tenant's name has the form of a node's.
func CheckTenant(tenant string) error {
	if wordForm(tenant, MaxNameLength) {
		return nil
	}
	return Refuse(CodeBadRequest, fmt.Sprintf("%.80q is not a tenant's name", tenant),
		"a tenant has 1 to 63 letters, digits, dots, dashes or underscores")
}

// CheckLabels refuses labels that a selector could not name, and more than MaxLabels of them. A key has the form of a name, with one
// optional prefix before a slash. A value has 0 to 128 printable characters and no comma.
func CheckLabels(labels map[string]string) error {
	if len(labels) > MaxLabels {
		return Refuse(CodeBadLabel, fmt.Sprintf("%d labels are too many", len(labels)), fmt.Sprintf("at most %d", MaxLabels))
	}
	for key, value := range labels {
		if err := CheckLabelKey(key); err != nil {
			return err
		}
		if !LabelValue(value) {
			return Refuse(CodeBadLabel, fmt.Sprintf("the value %.80q of label %s cannot be used", value, key),
				"a value has at most 128 printable characters and no comma")
		}
	}
	return nil
}

// CheckLabelKey refuses keys that are reserved or not of a key's form.
func CheckLabelKey(key string) error {
	if IsReserved(key) {
		return Refuse(CodeReservedKey, fmt.Sprintf("%q is a reserved key", key),
			"selectors use it for the node's own "+key+"; choose another name for the label")
	}
	prefix, name, split := strings.Cut(key, "/")
	if !split {
		prefix = "x"
		name = key
	}
	if !wordForm(prefix, MaxLabelKey) || !wordForm(name, MaxLabelKey) {
		return Refuse(CodeBadLabel, fmt.Sprintf("%.80q is not a label's key", key),
			"a key has 1 to 63 letters, digits, dots, dashes or underscores, such as tier or team/owner")
	}
	return nil
}

// CheckInstance refuses a provider or an instance id that is not of a name's form. Both stand in tables and in queries.
func CheckInstance(provider, instanceID string) error {
	if provider != "" && !wordForm(provider, MaxProvider) || instanceID != "" && !wordForm(instanceID, MaxInstanceID) {
		return Refuse(CodeBadRequest, fmt.Sprintf("provider %.80q, instance id %.80q: one of them cannot be used", provider, instanceID),
			"both have letters, digits, dots, dashes or underscores only")
	}
	return nil
}

// IsReserved reports whether a key is one that selectors use for the node itself.
func IsReserved(key string) bool { return slices.Contains(reserved[:], key) }

// wordForm accepts ASCII words that are safe in a path, a table and a shell.
func wordForm(s string, most int) bool {
	return len(s) >= 1 && len(s) <= most && only(s[:1], "") && only(s[len(s)-1:], "") && only(s, ".-_")
}

// only tells whether a text has letters, digits and these characters alone. Of letters it takes ASCII alone: those that look alike in other
// scripts would make names that look the same.
func only(s, others string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune(others, r)
	})
}

// LabelValue reports whether s can be the value of a label.
func LabelValue(s string) bool {
	return len(s) <= MaxLabelValue && strings.TrimSpace(s) == s &&
		!strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' || r == ',' })
}
