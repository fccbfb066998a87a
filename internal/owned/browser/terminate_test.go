package browser_test

import (
	"testing"
	"time"

	"chaperone/internal/owned/browser"
	"chaperone/internal/storetest"
)

// The stop of an action in a document's first moment may end the very script that
// looks into it; whatever is asked of that document afterwards works all the same.
func TestCutShortInTheFirstMoment(t *testing.T) {
	d := sit(t, map[string]string{"/": `<p id=a>x</p>`})
	for i := range storetest.Rounds(100, 3000) {
		d.open("http://app.test/")
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			time.Sleep(time.Duration(i%40) * 100 * time.Microsecond)
			d.b.EndScripts()
		}()
		_, _ = d.try(5*time.Second, browser.WaitFor{Selector: "#none", TimeoutMS: 50})
		<-ended
		if _, failure := d.try(10*time.Second, browser.WaitFor{Selector: "#a"}); failure != nil {
			t.Fatalf("round %d: %v", i, failure)
		}
	}
}
