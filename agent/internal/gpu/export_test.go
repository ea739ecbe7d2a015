package gpu

// ParseStat is parseStat for the fuzz target.
func ParseStat(line string) (string, bool) { return parseStat(line) }
