package registry

// Plans are queries that must not read more than they need, each with a part of the plan by which SQLite does that.
func Plans() map[string]string {
	const names = "SEARCH n USING PRIMARY KEY (repository=? AND manifest=?)"
	return map[string]string{
		needed + "SELECT 1 FROM needed": names,
		below + "SELECT 1 FROM below":   names,
		bytesKept:                       "SCAN registry_manifests USING COVERING INDEX registry_manifests_size",
		referrers:                       "SEARCH registry_manifests USING INDEX registry_manifests_subject (repository=? AND subject=?)",
	}
}
