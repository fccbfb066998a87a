package pagetest

import (
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Click presses the pointer's main button on the middle of an element that is on
// view and takes presses, after it has been scrolled to.
func (p *Page) Click(selector string) {
	p.t.Helper()
	p.Wait("!(document.querySelector(" + Quote(selector) + ")?.matches(':disabled, [aria-disabled=true], [aria-busy=true]') ?? true)")
	p.ClickOn("document.querySelector(" + Quote(selector) + ")")
}

// ClickText clicks the button, link or option whose words are these.
func (p *Page) ClickText(words string) {
	p.t.Helper()
	p.ClickOn(byText(words))
}

func byText(words string) string {
	return `[...document.querySelectorAll('button, a, [role=option], label')].filter(e => e.checkVisibility() && e.innerText.trim() === ` + Quote(words) + `).pop()`
}

// ClickOn clicks the element that an expression answers, whether it takes presses
// or not, once the page has loaded and nothing covers or moves it.
func (p *Page) ClickOn(expression string) {
	p.t.Helper()
	p.Wait(`(() => {
		const e = ` + expression + `;
		if (document.readyState !== "complete" || !e?.checkVisibility() || e.closest("[aria-busy=true]")) return false;
		e.scrollIntoView({block: "center", inline: "center", behavior: "instant"});
		const r = e.getBoundingClientRect(), x = r.x + r.width / 2, y = r.y + r.height / 2, top = document.elementFromPoint(x, y);
		const hit = top?.shadowRoot?.elementFromPoint(x, y) ?? top; // what lies in a shadow tree is hit as its host
		const was = window.pagetestAt;
		window.pagetestAt = {x, y, e};
		return hit !== null && (e.contains(hit) || hit.contains(e)) && was?.x === x && was?.y === y && was?.e === e;
	})()`)
	var at map[string]float64
	p.Eval(`(({x, y}) => ({x, y}))(window.pagetestAt)`, &at)
	p.Do("Input.dispatchMouseEvent", object{"type": "mouseMoved", "x": at["x"], "y": at["y"]}, nil)
	for _, kind := range []string{"mousePressed", "mouseReleased"} {
		p.Do("Input.dispatchMouseEvent", object{"type": kind, "x": at["x"], "y": at["y"], "button": "left", "clickCount": 1}, nil)
	}
}

// keys are those with a name of their own: code, number, and the text they make.
var keys = map[string]struct {
	code string
	vk   int
	text string
}{
	"Enter": {"Enter", 13, "\r"}, "Tab": {"Tab", 9, ""}, "Escape": {"Escape", 27, ""}, " ": {"Space", 32, " "},
	"ArrowDown": {"ArrowDown", 40, ""}, "ArrowUp": {"ArrowUp", 38, ""}, "Backspace": {"Backspace", 8, ""},
}

// Press presses and lets go a key, "Tab", "Shift+Tab", "Control+k", "?".
func (p *Page) Press(key string) {
	p.t.Helper()
	modifiers := 0
	for name, bit := range map[string]int{"Shift+": 8, "Control+": 2, "Meta+": 4, "Alt+": 1} {
		if rest, ok := strings.CutPrefix(key, name); ok && rest != "" {
			key, modifiers = rest, modifiers|bit
		}
	}
	params := object{"key": key, "modifiers": modifiers}
	text := key
	if k, ok := keys[key]; ok {
		params["code"], params["windowsVirtualKeyCode"], text = k.code, k.vk, k.text
	} else {
		params["windowsVirtualKeyCode"] = int(strings.ToUpper(key)[0])
	}
	down := object{"type": "rawKeyDown"}
	if text != "" && modifiers&^8 == 0 {
		down = object{"type": "keyDown", "text": text}
	}
	for name, v := range params {
		down[name] = v
	}
	p.Do("Input.dispatchKeyEvent", down, nil)
	params["type"] = "keyUp"
	p.Do("Input.dispatchKeyEvent", params, nil)
}

// Type puts text where the focus is, as an input method does.
func (p *Page) Type(text string) {
	p.t.Helper()
	p.Do("Input.insertText", object{"text": text}, nil)
}

// Fill focuses a field and puts text into it.
func (p *Page) Fill(selector, text string) {
	p.t.Helper()
	p.Wait("document.querySelector(" + Quote(selector) + ")")
	p.Eval("document.querySelector("+Quote(selector)+").focus()", nil)
	p.Type(text)
}

// Upload chooses a file where act makes the browser ask for one.
func (p *Page) Upload(path string, act func()) {
	p.t.Helper()
	p.Do("Page.setInterceptFileChooserDialog", object{"enabled": true}, nil)
	act()
	select {
	case node := <-p.chooser:
		p.Do("DOM.setFileInputFiles", object{"files": []string{path}, "backendNodeId": node}, nil)
	case <-time.After(waits):
		p.t.Fatal("the page asked for no file")
	}
	p.Do("Page.setInterceptFileChooserDialog", object{"enabled": false}, nil)
}

// Download saves what act makes the page offer, and answers its name and content.
func (p *Page) Download(act func()) (name string, content []byte) {
	p.t.Helper()
	dir := p.t.TempDir()
	p.Do("Browser.setDownloadBehavior", object{"behavior": "allow", "downloadPath": dir, "browserContextId": p.Profile.id}, nil)
	act()
	for end := time.Now().Add(waits); time.Now().Before(end); time.Sleep(15 * time.Millisecond) {
		files, err := os.ReadDir(dir)
		if err != nil {
			p.t.Fatal(err)
		}
		if len(files) == 1 && !strings.HasSuffix(files[0].Name(), ".crdownload") {
			if content, err = os.ReadFile(filepath.Join(dir, files[0].Name())); err != nil {
				p.t.Fatal(err)
			}
			return files[0].Name(), content
		}
	}
	p.t.Fatal("nothing was saved")
	return "", nil
}
