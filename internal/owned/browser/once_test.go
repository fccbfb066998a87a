package browser_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"chaperone/internal/owned/browser"
	"chaperone/internal/owned/ownedv1"
	"chaperone/internal/refusal"
)

// TestCaseSentUnconfirmed tells the third outcome apart and never clicks twice.
func TestCaseSentUnconfirmed(t *testing.T) {
	t.Parallel()
	d := sit(t, map[string]string{"/": `<button id=b onclick="localStorage.n=Number(localStorage.n||0)+1;const e=performance.now()+3000;while(performance.now()<e);">x</button>`})
	for _, wire := range []bool{false, true} {
		d.open("http://app.test/")
		d.js(`localStorage.n=0`)
		click, limit, code := ownedv1.Click{Selector: "#b", TimeoutMS: 700}, 5*time.Second, refusal.BrowserActionFailed
		if wire {
			click.TimeoutMS, limit, code = 0, 700*time.Millisecond, refusal.BrowserTimeout
		}
		began := time.Now()
		f := d.fail(limit, click, refusal.SentUnconfirmed)
		if took := time.Since(began); took > 2500*time.Millisecond || !f.Sent || f.Code != code {
			t.Errorf("after %v: sent %v, code %s; want sent, %s", took, f.Sent, f.Code, code)
		}
		// The handler has begun, once; nothing clicks again later.
		time.Sleep(500 * time.Millisecond)
		d.open("http://app.test/")
		d.want("localStorage.n", `"1"`)
	}
}

// TestCaseChosenUnconfirmed is the same for what is set and not clicked.
func TestCaseChosenUnconfirmed(t *testing.T) {
	t.Parallel()
	d := sit(t, map[string]string{"/": `<select id=s onchange="localStorage.n=Number(localStorage.n||0)+1;const e=performance.now()+3000;while(performance.now()<e);"><option>a<option id=o>b</select>`})
	for _, a := range []ownedv1.Action{
		ownedv1.Type{Selector: "#s", Text: "b", TimeoutMS: 700}, ownedv1.Click{Selector: "#o", TimeoutMS: 700},
		browser.SelectOption{Selector: "#s", Values: []string{"b"}, TimeoutMS: 700},
	} {
		d.open("http://app.test/")
		d.js(`localStorage.n=0`)
		if f := d.fail(5*time.Second, a, refusal.SentUnconfirmed); !f.Sent {
			t.Errorf("%s isn't told as sent", a.Name())
		}
		d.open("http://app.test/")
		d.want("localStorage.n", `"1"`)
	}
}

// TestCaseCancelled stops the waiting: nothing is done to the page later.
func TestCaseCancelled(t *testing.T) {
	t.Parallel()
	d := sit(t, map[string]string{"/": `<body><script>setTimeout(()=>{document.body.innerHTML='<button id=b onclick="window.n=1">x</button><input id=f><select id=s onchange="window.n=2"><option>a<option>b</select>'},400)</script>`})
	for _, a := range []ownedv1.Action{
		ownedv1.Click{Selector: "#b"}, ownedv1.Type{Selector: "#f", Text: "late"}, ownedv1.Type{Selector: "#s", Text: "b"},
	} {
		d.open("http://app.test/")
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(100*time.Millisecond, cancel)
		_, err := d.b.Do(ctx, a)
		var f *browser.Failure
		if !errors.As(err, &f) || f.Reason != refusal.Cancelled || f.Sent {
			t.Errorf("%s: %v, want cancelled and not sent", a.Name(), err)
		}
		time.Sleep(600 * time.Millisecond)
		d.want(`[window.n ?? 0, document.querySelector('#f')?.value, document.querySelector('#s')?.value]`, `[0,"","a"]`)
	}
}

// TestCaseClickOutcome tells what a click has started.
func TestCaseClickOutcome(t *testing.T) {
	t.Parallel()
	d := sit(t, map[string]string{
		"/alert":   `<button id=b onclick="window.before=1;alert('hello');window.after=1">x</button><button id=late onclick="setTimeout(()=>confirm('sure?'),0)">y</button>`,
		"/links":   `<a id=go href="/done">go</a><a id=pop target=_blank href="/done">pop</a><a id=out href="http://out.test/">out</a><form action="/done"><button id=send>send</button></form><button id=close onclick="window.close()">c</button>`,
		"/done":    `<h1>done</h1>`,
		"/slow":    `<a id=go href="/hang">go</a>`,
		"/replace": `<button id=b onclick="setTimeout(()=>location.href='/done',0)">x</button>`,
	})
	d.open("http://app.test/alert")
	a := d.do(ownedv1.Click{Selector: "#b"})
	if len(a.Notes.Dialogs) != 1 || a.Notes.Dialogs[0].Message != "hello" {
		t.Errorf("dialogs %+v, want the alert", a.Notes.Dialogs)
	}
	d.want("[before, after]", "[1,1]")

	d.do(browser.SetDialogs{Mode: browser.DialogsHold})
	a = d.do(ownedv1.Click{Selector: "#b"})
	if len(a.Notes.Dialogs) != 1 || a.Notes.Dialogs[0].Outcome != "open" {
		t.Errorf("dialogs %+v, want the alert, open", a.Notes.Dialogs)
	}
	d.fail(5*time.Second, ownedv1.Click{Selector: "#late"}, refusal.DialogOpen)
	d.fail(5*time.Second, browser.Snapshot{}, refusal.DialogOpen)
	d.do(browser.AnswerDialog{Accept: true})
	d.wantSoon("after", "1")
	d.do(browser.SetDialogs{Mode: browser.DialogsDismiss})

	d.open("http://app.test/links")
	if r := d.do(ownedv1.Click{Selector: "#go"}).Result.(ownedv1.ClickResult); r.URL != "http://app.test/done" {
		t.Errorf("after a link: %+v", r)
	}
	d.open("http://app.test/links")
	if r := d.do(ownedv1.Click{Selector: "#send"}).Result.(ownedv1.ClickResult); r.URL != "http://app.test/done?" {
		t.Errorf("after a form: %+v", r)
	}
	d.open("http://app.test/links")
	_, f := d.try(5*time.Second, ownedv1.Click{Selector: "#out"})
	if f == nil || f.Code != refusal.BrowserScopeDenied || !f.Sent {
		t.Errorf("a link out of scope: %v", f)
	}
	a = d.do(ownedv1.Click{Selector: "#pop"})
	if strings.Join(a.Notes.NewTabs, ",") != "popup-1" || a.Result.(ownedv1.ClickResult).URL != "http://app.test/links" || a.Notes.Tab != "main" {
		t.Errorf("after target=_blank: %+v", a)
	}
	d.open("http://app.test/replace")
	if r := d.do(ownedv1.Click{Selector: "#b"}).Result.(ownedv1.ClickResult); r.URL != "http://app.test/done" {
		t.Errorf("after a script's navigation: %+v", r)
	}
}
