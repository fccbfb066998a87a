package browser

// For the fuzz targets, which need no engine.
var (
	MatchURL    = matchURL
	CleanText   = cleanText
	Fenced      = fenced
	DecodeState = func(raw []byte) error { _, err := decodeState(raw); return err }
)

// EndScripts ends whatever runs in the active tab now, as the stop of an action that
// was cut short does.
func (b *Browser) EndScripts() {
	b.mu.Lock()
	t := b.active
	b.mu.Unlock()
	if t != nil {
		t.endScripts()
	}
}
