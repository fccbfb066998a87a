package host

import (
	"context"

	"chaperone/internal/owned/browser"
)

// Glimpse answers what a person who watches the run sees now. It is no action: it
// takes no turn and isn't journalled. Errors are those of browser.Glimpse.
func (h *Host) Glimpse(ctx context.Context) (browser.Glimpse, error) {
	return h.machine.browser.Glimpse(ctx)
}
