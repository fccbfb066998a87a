package browser_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"chaperone/internal/owned/ownedv1"
	"chaperone/internal/sitetest"
)

func TestScroll(t *testing.T) {
	site := sitetest.New(t)
	site.Page("/page", `<style>html { scroll-behavior: smooth }</style><body style="margin:0"><div style="height:5000px;width:4000px">
		<script>window.events = 0; addEventListener('scroll', () => events++)</script>`)
	site.Page("/box", `<body style="margin:0"><div id=outer style="height:100vh;overflow:auto"><div style="height:3000px"></div></div>`)
	site.Page("/wheel", `<body style="height:5000px"><script>addEventListener('wheel', e => e.preventDefault(), {passive: false})</script>`)
	run := shared(t)
	for _, step := range []struct {
		path   string
		dx, dy int64
		check  string
		want   string
	}{
		{"/page", 0, 700, `[scrollX, scrollY].join()`, `"0,700"`},
		{"", 30, -200, `[scrollX, scrollY, events > 0].join()`, `"30,500,true"`},
		{"", 0, 1 << 40, `scrollY`, `4280`},
		{"", 0, 0, `scrollY`, `4280`},
		{"/box", 0, 600, `[scrollY, outer.scrollTop].join()`, `"0,600"`},
		{"/wheel", 0, 600, `scrollY`, `600`},
	} {
		if step.path != "" {
			visit(t, run, site.URL(step.path))
		}
		url := eval(t, run, `location.href`)
		got := must(t, run, ownedv1.Scroll{DX: step.dx, DY: step.dy}).Result.(ownedv1.ScrollResult)
		want := ownedv1.ScrollResult{Scrolled: ownedv1.Delta{DX: step.dx, DY: step.dy}, URL: url[1 : len(url)-1]}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error("-want +got\n" + diff)
		}
		if got := eval(t, run, step.check); got != step.want {
			t.Errorf("%s by %d,%d: got %s, want %s", step.path, step.dx, step.dy, got, step.want)
		}
	}
}
