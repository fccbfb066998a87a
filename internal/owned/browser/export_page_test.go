package browser

// For the fuzz targets, which need no engine.
var (
	MatchURL    = matchURL
	CleanText   = cleanText
	Fenced      = fenced
	DecodeState = func(raw []byte) error { _, err := decodeState(raw); return err }
)
