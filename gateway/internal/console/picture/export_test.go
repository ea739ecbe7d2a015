package picture

// For tests of this package.
var (
	GaugeOf    = gaugeOf
	SheetNames = sheetNames
	Amount     = amount
)
