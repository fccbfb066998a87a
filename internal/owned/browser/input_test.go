package browser_test

import (
	"strings"
	"testing"
	"time"

	"chaperone/internal/owned/browser"
	"chaperone/internal/owned/ownedv1"
	"chaperone/internal/refusal"
)

// TestCaseClickReaches clicks what a mouse can reach, wherever it stands.
func TestCaseClickReaches(t *testing.T) {
	t.Parallel()
	const count = `<script>window.n=0</script>`
	const hit = ` onclick="window.top.n=(window.top.n||0)+1"`
	frame := `<button id=b` + hit + `>in</button><input id=f>`
	shadow := count + `<x-host></x-host><script>
		const a=document.querySelector('x-host').attachShadow({mode:'open'});
		a.innerHTML='<div><y-inner></y-inner></div>';
		const b=a.querySelector('y-inner').attachShadow({mode:'open'});
		b.innerHTML='<button id=b>deep</button><input id=f>';
		b.querySelector('button').onclick=()=>window.n++;
	</script>`
	apart := `<p>apart</p><button id=b onclick="parent.postMessage(1,'*')">in</button><input id=f oninput="parent.postMessage(this.value,'*')">`
	listen := `<script>window.n=0;onmessage=e=>{if(e.data===1)window.n++;else window.v=e.data}</script>`
	cases := []struct {
		name, page, selector string
	}{
		{"plain", count + `<button id=b` + hit + `>x</button>`, "#b"},
		{"below the fold", count + `<div style="height:5000px"></div><button id=b` + hit + `>x</button>`, "#b"},
		{"in a scroller", count + `<div style="height:100px;overflow:auto"><div style="height:900px"></div><button id=b` + hit + `>x</button></div>`, "#b"},
		{"under a sticky header", count + `<div style="position:fixed;top:0;left:0;right:0;height:300px;background:red"></div><div style="height:1280px"></div><button id=b` + hit + `>x</button><div style="height:3000px"></div><script>scrollTo(0,1100)</script>`, "#b"},
		{"a link that wraps", count + `<div style="width:120px;font:20px monospace">aaaaaa <a id=b href="#"` + hit + `>bbbb cc</a></div>`, "#b"},
		{"an inner element of the button", count + `<button id=b` + hit + `><span>deep <b>er</b></span></button>`, "#b"},
		{"a label over its checkbox", count + `<label style="position:relative;display:block;width:90px"><span style="position:absolute;inset:0;background:#eee;z-index:1">over</span><input type=checkbox id=b` + hit + `></label>`, "#b"},
		{"two shadow roots deep", shadow, "#b"},
		{"a selector across shadow roots", shadow, "x-host y-inner > button"},
		{"a same-site frame", count + `<iframe src="/frame"></iframe>`, "#b"},
		{"a frame with a pointer cursor", count + `<iframe src="/frame" style="cursor:pointer;border:7px solid;padding:9px"></iframe>`, "#b"},
		{"a frame in a frame", count + `<iframe src="/outer" style="width:600px;height:400px"></iframe>`, "#b"},
		{"a scaled frame", count + `<iframe src="/frame" style="transform:scale(0.5);transform-origin:0 0"></iframe>`, "#b"},
		{"a same-site frame of another origin", listen + `<div style="height:2000px"></div><iframe src="http://www.app.test/apart"></iframe>`, "#b"},
		{"a moving button", count + `<style>@keyframes m{from{margin-left:0}to{margin-left:300px}}</style><button id=b style="animation:m 300ms linear forwards"` + hit + `>x</button>`, "#b"},
		{"a button that grows under the mouse", count + `<style>#b:hover{padding:20px}</style><button id=b` + hit + `>x</button>`, "#b"},
		{"the first match", count + `<button class=b` + hit + `>x</button><button class=b>y</button>`, ".b"},
	}
	d := sit(t, map[string]string{
		"/frame": frame, "/apart": apart, "/outer": `<iframe src="/frame" style="margin:40px"></iframe>`,
	})
	for i, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			d := d.with(t)
			path := "/case" + string(rune('a'+i))
			d.pages.set(path, c.page)
			d.open("http://app.test" + path)
			d.click(c.selector)
			d.wantSoon("window.n", "1")
		})
	}
}

// TestCaseClickWaits waits for what isn't ready yet, and clicks it once.
func TestCaseClickWaits(t *testing.T) {
	t.Parallel()
	d := sit(t, map[string]string{
		"/late": `<div id=slot></div><script>setTimeout(()=>{const b=document.createElement('button');b.id='b';b.textContent='x';b.disabled=true;
			b.onclick=()=>window.n=(window.n||0)+1;slot.append(b);setTimeout(()=>{b.disabled=false;window.at=performance.now()},300)},300)</script>`,
		"/cover":  `<button id=b onclick="window.n=(window.n||0)+1">x</button><div id=c style="position:fixed;inset:0" onclick="window.wrong=1"></div><script>setTimeout(()=>c.remove(),500)</script>`,
		"/hidden": `<button id=b style="visibility:hidden" onclick="window.n=(window.n||0)+1">x</button><script>setTimeout(()=>b.style.visibility='',200)</script>`,
		"/root":   `<div id=h></div><script>setTimeout(()=>{h.attachShadow({mode:'open'}).innerHTML='<button id=b>x</button>';h.shadowRoot.firstChild.onclick=()=>window.n=(window.n||0)+1},200)</script>`,
	})
	for _, path := range []string{"/late", "/cover", "/hidden", "/root"} {
		t.Run(path[1:], func(t *testing.T) {
			d := d.with(t)
			d.open("http://app.test" + path)
			d.click("#b")
			d.want("window.n", "1")
			d.want("window.wrong ?? 0", "0")
		})
	}
}

// TestCaseClickRefuses fails without clicking anything, and says why.
func TestCaseClickRefuses(t *testing.T) {
	t.Parallel()
	d := sit(t, map[string]string{
		"/": `<body onclick="window.n=1"><button id=under>x</button><div id=veil class="a b" style="position:fixed;inset:0">secret text</div>
			<button id=off disabled style="position:relative;z-index:9">x</button><button id=gone style="display:none">x</button>`,
		"/top": `<div id=veil style="position:fixed;inset:0"></div><iframe src="/in"></iframe>`,
		"/in":  `<button id=b onclick="top.n=1">x</button>`,
	})
	d.open("http://app.test/")
	began := time.Now()
	f := d.fail(10*time.Second, ownedv1.Click{Selector: "#under", TimeoutMS: 8000}, refusal.Covered)
	if took := time.Since(began); took < 2900*time.Millisecond || took > 7*time.Second {
		t.Errorf("a cover was told after %v, want 3 s", took)
	}
	if !strings.Contains(f.Detail, "div#veil.a.b") || strings.Contains(f.Detail, "secret") || f.Sent {
		t.Errorf("detail %q, sent %v; want the cover named, without its text", f.Detail, f.Sent)
	}
	d.fail(5*time.Second, ownedv1.Click{Selector: "#off", TimeoutMS: 200}, refusal.TimedOut)
	d.fail(5*time.Second, ownedv1.Click{Selector: "#gone", TimeoutMS: 200}, refusal.TimedOut)
	d.fail(5*time.Second, ownedv1.Click{Selector: "#absent", TimeoutMS: 2000}, refusal.NotFound) // long enough for one look anywhere
	d.fail(5*time.Second, ownedv1.Click{Selector: "a[[", TimeoutMS: 200}, refusal.Failed)
	f = d.fail(300*time.Millisecond, ownedv1.Click{Selector: "#off"}, refusal.TimedOut)
	if f.Code != refusal.BrowserTimeout {
		t.Errorf("at the deadline: %s, want %s", f.Code, refusal.BrowserTimeout)
	}
	d.want("window.n ?? 0", "0")
	d.open("http://app.test/top")
	d.fail(8*time.Second, ownedv1.Click{Selector: "#b"}, refusal.Covered)
	d.want("window.n ?? 0", "0")
}

// TestCaseOption chooses an option of a closed select, by click and by type.
func TestCaseOption(t *testing.T) {
	t.Parallel()
	d := sit(t, map[string]string{
		"/": `<select id=s onchange="window.c=(window.c||0)+1" oninput="window.i=(window.i||0)+1"><option value=r>Rome<option id=o value=o>Oslo<option disabled id=x>Bonn</select>
			<select id=m multiple size=3><option>a<option id=mb>b<option>c</select>
			<div id=combo role=combobox tabindex=0 onclick="list.hidden=false">pick</div><ul id=list hidden><li id=li onclick="window.chosen=1">one</ul>`,
	})
	d.open("http://app.test/")
	d.click("#o")
	d.want("[s.value, c, i]", `["o",1,1]`)
	d.typ("#s", "Rome")
	d.want("[s.value, c, i]", `["r",2,2]`)
	d.typ("#s", "o")
	d.want("[s.value, c, i]", `["o",3,3]`)
	d.fail(5*time.Second, ownedv1.Type{Selector: "#s", Text: "Paris"}, refusal.NotFound)
	d.fail(5*time.Second, ownedv1.Type{Selector: "#s", Text: "Bonn"}, refusal.Failed)
	d.fail(5*time.Second, ownedv1.Click{Selector: "#x", TimeoutMS: 200}, refusal.TimedOut)
	d.want("[s.value, c, i]", `["o",3,3]`)
	d.click("#mb")
	d.want("[...m.selectedOptions].map(o=>o.value)", `["b"]`)
	d.do(browser.SelectOption{Selector: "#m", Values: []string{"a", "c"}})
	d.want("[...m.selectedOptions].map(o=>o.value)", `["a","c"]`)
	// A custom combobox is what it is, not a select.
	d.click("#combo")
	d.click("#li")
	d.want("window.chosen", "1")
	d.fail(5*time.Second, browser.SelectOption{Selector: "#combo", Values: []string{"one"}, TimeoutMS: 500}, refusal.Failed)
}
