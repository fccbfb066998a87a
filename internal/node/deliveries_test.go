package node_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"chaperone/internal/attended/client"
	"chaperone/internal/attended/controlv1"
	"chaperone/internal/store"
	"chaperone/internal/storetest"
)

// One request that two agents each deliver 32 times by MCP and 32 times by REST at one
// moment is one call of each agent: the person is asked by each once, the page acts
// once for each, and every delivery is told the same.
func TestManyDeliveries(t *testing.T) {
	for _, engine := range []string{store.SQLite, store.Postgres} {
		t.Run(engine, func(t *testing.T) {
			s := stand(t, nil)
			if engine == store.Postgres {
				url := storetest.Postgres(t)
				s.end()
				s.config.Database = url
				s.start()
			}
			o := s.settle("Ada")
			p := o.page()
			p.arm()
			p.open()
			value, err := controlv1.ParseValue([]byte(`{"ok":true}`), controlv1.MaxResult)
			if err != nil {
				t.Fatal(err)
			}
			var asked []controlv1.ConfirmationRequest
			k := &killed{o: o}
			frames := k.listen(p.ws, func(controlv1.Call) {})
			both, played := make(chan struct{}), make(chan struct{})
			go func() {
				defer close(played)
				for f := range frames {
					switch f := f.(type) {
					case controlv1.ConfirmationRequest:
						if asked = append(asked, f); len(asked) == 2 {
							close(both)
						}
					case controlv1.Call:
						p.say(controlv1.Result{Call: f.Call, Outcome: controlv1.Success{Value: value}})
					}
				}
			}()
			type told struct {
				Call   string          `json:"call_id"`
				Status string          `json:"status"`
				Effect string          `json:"effect"`
				Result json.RawMessage `json:"result"`
			}
			heard := make([][64]told, 2)
			var all sync.WaitGroup
			for agent := range heard {
				var made struct {
					Token string `json:"token"`
				}
				o.do("POST", "/api/tokens", map[string]any{"name": fmt.Sprint("agent-", agent), "scopes": []string{"control:write"}, "expires_in_s": 3600, "selection": []any{}}, &made)
				carrier, err := client.NewHTTP(s.origin, func(context.Context) (string, error) { return made.Token, nil }, client.HTTPOptions{})
				if err != nil {
					t.Fatal(err)
				}
				c, m := client.New(carrier), s.mcp(made.Token)
				e := p.called(p.lease(c), "write", "the-same")
				body, err := controlv1.EncodeAction(e)
				if err != nil {
					t.Fatal(err)
				}
				for n := range 64 {
					all.Go(func() {
						into := &heard[agent][n]
						if n%2 == 0 {
							got, err := m.CallTool(t.Context(), &sdk.CallToolParams{Name: "browser_control", Arguments: json.RawMessage(body)})
							if err == nil && !got.IsError {
								text, _ := json.Marshal(got.StructuredContent)
								err = json.Unmarshal(text, into)
							}
							if err != nil || got.IsError {
								t.Errorf("MCP: %v %v", err, got)
							}
							return
						}
						q, err := http.NewRequest("POST", s.origin+"/browser/control", strings.NewReader(string(body)))
						if err != nil {
							t.Error(err)
							return
						}
						q.Header.Set("Authorization", "Bearer "+made.Token)
						q.Header.Set("Content-Type", "application/json")
						r, err := http.DefaultClient.Do(q)
						if err != nil {
							t.Error(err)
							return
						}
						defer r.Body.Close()
						var answer struct{ Result *told }
						if answer.Result = into; json.NewDecoder(r.Body).Decode(&answer) != nil || r.StatusCode != http.StatusOK {
							t.Errorf("REST: %d", r.StatusCode)
						}
					})
				}
			}
			<-both
			for _, q := range asked {
				p.say(controlv1.Confirm{Call: q.Call, Confirmation: q.Confirmation})
			}
			all.Wait()
			for agent := range heard {
				with := 0
				for n, h := range heard[agent] {
					if h.Call != heard[agent][0].Call || h.Status != "succeeded" || h.Effect != "browser_reported_committed" {
						t.Errorf("agent %d, delivery %d: %+v", agent, n, h)
					}
					if string(h.Result) == `{"ok":true}` {
						with++
					}
				}
				if with == 0 {
					t.Errorf("agent %d: nobody was told the result", agent)
				}
				t.Logf("%d of 64 were told the result", with)
			}
			if heard[0][0].Call == heard[1][0].Call {
				t.Error("two agents have one call")
			}
			p.ws.CloseNow()
			<-played
			if len(asked) != 2 || len(k.frames) != 2 {
				t.Errorf("asked %d times, sent %d times", len(asked), len(k.frames))
			}
			s.end()
			s.invariants(t)
		})
	}
}
