package node_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"chaperone/internal/node"
	"chaperone/internal/pagetest"
	"chaperone/internal/portal/operation"
	"chaperone/internal/surface/guard"
)

// An owner's read of an item through guard and the owner API, beside a bare handler
// that does one session look-up and the same operation.
func BenchmarkOwnerRead(b *testing.B) {
	s := stand(b, func(c *node.Config) { c.Quotas.PerSecond, c.Quotas.Burst = 1e7, 1e7 })
	o := s.settle("Ada")
	o.do("PUT", "/api/collections/files/item", map[string]any{"item": "a", "content": "hello", "if_absent": true, "request_id": requestID(0, 0, 1)}, nil)
	handler, sessions, desk := s.node.Parts()
	ask := func(h http.Handler) func(b *testing.B) {
		return func(b *testing.B) {
			for b.Loop() {
				r := o.request("GET", "/api/collections/files/item?item=a", nil, o.dress)
				r.RequestURI, r.RemoteAddr, r.Host = r.URL.RequestURI(), "127.0.0.1:1", r.URL.Host
				w := httptest.NewRecorder()
				h.ServeHTTP(w, r)
				if w.Code != http.StatusOK {
					b.Fatal(w.Code, w.Body)
				}
			}
		}
	}
	cookie, key := o.agent.Cookie(guard.Cookie), o.secret
	bare := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		found, err := sessions.Find(r.Context(), cookie)
		if err == nil {
			err = sessions.CheckKey(r.Context(), found, key)
		}
		if err != nil {
			b.Error(err)
			return
		}
		p, err := found.Principal()
		if err != nil {
			b.Error(err)
			return
		}
		data, err := desk.Call(r.Context(), operation.Caller{Principal: p, Transport: operation.Owner, Session: found.ID}, "item_read", []byte(`{"collection":"files","item":"a"}`))
		if err != nil {
			b.Error(err)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Write(data)
	})
	b.Run("bare", ask(bare))
	b.Run("owner", ask(handler))
}

// What the portal's first page costs: bytes over the network, and the time to its
// first paint with everything from the server.
func BenchmarkFirstPaint(b *testing.B) {
	s := stand(b, nil)
	engine := pagetest.Start(b)
	var bytes, paint float64
	n := 0
	for b.Loop() {
		p := engine.Page(pagetest.Look{})
		p.Goto(s.origin + "/")
		p.Wait(`performance.getEntriesByName("first-contentful-paint").length`)
		var at float64
		p.Eval(`performance.getEntriesByName("first-contentful-paint")[0].startTime`, &at)
		bytes, paint, n = bytes+float64(p.Received()), paint+at, n+1
		p.Close()
	}
	b.ReportMetric(bytes/float64(n)/1000, "KB")
	b.ReportMetric(paint/float64(n), "paint-ms")
}
