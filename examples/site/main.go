// Command site is the demonstration's web site: a small library that lends
// tools. It needs nothing but itself, so it works without a network.
//
// It listens twice on the loopback address: the library, which the tour allows,
// and the library's back office, which the tour leaves out of scope. It prints
// one line, "LIBRARY BACKOFFICE", and ends with its standard input.
package main

import (
	"embed"
	"fmt"
	"html/template"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"
)

//go:embed pages
var pages embed.FS

var templates = template.Must(template.ParseFS(pages, "pages/*.html"))

// item is something that can be borrowed.
type item struct {
	ID, Name, About, Mark string
	Left                  int
}

// loan is one loan, as the receipt shows it.
type loan struct {
	Number int
	Item   item
	Name   string
	Days   string
	Note   string
}

// library is the site's whole state. Its mutex stands over both fields.
type library struct {
	mu    sync.Mutex
	items []item
	loans []loan
}

func newLibrary() *library {
	return &library{items: []item{
		{"ladder", "Folding ladder", "Four metres when it is open, and it fits into a small car.", "⌇", 2},
		{"drill", "Cordless drill", "Two batteries, a charger and a case of bits.", "⌁", 3},
		{"tent", "Tent for four", "Grey, dry, and patched once, above the door.", "⌂", 1},
		{"press", "Apple press", "Bring your own apples and a dry afternoon.", "◍", 1},
		{"lamp", "Work lamp", "Warm light, five metres of cable.", "☼", 5},
		{"cart", "Bicycle cart", "Carries forty kilos, or two patient children.", "⊚", 2},
	}}
}

func (l *library) find(id string) (int, bool) {
	for i, it := range l.items {
		if it.ID == id {
			return i, true
		}
	}
	return 0, false
}

func (l *library) list(w http.ResponseWriter, _ *http.Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	show(w, "list.html", l.items)
}

func (l *library) form(w http.ResponseWriter, r *http.Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	i, ok := l.find(r.PathValue("id"))
	if !ok {
		http.NotFound(w, r)
		return
	}
	show(w, "form.html", l.items[i])
}

func (l *library) borrow(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, 64<<10)
	l.mu.Lock()
	defer l.mu.Unlock()
	i, ok := l.find(r.PathValue("id"))
	name := strings.TrimSpace(r.FormValue("name"))
	if !ok || name == "" || l.items[i].Left == 0 || len(l.loans) >= 1000 {
		http.Error(w, "That can't be borrowed.", http.StatusConflict)
		return
	}
	l.items[i].Left--
	l.loans = append(l.loans, loan{len(l.loans) + 1, l.items[i], name, r.FormValue("days"), r.FormValue("note")})
	http.Redirect(w, r, fmt.Sprintf("/loans/%d", len(l.loans)), http.StatusSeeOther)
}

func (l *library) receipt(w http.ResponseWriter, r *http.Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, x := range l.loans {
		if fmt.Sprint(x.Number) == r.PathValue("number") {
			show(w, "loan.html", x)
			return
		}
	}
	http.NotFound(w, r)
}

func show(w http.ResponseWriter, name string, data any) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	if err := templates.ExecuteTemplate(w, name, data); err != nil {
		log.Print(err) // the answer has begun: the log is all that is left
	}
}

func (l *library) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", l.list)
	mux.HandleFunc("GET /items/{id}", l.form)
	mux.HandleFunc("POST /items/{id}", l.borrow)
	mux.HandleFunc("GET /loans/{number}", l.receipt)
	mux.HandleFunc("GET /style.css", func(w http.ResponseWriter, r *http.Request) {
		http.ServeFileFS(w, r, pages, "pages/style.css")
	})
	return mux
}

// serve listens on a free port of the loopback address.
func serve(h http.Handler) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	server := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
	go func() { log.Fatal(server.Serve(l)) }()
	return "http://" + l.Addr().String()
}

func main() {
	log.SetFlags(0)
	shop := serve(newLibrary().routes())
	office := serve(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, "Back office: whoever reads this is out of scope.")
	}))
	fmt.Println(shop, office)
	io.Copy(io.Discard, os.Stdin) //nolint:errcheck // its end, however it comes, is ours
}
