package browser_test

import (
	"testing"

	"chaperone/internal/owned/browser"
	"chaperone/internal/owned/ownedv1"
)

const staticPage = `<h1>Static page</h1><p>A short paragraph with <a href="/form">a link</a>.</p>
<button id="go" onclick="window.clicks=(window.clicks||0)+1;document.getElementById('n').textContent=window.clicks">Go</button>
<span id="n">0</span><label for="name">Name</label> <input id="name" name="name">`

func BenchmarkClick(b *testing.B) {
	d := sit(b, map[string]string{"/": staticPage})
	d.open("http://app.test/")
	for b.Loop() {
		d.click("#go")
	}
}

func BenchmarkType(b *testing.B) {
	d := sit(b, map[string]string{"/": staticPage})
	d.open("http://app.test/")
	i := 0
	for b.Loop() {
		i++
		d.typ("#name", "hello "+string(rune('a'+i%26)))
	}
}

func BenchmarkSnapshot2k(b *testing.B) {
	d := sit(b, map[string]string{"/": nodesPage()})
	d.open("http://app.test/")
	for b.Loop() {
		d.snapshot(browser.Snapshot{})
	}
}

func BenchmarkClickLate(b *testing.B) {
	d := sit(b, map[string]string{"/": `<div id="slot"></div><script>
setTimeout(function () {
  var b = document.createElement('button');
  b.id = 'late'; b.textContent = 'Late'; b.disabled = true;
  b.onclick = function () { window.clicks = (window.clicks || 0) + 1; };
  document.getElementById('slot').appendChild(b);
  setTimeout(function () { b.disabled = false; }, 300);
}, 300);
</script>`})
	for b.Loop() {
		b.StopTimer()
		d.open("http://app.test/")
		b.StartTimer()
		d.do(ownedv1.Click{Selector: "#late"})
	}
}
