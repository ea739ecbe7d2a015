package picture

// For tests of this package.
var (
	GaugeOf = gaugeOf
	Amount  = amount
)

func SheetNames() (names []string) {
	for _, line := range sheet() {
		names = append(names, line.name)
	}
	return names
}
