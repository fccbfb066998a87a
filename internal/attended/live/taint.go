package live

import (
	"maps"
	"time"

	"chaperone/internal/ref"
)

// taintTime is how long what an agent read counts: no lease, arm or channel that was
// there when it read outlives it.
const taintTime = 15 * time.Minute

// reader is who has read: an agent, for a person. What it read goes with it from
// lease to lease and from page to page, so a fresh lease doesn't wash it off.
type reader struct {
	person ref.Principal
	agent  string // "" is the person's own session
}

func (f *flight) reader() reader {
	return reader{f.c.evidence.Principal, f.caller.Who.Agent()}
}

// clean are the only tools of our own page whose answers hold nothing that somebody
// else may have written: items may have come by mail, and so may what is marked on
// the page or stands in its title.
var clean = map[string]bool{"collections_list": true, "navigate": true, "item_write": true, "item_delete": true}

// tainted tells whether a reader has read what other people may have written.
func (a *Authority) tainted(r reader) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return time.Now().Before(a.taint[r])
}

// tainted tells it of who asks for this call, by what this node remembers and what the
// record said of the others as the call was prepared.
func (f *flight) tainted() bool { return f.heard || f.a.tainted(f.reader()) }

// taints remembers, before anybody is told a result, that its reader has it. What
// another page answers may be anybody's text, whatever the tool is classed as.
func (f *flight) taints() {
	if f.a.own(f.c.place.Origin) && clean[f.tool.ID().String()] {
		return
	}
	now := time.Now()
	f.a.mu.Lock()
	defer f.a.mu.Unlock()
	maps.DeleteFunc(f.a.taint, func(_ reader, until time.Time) bool { return !now.Before(until) })
	f.a.taint[f.reader()] = now.Add(taintTime)
}
